"""The database that Orbax keeps arrays in: keys, in a tree of nodes, in files that it names."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.support.ocdbt_files import (
    DATA,
    MANIFEST,
    NODE,
    Place,
    files,
    framed,
    interior,
    leaf,
    manifest,
    names,
    varint,
)
from trainproof.checkpoints.limits import LIMITS, Limits
from trainproof.checkpoints.ocdbt import Value, read_database
from trainproof.checkpoints.source import Damage, Source
from trainproof.model.data import FaultCode


def found(
    stored: Mapping[str, bytes], limits: Limits = LIMITS, budget: int = 1 << 20
) -> dict[str, Value]:
    left = [budget]

    def spend(count: int) -> bool:
        left[0] -= count
        return left[0] >= 0

    def opened(path: str) -> Source:
        if path not in stored:
            raise FileNotFoundError(2, path)
        return Source.of(io.BytesIO(stored[path]))

    return read_database(opened, spend, limits)


def rooted(*nodes: bytes) -> dict[str, bytes]:
    """A database whose root is the last of the nodes."""
    data = b"".join(nodes)
    root = 0, len(data) - len(nodes[-1]), len(nodes[-1])
    return {"manifest.ocdbt": manifest(root), DATA: data}


def code_of(stored: Mapping[str, bytes], **options: object) -> FaultCode:
    with pytest.raises(Damage) as caught:
        found(stored, **options)  # type: ignore[arg-type]
    return caught.value.code


@pytest.mark.parametrize("compressed", [False, True])
def test_values_are_in_the_node_or_where_it_says(compressed: bool) -> None:
    entries: dict[str, bytes | Place] = {"a/.zarray": b"{}", "a/0.0": (0, 7, 300), "b": b""}
    stored = rooted(leaf(entries, compressed=compressed))
    stored["manifest.ocdbt"] = manifest((0, 0, len(stored[DATA])), compressed=compressed)
    assert found(stored) == {
        "a/.zarray": Value("", 0, 2, b"{}"),
        "a/0.0": Value(DATA, 7, 300),
        "b": Value("", 0, 0, b""),
    }


def test_keys_of_a_child_begin_with_what_they_have_in_common() -> None:
    left, right = leaf({"1": b"x", "2": b"y"}), leaf({"9": b"z"})
    children = {
        "layer.1": (6, (0, 0, len(left))),
        "other": (5, (0, len(left), len(right))),
    }
    stored = rooted(left, right, interior(children))
    assert sorted(found(stored)) == ["layer.1", "layer.2", "other9"]


def test_files_of_a_child_lie_where_its_own_file_does() -> None:
    inner = leaf({"k": (0, 1, 2)}, files("d/b"))
    path = "ocdbt.process_0/d/a"
    root = interior({"": (0, (1, 0, len(inner)))}, files(DATA, path, bases=[0, 16]))
    stored = {**rooted(root), path: inner}
    assert found(stored) == {"k": Value("ocdbt.process_0/d/b", 1, 2)}


def test_a_database_without_a_version_is_empty() -> None:
    assert found({"manifest.ocdbt": manifest(None)}) == {}


def test_a_manifest_in_several_files_is_not_read() -> None:
    assert code_of({"manifest.ocdbt": manifest(None, kind=1)}) is FaultCode.TOO_LARGE


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("manifested", "code"),
    [
        (b"", FaultCode.CORRUPT),
        (_flipped(manifest(None), 0), FaultCode.CORRUPT),
        (_flipped(manifest(None), 20), FaultCode.CORRUPT),
        (manifest(None) + b"x", FaultCode.TRUNCATED),
        (manifest(None)[:-1], FaultCode.TRUNCATED),
        (framed(MANIFEST, bytes(16)), FaultCode.CORRUPT),
        (framed(MANIFEST, bytes(16), version=1), FaultCode.TOO_LARGE),
        (framed(MANIFEST, bytes(16) + b"\xff" * 11), FaultCode.CORRUPT),
        (framed(MANIFEST, b"x", compressed=True)[:-4] + bytes(4), FaultCode.CORRUPT),
        (manifest((1, 0, 9)), FaultCode.CORRUPT),
    ],
    ids=["empty", "magic", "bit", "longer", "cut", "short", "version", "number", "sum", "file"],
)
def test_a_manifest_that_is_damaged(manifested: bytes, code: FaultCode) -> None:
    assert code_of({"manifest.ocdbt": manifested}) is code


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" + varint(1 << 62),
        b"\0" + files() + varint(1 << 40),
        b"\0" + files() + names(["a", "b"]),
        b"\0" + files() + names(["a"]) + varint(5, 0) + b"ab",
        b"\0" + files() + names(["a"]) + varint(5, 1, 0, 0),
        b"\1" + files(DATA) + names(["a"], [1]) + varint(7, 0, 0),
    ],
    ids=["none", "files", "keys", "lengths", "value", "file", "child"],
)
def test_a_node_that_is_damaged(body: bytes) -> None:
    assert code_of(rooted(framed(NODE, body))) is FaultCode.CORRUPT


def test_a_node_that_is_its_own_child_comes_to_an_end() -> None:
    size = len(interior({"": (0, (0, 0, 50))}))
    assert code_of(rooted(interior({"": (0, (0, 0, size))}))) is FaultCode.TOO_LARGE


def test_limits_of_keys_nodes_and_bytes() -> None:
    many = rooted(leaf({str(number): b"" for number in range(100)}))
    assert len(found(many)) == 100
    assert code_of(many, limits=replace(LIMITS, keys=1000)) is FaultCode.TOO_LARGE
    assert code_of(many, limits=replace(LIMITS, chunks=1)) is FaultCode.TOO_LARGE
    assert code_of(many, budget=100) is FaultCode.TOO_LARGE
    assert code_of(many, limits=replace(LIMITS, table_block=200)) is FaultCode.TOO_LARGE


def test_a_file_that_is_not_there_is_the_callers_matter() -> None:
    with pytest.raises(FileNotFoundError):
        found({"manifest.ocdbt": manifest((0, 0, 10))})
