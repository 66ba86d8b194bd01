"""Models of XGBoost: JSON, or the same document in Universal Binary JSON.

Source: ubjson.org and ``doc/tutorials/saving_model.rst`` of XGBoost. Arrays of one type are told as
tensors; in JSON only the frame is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Integrity,
    Kind,
    Presence,
    Scalar,
    TensorInfo,
)

from .cursor import Cursor
from .documents import LONGEST, below, parse
from .draft import Draft, Item
from .source import Damage
from .stretches import Stretch, bounded, info_of

BINARY = b"{L\0\0\0\0\0\0\0"
"""The first bytes of the binary form: a mapping whose first key has fewer than 256 letters."""
TEXT = b'{"learner"'

_TOLD = (
    ("learner", "learner_model_param", "num_feature"),
    ("learner", "learner_model_param", "num_class"),
    ("learner", "gradient_booster", "name"),
    ("learner", "gradient_booster", "model", "gbtree_model_param", "num_trees"),
    ("learner", "objective", "name"),
)
_NUMBERS: Mapping[int, tuple[str, str]] = {
    ord("i"): ("b", "int8"),
    ord("U"): ("B", "uint8"),
    ord("I"): ("h", "int16"),
    ord("l"): ("i", "int32"),
    ord("L"): ("q", "int64"),
    ord("d"): ("f", "float32"),
    ord("D"): ("d", "float64"),
}
"""Marker, code of ``struct`` and torch's name of each type of number; all are big-endian."""
_CONSTANTS = b"ZTFN"
_ARRAY, _MAPPING, _TEXT, _HIGH, _CHAR = b"[{SHC"
_ENDS = {_ARRAY: ord("]"), _MAPPING: ord("}")}


