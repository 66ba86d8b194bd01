"""``dataclasses.dataclass(slots=True)`` whose methods are not compiled before somebody needs them.

The standard one compiles six functions for each class, which takes half a millisecond: of the two
hundred classes that a process of this program imports, and of which it makes a few dozen, that was
a third of the time of a start. Here fields, slots and all that ``dataclasses`` itself does with
them (``fields``, ``replace``, ``match``) are the standard ones; comparison, hash and representation
are shared closures over the names of the fields; ``__init__`` is compiled when it is first looked
up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]


def _dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, weakref_slot: bool = False
) -> Callable[[type], type]:
    """The same parameters as of the standard one, with the same meaning."""

    def decorate(declared: type) -> type:
        own = vars(declared)
        made: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
        )(declared)
        fields = dataclasses.fields(made)
        made.__init__ = _Init(made, fields, frozen)
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
            made.__getstate__, made.__setstate__ = _state, _restore
        if eq and "__eq__" not in own:
            values = _values([one.name for one in fields if one.compare])
            made.__eq__ = _equality(values)
            made.__hash__ = _hashing(values) if frozen else None
        if "__repr__" not in own:
            made.__repr__ = _representation([one.name for one in fields if one.repr])
        decorated: type = made
        return decorated

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


class _Init:
    """Stands for ``__init__`` until it is looked up, by a call or by whoever inspects it."""

    __slots__ = ("_fields", "_frozen", "_made")

    def __init__(self, made: Any, fields: tuple[Field[Any], ...], frozen: bool) -> None:
        self._made, self._fields, self._frozen = made, fields, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._made
        compiled = _compiled(self._fields, self._frozen, hasattr(made, "__post_init__"))
        compiled.__qualname__ = f"{made.__qualname__}.__init__"
        made.__init__ = compiled
        return compiled if instance is None else compiled.__get__(instance)


_ABSENT = object()


def _compiled(fields: tuple[Field[Any], ...], frozen: bool, post: bool) -> Any:
    """The names of the fields are identifiers of this program's source: nothing else gets here."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    parameters, lines = ["self"], ["pass"]
    for one in fields:
        name = value = parameter = one.name
        if one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            parameter = f"{name}=_default_{name}"
            value = name if one.init else f"_default_{name}"
        elif one.default_factory is not MISSING:
            known[f"_new_{name}"] = one.default_factory
            parameter = f"{name}=_absent"
            value = f"_new_{name}() if {name} is _absent else {name}"
            value = value if one.init else f"_new_{name}()"
        elif not one.init:
            continue
        parameters += [parameter] if one.init else []
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    lines += ["self.__post_init__()"] if post else []
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), known)
    return known["__init__"]


def _values(names: list[str]) -> Callable[[object], object]:
    return attrgetter(*names) if names else lambda _: ()


def _equality(values: Callable[[object], object]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(values: Callable[[object], object]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _representation(names: list[str]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    """What a copy is made of: slots are set one by one, which a frozen record refuses."""
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
