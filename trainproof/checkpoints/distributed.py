"""torch.distributed.checkpoint: a pickle that lists tensors, and files that hold their chunks.

Each chunk is a torch ZIP file of its own inside of a ``.distcp`` file, or a tensor of one
safetensors file inside of it. The list says in which file, from which byte on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce

import msgspec
from msgspec.structs import replace

from trainproof.model.data import Fault, FaultCode
from trainproof.model.tensors import (
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Layout,
    Piece,
    Presence,
    TensorInfo,
    TensorStats,
    Unread,
)

from .beside import Beside, Open, leaves
from .checksum import joined_crc32
from .draft import Draft, Item
from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .parts import Values, measured
from .pickles.nodes import Call, Items, Node, Pairs, arguments, path_of
from .roles import group_of
from .safetensors import BadHeader, Span, read_header
from .scan import combined
from .source import Beat, Damage, Source
from .torch_zip import read_torch_zip
from .zipped import LOCAL

METADATA = "torch.distributed.checkpoint.metadata.Metadata"
_PREFIX = METADATA.rpartition(".")[0]


class _Chunk(msgspec.Struct, frozen=True):
    """``begin``: the index of its first element in the tensor, None where the list does not say."""

    path: str
    offset: int
    length: int
    begin: tuple[int, ...] | None


class _Part(msgspec.Struct, frozen=True):
    """What was read of a chunk. ``place``: where its elements lie in order, None if nowhere."""

    chunk: _Chunk
    stats: TensorStats | None
    crc: int | None
    place: int | None
    nbytes: int


class _Listed(msgspec.Struct, frozen=True):
    """A tensor of the list. ``covered``: elements that its chunks hold together."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    covered: int


def is_metadata(root: Node) -> bool:
    return isinstance(root, Call) and path_of(root.function) == METADATA


def read_metadata(draft: Draft, root: Node) -> Iterator[Item]:
    """What the list alone says: tensors without values."""
    draft.layout, draft.reason = Layout.TORCH_METADATA, "the values are in the .distcp files"
    for listed in _listed(draft, root):
        yield draft.tensor(_info(draft, listed, None, draft.reason))
    yield draft.done(Extent.STRUCTURE_ONLY)


def read_distributed(
    open_file: Open,
    directory: str,
    depth: Depth = Depth.TENSORS,
    limits: Limits = LIMITS,
    beat: Beat | None = None,
) -> Iterator[Item]:
    """Every tensor of a directory, with the statistics of all of its chunks; and its facts.

    ``directory`` is the artifact's name in everything that is yielded. ``beat`` is called before
    each read.
    """
    files = Beside(open_file, beat)
    try:
        source = files.source(".metadata")
        draft = Draft(directory, source, depth, Layout.TORCH_METADATA, limits)
        yield from _directory(draft, files)
    except OSError as error:
        what = f".metadata: {error.strerror or type(error).__name__}"
        yield Fault(FaultCode.IO, directory, what, fatal=True)
    finally:
        files.close()


def _directory(draft: Draft, files: Beside) -> Iterator[Item]:
    data = draft.source.head(draft.limits.pickle_bytes)
    walked = draft.survey.pickle(data, ".metadata")
    if walked.damage is not None or not is_metadata(walked.root):
        draft.reason = "the list of tensors cannot be followed"
        yield draft.fault(walked.damage or Damage(FaultCode.CORRUPT, draft.reason))
        yield draft.done(Extent.NOT_CHECKED)
        return
    reader = _Chunks(draft, files)
    chunks = _chunks(draft, walked.root)
    if draft.depth is not Depth.STRUCTURE:
        draft.integrity = Integrity.VERIFIED
    for listed in _listed(draft, walked.root):
        yield draft.tensor(reader.tensor(listed, chunks.get(listed.name, [])))
    yield draft.done()


# --- the list ---------------------------------------------------------------------------------


def _attributes(node: Node) -> dict[str, Node]:
    """Of a dataclass: what BUILD sets."""
    states = node.states if isinstance(node, Call) else []
    return {
        key: value
        for state in states
        if isinstance(state, Pairs)
        for key, value in state.values
        if isinstance(key, str)
    }


def _pairs(node: Node) -> list[tuple[Node, Node]]:
    if isinstance(node, Pairs):
        return node.values
    return node.pairs if isinstance(node, Call) else []