def read_xgboost(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    draft.integrity = Integrity.ABSENT
    if draft.source.head(len(BINARY)) == BINARY:
        yield from _binary(draft)
    else:
        yield from _text(draft)


def _text(draft: Draft) -> Iterator[Item]:
    """The document must be whole; what its arrays say is not looked at. Raises Damage."""
    if draft.source.size > LONGEST:
        raise Damage(FaultCode.TOO_LARGE, f"{draft.source.size} bytes of JSON are over the limit")
    model = parse(draft.source.read(0, draft.source.size), "the model")
    draft.metadata = [
        Scalar("/".join(keys), value[: draft.limits.value])
        for keys in _TOLD
        if isinstance(value := below(model, *keys), str)
    ]
    draft.reason = "of a model in JSON only the frame is read"
    yield draft.done(Extent.STRUCTURE_ONLY)


def _binary(draft: Draft) -> Iterator[Item]:
    reading = _Reading(draft)
    try:
        for info in reading.run():
            yield draft.tensor(info)
    except Damage as damage:
        yield from draft.broken(damage)
        return
    left = draft.source.size - reading.cursor.at
    if left:
        what = f"{left} bytes after the end of the model"
        draft.defects.append(Defect(DefectCode.CONTAINER_ODD, what))
    draft.metadata = reading.told
    yield draft.done()


class _Open(msgspec.Struct):
    """A container. ``left``: values to come, None where a mark ends it; ``kind``: of all values,
    0 where each has its own marker.
    """

    name: str
    mapping: bool
    left: int | None
    kind: int = 0
    next: int = 0


class _Reading:
    def __init__(self, draft: Draft) -> None:
        self.draft, self.cursor = draft, Cursor(draft.source)
        self.told: list[Scalar] = []
        self._stack: list[_Open] = []
        self._names = {"/".join(keys) for keys in _TOLD}

    def run(self) -> Iterator[TensorInfo]:
        """One value, and everything below it. Raises Damage."""
        yield from self._value("", self._marker())
        for _ in range(self.draft.limits.fields):
            if not self._stack:
                return
            place = self._stack[-1]
            kind = self._next(place)
            if kind is None:
                self._stack.pop()
            else:
                yield from self._value(self._name(place), kind or self._marker())
        raise Damage(FaultCode.TOO_LARGE, "more values than the limit")

    def _next(self, place: _Open) -> int | None:
        """The kind of the next value of a container, 0 where a marker tells; None at its end."""
        if place.left is not None:
            place.left -= 1
            return None if place.left < 0 else place.kind
        mark = self._marker()
        if mark == _ENDS[_MAPPING if place.mapping else _ARRAY]:
            return None
        if place.mapping:
            self.cursor.at -= 1  # the length of a key begins with it
            return 0
        return mark

    def _marker(self) -> int:
        return self.cursor.take(1)[0]

    def _name(self, place: _Open) -> str:
        if place.mapping:
            key = self._letters()
        else:
            key, place.next = str(place.next), place.next + 1
        return f"{place.name}/{key}" if place.name else key

    def _letters(self) -> str:
        size = self._count()
        if size > self.draft.limits.entry_name:
            raise Damage(FaultCode.TOO_LARGE, f"a key of {size} bytes is over the limit")
        return self.cursor.take(size).decode("utf-8", "backslashreplace")

    def _count(self) -> int:
        marker = self._marker()
        code = _NUMBERS.get(marker, ("", ""))[0]
        count = self.cursor.big(code) if code and code not in "fd" else -1
        if type(count) is not int or count < 0:
            raise Damage(FaultCode.CORRUPT, f"a length at byte {self.cursor.at} is no number")
        return count

    def _value(self, name: str, kind: int) -> Iterator[TensorInfo]:
        if kind in _ENDS:
            yield from self._enter(name, kind)
        elif kind in _NUMBERS:
            self.cursor.big(_NUMBERS[kind][0])
        elif kind in (_TEXT, _HIGH):
            self._said(name, self._count())
        elif kind == _CHAR:
            self.cursor.take(1)
        elif kind not in _CONSTANTS:
            raise Damage(FaultCode.CORRUPT, f"the marker 0x{kind:02x} does not exist")

    def _said(self, name: str, size: int) -> None:
        if name in self._names and size <= self.draft.limits.value:
            value = self.cursor.take(size).decode("utf-8", "backslashreplace")
            self.told.append(Scalar(name, value))
        else:
            self.cursor.skip(size)

    def _enter(self, name: str, kind: int) -> Iterator[TensorInfo]:
        """``[$d#L…`` has a type and a count, ``[#L…`` a count, ``[`` neither."""
        mark, of = self._marker(), 0
        if mark == ord("$"):
            of, mark = self._marker(), self._marker()
        if mark != ord("#"):
            if of:
                raise Damage(FaultCode.CORRUPT, f"a type without a count at {self.cursor.at}")
            self.cursor.at -= 1
            self._push(name, kind, None, 0)
            return
        count = self._count()
        if kind == _ARRAY and of in _NUMBERS:
            yield self._array(name, of, count)
        else:
            self._push(name, kind, count, of)

    def _push(self, name: str, kind: int, count: int | None, of: int) -> None:
        if len(self._stack) >= self.draft.limits.depth:
            raise Damage(FaultCode.TOO_LARGE, "nested more deeply than the limit")
        self._stack.append(_Open(name, kind == _MAPPING, count, of))

    def _array(self, name: str, of: int, count: int) -> TensorInfo:
        code, dtype = _NUMBERS[of]
        if not bounded([count]):
            raise Damage(FaultCode.CORRUPT, f"{name[:80]} has {count} values")
        nbytes = count * _WIDTH[code]
        label = name[: self.draft.limits.label]
        stretch = Stretch(label, dtype, (count,), self.cursor.at, nbytes, True, Kind.ARRAY)
        info = info_of(self.draft, stretch, self.draft.source)
        if info.presence is not Presence.WHOLE:
            raise Damage(FaultCode.TRUNCATED, f"the file ends in {label}")
        self.cursor.skip(nbytes)
        return info


_WIDTH = {"b": 1, "B": 1, "h": 2, "i": 4, "q": 8, "f": 4, "d": 8}
