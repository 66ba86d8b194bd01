"""Records behave as the standard frozen dataclasses that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from dataclasses import field, fields, replace
from typing import Any

import msgspec
import pytest

from trainproof.model.records import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 2.0
    tags: list[str] = field(default_factory=list)
    seen: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    x: int
    y: float = 2.0
    tags: list[str] = field(default_factory=list)
    seen: int = field(default=0, compare=False)


@dataclass(slots=True)
class Counter:
    name: str
    count: int = 0
    parts: dict[str, int] = field(init=False, repr=False, default_factory=dict)
    total: int = field(init=False, repr=False, default=7, compare=False)
    later: int = field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Thing:
    default: int = 1
    set: int = 2


@dataclass(frozen=True, slots=True)
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(frozen=True, slots=True)
class Special(Named):
    level: int = 3


@dataclass(frozen=True, slots=True)
class Nothing:
    """Has no fields."""


def test_arguments_are_taken_by_place_and_by_name_and_default_as_declared() -> None:
    assert (Point(1).x, Point(1).y, Point(1).tags) == (1, 2.0, [])
    assert Point(1, y=3.0, tags=["a"]).tags == ["a"]
    assert Point(1).tags is not Point(1).tags
    assert (Thing().default, Thing(set=5).set) == (1, 5)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=1)  # type: ignore[call-arg]


def test_a_field_that_is_no_argument_gets_its_default_if_it_has_one() -> None:
    assert (Counter("a").parts, Counter("a").total) == ({}, 7)
    assert not hasattr(Counter("a"), "later")
    with pytest.raises(TypeError):
        Counter("a", 1, {})  # type: ignore[call-arg]


def test_what_the_class_checks_after_its_making_is_checked() -> None:
    with pytest.raises(ValueError, match="negative"):
        Point(-1)


def test_equal_fields_make_equal_records_of_one_class() -> None:
    assert Point(1, seen=1) == Point(1, seen=2) != Point(2)
    assert Point(1) != Standard(1)
    assert Nothing() == Nothing()
    assert Counter("a") == Counter("a") != Counter("b")
    assert Special("a") != Named("a")
    assert Thing() != Thing()


def test_only_what_cannot_change_has_a_hash() -> None:
    assert len({Named("a"), Named("a"), Named("b"), Nothing(), Nothing()}) == 3
    assert len({Thing(), Thing()}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter("a"))


def test_it_shows_itself_as_the_standard_one_does() -> None:
    assert repr(Point(1, tags=["a"])) == repr(Standard(1, tags=["a"])).replace("Standard", "Point")
    assert repr(Counter("a")) == "Counter(name='a', count=0)"
    assert repr(Named("a")) == "<a>"
    assert repr(Nothing()) == "Nothing()"


def test_a_frozen_one_cannot_be_changed_and_another_one_can() -> None:
    point, counter = Point(1), Counter("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    counter.count += 1
    assert (point.x, counter.count) == (1, 1)
    with pytest.raises(AttributeError):
        counter.other = 1  # type: ignore[attr-defined]


def test_dataclasses_knows_it() -> None:
    assert dataclasses.is_dataclass(Point)
    assert [one.name for one in fields(Point)] == ["x", "y", "tags", "seen"]
    assert replace(Point(1), x=2, seen=3) == Point(2)
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(Standard(1))
    assert [one.name for one in fields(Special)] == ["name", "level"]
    match Special("a", 4):
        case Special(name, level):
            assert (name, level) == ("a", 4)


def test_an_inherited_field_is_an_argument_like_any_other() -> None:
    assert (Special("a").name, Special("a").level, Special("b", 4).level) == ("a", 3, 4)
    assert Named("c").name == "c"


def test_its_signature_is_that_of_the_fields() -> None:
    assert list(inspect.signature(Point).parameters) == ["x", "y", "tags", "seen"]
    assert inspect.signature(Thing).parameters["set"].default == 2


def test_a_default_that_all_would_share_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(slots=True)
        class _(Counter):
            others: Any = []  # noqa: RUF012 - what is refused


def test_it_travels_as_the_standard_one_does() -> None:
    data = msgspec.msgpack.encode(Point(1, tags=["a"]))
    assert data == msgspec.msgpack.encode(Standard(1, tags=["a"]))
    assert msgspec.msgpack.decode(data, type=Point) == Point(1, tags=["a"])
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        msgspec.msgpack.decode(msgspec.msgpack.encode({"x": "a"}), type=Point)


def test_weak_references_where_they_are_asked_for() -> None:
    thing = Thing()
    assert weakref.ref(thing)() is thing
    with pytest.raises(TypeError):
        weakref.ref(Named("a"))  # type: ignore[call-overload]


def test_a_copy_is_equal() -> None:
    point = Point(1, tags=["a"])
    unpickled = pickle.loads(pickle.dumps(point))  # noqa: S301 - its own bytes
    assert copy.copy(point) == copy.deepcopy(point) == unpickled == point
    assert copy.deepcopy(Counter("a")) == Counter("a")
