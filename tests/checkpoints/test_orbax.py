"""Arrays of Orbax, from the list to their values."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.checkpoints import Read, read
from tests.support.ocdbt_files import DATA, Database, chunks_of, described, manifest, tree
from trainproof.checkpoints import zstandard
from trainproof.model.tensors import DefectCode, Depth, Extent, Group, Layout, Presence

VALUES = np.arange(35, dtype="<f4").reshape(7, 5) - 3
UNKNOWN = ("jax.Array", None, -1)


def made(database: Database, *names: str, depth: Depth = Depth.TENSORS) -> Read:
    return read(tree(*names), "10/_METADATA", depth, beside=database.files())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("chunks", [(7, 5), (3, 5), (3, 2)])
def test_values_in_a_database_are_read(compressed: bool, chunks: tuple[int, int]) -> None:
    database = Database(compressed)
    database.array("params.w", VALUES, chunks)
    database.array("opt_state.mu", np.array([1.0, np.nan], "<f2"), (2,))
    found = made(database, "params.w", "opt_state.mu")
    assert (found.facts.layout, found.facts.extent) == (Layout.OCDBT, Extent.READ)
    assert found.shown == {
        "params/w": ("float32", (7, 5), 0),
        "opt_state/mu": ("float16", (2,), 1),
    }
    assert found.tensors["params/w"].crc == zlib.crc32(VALUES.tobytes())
    assert found.tensors["params/w"].group is Group.MODEL
    assert found.tensors["opt_state/mu"].group is Group.OPTIMIZER
    assert found.codes == []


def test_values_in_files_of_their_own_are_read() -> None:
    stored = {f"a.w/{key}": data for key, data in chunks_of(VALUES, (3, 2)).items()}
    stored["a.w/.zarray"] = described(VALUES, (3, 2), {})
    found = read(tree("a.w", database=False), "_METADATA", beside=stored)
    assert found.tensors["a/w"].crc == zlib.crc32(VALUES.tobytes())


def test_the_shape_is_that_of_the_array_and_not_of_what_one_process_wrote() -> None:
    database = Database()
    database.array("w", VALUES, (3, 2))
    found = made(database, "w", depth=Depth.STRUCTURE)
    assert found.shown == {"w": ("float32", (7, 5), -1)}
    assert found.facts.extent is Extent.STRUCTURE_ONLY


def test_without_the_database_only_names_are_known() -> None:
    found = read(tree("params.w", "opt_state.mu"), "10/_METADATA", beside={})
    assert found.facts.extent is Extent.STRUCTURE_ONLY
    assert found.facts.reason == "manifest.ocdbt, where its values are listed, is not there"
    assert found.shown == {"params/w": UNKNOWN, "opt_state/mu": UNKNOWN}
    assert read(tree("w"), "_METADATA").shown == {"w": UNKNOWN}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without zstandard."""
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    zstandard._module.cache_clear()
    yield
    zstandard._module.cache_clear()


@pytest.mark.usefixtures("bare")
def test_without_zstandard_the_extra_is_named() -> None:
    database = Database(compressed=True)
    database.array("w", VALUES, (7, 5))
    found = made(database, "w")
    assert found.shown == {"w": UNKNOWN}
    why = "the values are compressed by zstandard, which the extra trainproof[zstd] unpacks"
    assert (found.facts.reason, found.codes) == (why, [])


def test_chunks_in_a_file_that_is_not_there_are_missing() -> None:
    database = Database()
    database.array("w", VALUES, (7, 5))
    elsewhere = "d/" + "1" * 32
    stored = database.files()
    # The node moves to a file of its own, and names the one with the chunk, which is lost.
    node = stored[DATA][VALUES.nbytes :]
    stored = {"manifest.ocdbt": manifest((0, 0, len(node)), _table(elsewhere)), elsewhere: node}
    found = read(tree("w"), "_METADATA", beside=stored)
    assert found.tensors["w"].presence is Presence.ABSENT
    assert found.codes == [DefectCode.SHARD_MISSING]
    assert found.facts.defects[0].where == DATA


def _table(path: str) -> bytes:
    return b"\1" + bytes([len(path)]) + b"\0" + path.encode()


def test_a_database_that_is_damaged_leaves_names() -> None:
    database = Database()
    database.array("w", VALUES, (7, 5))
    stored = database.files()
    broken = stored["manifest.ocdbt"][:-1] + b"?"
    found = read(tree("w"), "_METADATA", beside={**stored, "manifest.ocdbt": broken})
    assert found.shown == {"w": UNKNOWN}
    assert found.codes == [DefectCode.HEADER]


def test_a_chunk_that_is_damaged_is_a_defect_of_its_array() -> None:
    database = Database()
    database.array("bad", VALUES, (7, 5))
    database.array("good", VALUES, (7, 5))
    database.entries["bad/0.0"] = b"short"
    found = made(database, "bad", "good")
    assert found.tensors["bad"].unread == "a chunk has another size than its elements"
    assert found.codes == [DefectCode.TENSOR_LAYOUT]
    assert found.tensors["good"].stats is not None


def test_chunks_beyond_the_end_of_a_file_are_cut() -> None:
    database = Database()
    database.array("w", VALUES, (7, 5))
    database.entries["w/0.0"] = (0, 1 << 40, VALUES.nbytes)
    found = made(database, "w")
    assert found.tensors["w"].presence is Presence.CUT
    assert found.codes == [DefectCode.TRUNCATED]


def test_a_path_out_of_the_directory_is_never_opened() -> None:
    database = Database()
    stored = database.files()
    stored["manifest.ocdbt"] = manifest((0, 0, 10), _table("../other"))
    found = read(tree("w"), "_METADATA", beside={**stored, "../other": b"0123456789"})
    assert "outside of the directory" in found.facts.reason
    assert found.codes == [DefectCode.HEADER]


def test_an_array_without_a_description_is_listed() -> None:
    found = made(Database(), "w")
    assert found.shown == {"w": ("unknown", None, -1)}
    assert found.tensors["w"].unread == "its description is not there"


def test_leaves_that_are_no_arrays_are_left_out() -> None:
    said = json.loads(tree("a", "b"))
    said["tree_metadata"]["('a',)"] = {"value_metadata": {"value_type": "Dict"}}
    made = read(json.dumps(said).replace("\"['a']\"", '"x"').encode(), "_METADATA")
    assert "b" in made.tensors


def test_a_list_that_is_cut_is_not_read() -> None:
    whole = tree("a")
    assert read(whole[:-5], "_METADATA").facts.extent is Extent.NOT_CHECKED
    assert read(b"{}", "_METADATA").facts.reason == "it lists no arrays"


def test_the_database_alone_is_named() -> None:
    made = read(b"\x0c\xdb\x3a\x2a" + bytes(60), "manifest.ocdbt")
    assert made.facts.reason == "a database of Orbax: its arrays are listed in _METADATA"
    assert DefectCode.HEADER not in made.codes