def _integers(node: Node) -> tuple[int, ...]:
    """Of a ``torch.Size``."""
    if isinstance(node, Call):
        node = next(iter(arguments(node)), None)
    values = node.values if isinstance(node, Items) else []
    return tuple(value for value in values if type(value) is int)


def _listed(draft: Draft, root: Node) -> Iterator[_Listed]:
    for name, value in _pairs(_attributes(root).get("state_dict_metadata")):
        if not isinstance(name, str) or not isinstance(value, Call):
            continue
        label = name[: draft.limits.label]
        if path_of(value.function) != f"{_PREFIX}.TensorStorageMetadata":
            draft.unread.append(Unread(label, "an object that was pickled"))
            continue
        given = _attributes(value)
        chunks = given.get("chunks")
        covered = sum(
            math.prod(_integers(_attributes(chunk).get("sizes")))
            for chunk in (chunks.values if isinstance(chunks, Items) else [])
        )
        yield _Listed(label, _dtype(given.get("properties")), _integers(given.get("size")), covered)


def _dtype(properties: Node) -> str:
    """The state of the properties is a tuple that begins with the type."""
    states = properties.states if isinstance(properties, Call) else []
    for state in states:
        first = state.values[0] if isinstance(state, Items) and state.values else None
        found = path_of(first) or path_of(_attributes(properties).get("dtype"))
        if found:
            return found.removeprefix("torch.")
    return "unknown"


def _chunks(draft: Draft, root: Node) -> dict[str, list[_Chunk]]:
    found: defaultdict[str, list[_Chunk]] = defaultdict(list)
    for key, value in _pairs(_attributes(root).get("storage_data")):
        name, place = _attributes(key).get("fqn"), _attributes(value)
        path, offset, length = (place.get(k) for k in ("relative_path", "offset", "length"))
        if not isinstance(path, str) or type(offset) is not int or type(length) is not int:
            continue
        if leaves(path):
            what = "a chunk would be outside of the directory"
            draft.defects.append(Defect(DefectCode.ENTRY_NAME, what, path[:200]))
            continue
        begin = (
            None
            if _attributes(key).get("offset") is None
            else _integers(_attributes(key)["offset"])
        )
        found[str(name)[: draft.limits.label]].append(_Chunk(path, offset, length, begin))
    return found


def _info(
    draft: Draft,
    listed: _Listed,
    stats: TensorStats | None,
    unread: str,
    presence: Presence = Presence.WHOLE,
) -> TensorInfo:
    size = DTYPES[listed.dtype].size if listed.dtype in DTYPES else 0
    return TensorInfo(
        listed.name,
        listed.dtype,
        listed.shape,
        math.prod(listed.shape) * size,
        draft.artifact,
        stats,
        unread,
        group=group_of(listed.name.replace(".", "/", 1), draft.artifact),
        presence=presence,
    )


# --- the chunks -------------------------------------------------------------------------------


class _Chunks:
    """Reads chunks and puts what it finds out into the draft."""

    def __init__(self, draft: Draft, files: Beside) -> None:
        self._draft, self._files = draft, files
        self._absent: set[str] = set()
        self._headers: dict[tuple[str, int], tuple[int, dict[str, Span]]] = {}

    def tensor(self, listed: _Listed, chunks: list[_Chunk]) -> TensorInfo:
        draft = self._draft
        if listed.covered != math.prod(listed.shape):
            what = f"its chunks cover {listed.covered} of {math.prod(listed.shape)} elements"
            draft.defects.append(Defect(DefectCode.TENSOR_LAYOUT, what, listed.name))
        places = [(chunk, self._source(chunk)) for chunk in chunks]
        absent = [chunk for chunk, source in places if source is None]
        if absent or not chunks:
            why = f"{absent[0].path} is not there" if absent else "no file holds it"
            return _info(draft, listed, None, why, Presence.ABSENT)
        try:
            parts = [self._part(listed, chunk, source) for chunk, source in places if source]
        except BadHeader as error:
            return _info(draft, listed, None, str(error))
        except Damage as damage:
            where = chunks[0].path
            draft.defects.append(Defect(DefectCode.TRUNCATED, damage.what, where))
            return _info(draft, listed, None, damage.what, Presence.CUT)
        known = [part.stats for part in parts if part.stats is not None]
        complete = len(known) == len(parts)
        info = _info(draft, listed, reduce(combined, known) if complete else None, "")
        return _placed(info, parts)

    def _source(self, chunk: _Chunk) -> Source | None:
        if chunk.path in self._absent:
            return None
        try:
            return self._files.source(chunk.path)
        except OSError as error:
            self._absent.add(chunk.path)
            what = error.strerror or type(error).__name__
            self._draft.defects.append(Defect(DefectCode.SHARD_MISSING, what, chunk.path))
            return None

    def _part(self, listed: _Listed, chunk: _Chunk, source: Source) -> _Part:
        """Without statistics where the depth asks for none. Raises Damage, BadHeader."""
        part = source.part(chunk.offset, chunk.length)
        if part.head(len(LOCAL)) == LOCAL:
            return self._zipped(part, chunk)
        data, spans = self._header(source, chunk)
        span = spans.get(listed.name)
        if span is None:
            raise Damage(FaultCode.CORRUPT, f"{listed.name} is not in {chunk.path}")
        start, nbytes = data + span.start, span.stop - span.start
        if self._draft.depth is not Depth.TENSORS:
            return _Part(chunk, None, None, None, nbytes)
        stats, crc = measured(source, Values(span.dtype, start, nbytes))
        return _Part(chunk, stats, crc, start, nbytes)

    def _zipped(self, part: Source, chunk: _Chunk) -> _Part:
        draft = self._draft
        inner = Draft(chunk.path, part, draft.depth, Layout.TORCH_ZIP, draft.limits)
        found = _Part(chunk, None, None, None, 0)
        for item in read_torch_zip(inner):
            if isinstance(item, Fault):
                raise Damage(item.code, f"{chunk.path}: {item.detail}")
            if isinstance(item, TensorInfo):
                found = _Part(chunk, item.stats, item.crc, item.place, item.nbytes)
            if isinstance(item, CheckpointFacts):
                self._add(item, chunk)
        return found

    def _add(self, facts: CheckpointFacts, chunk: _Chunk) -> None:
        self._draft.survey.merge(replace(use, entry=chunk.path) for use in facts.globals)
        where = f"{chunk.path} at {chunk.offset}"
        self._draft.defects.extend(replace(defect, where=where) for defect in facts.defects)
        if facts.integrity is Integrity.BROKEN:
            self._draft.integrity = Integrity.BROKEN

    def _header(self, source: Source, chunk: _Chunk) -> tuple[int, dict[str, Span]]:
        """Where the data of the safetensors file that begins at the chunk are, and its tensors."""
        key = (chunk.path, chunk.offset)
        if key not in self._headers:
            rest = source.part(chunk.offset, source.size - chunk.offset)
            header = read_header(rest, self._draft.limits)
            spans = {span.name: span for span in header.spans}
            self._headers[key] = chunk.offset + header.data, spans
            self._draft.integrity = Integrity.ABSENT
        return self._headers[key]


def _placed(info: TensorInfo, parts: Sequence[_Part]) -> TensorInfo:
    """The tensor with its checksum and the places of its bytes, where its chunks are whole rows of
    its first dimension: one after the other, they are the tensor."""
    rows = _in_rows(info, parts)
    if rows is None:
        return info
    directory = info.artifact.removesuffix(".metadata")
    pieces = tuple(
        Piece(directory + one.chunk.path, one.place, one.nbytes)
        for one in rows
        if one.place is not None
    )
    crc = 0
    for one in rows:
        if one.crc is None:
            return replace(info, pieces=pieces if len(pieces) == len(rows) else ())
        crc = joined_crc32(crc, one.crc, one.nbytes)
    return replace(info, crc=crc, pieces=pieces if len(pieces) == len(rows) else ())


def _in_rows(info: TensorInfo, parts: Sequence[_Part]) -> list[_Part] | None:
    """The parts in the order of the rows, None where they are no rows, or not all of them."""
    rows, at = sorted(parts, key=lambda one: one.chunk.begin or ()), 0
    whole = len(parts) == 1
    for one in rows:
        begin = one.chunk.begin or ()
        first = begin[0] if begin else 0
        if any(begin[1:]) or not (whole or begin) or first * _row(info) != at:
            return None
        at += one.nbytes
    return rows if at == info.nbytes else None


def _row(info: TensorInfo) -> int:
    """Bytes of one index of the first dimension."""
    shape = info.shape or ()
    return info.nbytes // shape[0] if shape and shape[0] else info.nbytes
