"""A file that is no checkpoint is named for what it is."""

from __future__ import annotations

import pytest

from tests.support.checkpoints import read
from trainproof.model.tensors import DefectCode, Extent, Layout, Scalar


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (b"", Layout.EMPTY),
        (bytes(4096), Layout.ZEROS),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", Layout.LFS_POINTER),
        (b"<!DOCTYPE html><html></html>", Layout.MARKUP),
        (b"\n <?xml version='1.0'?><Error/>", Layout.MARKUP),
        (b'{"error": "Repository not found"}', Layout.JSON),
        (b"\x1f\x8b\x08" + bytes(20), Layout.COMPRESSED),
        (b"storages" + bytes(249) + b"ustar" + bytes(300), Layout.TORCH_TAR),
        (b"\xff\xfeh\x00e\x00", Layout.UNKNOWN),
        (b"\x80", Layout.UNKNOWN),
    ],
)
def test_nothing_is_passed_that_was_not_read(data: bytes, layout: Layout) -> None:
    got = read(data)
    assert (got.facts.layout, got.facts.extent) == (layout, Extent.NOT_CHECKED)
    assert got.facts.reason
    assert got.tensors == {}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("faiss.index", b"IxFl" + bytes(40)),
        ("notes.onnx", b"no model"),
        ("words.msgpack", b"\xa5hello"),
        ("_METADATA", b"PAR1"),
    ],
)
def test_a_name_alone_makes_no_layout(name: str, data: bytes) -> None:
    got = read(data, name)
    assert got.facts.layout not in (Layout.TF_INDEX, Layout.ONNX, Layout.MSGPACK, Layout.OCDBT)
    assert got.facts.extent is Extent.NOT_CHECKED
    assert DefectCode.TRUNCATED not in got.codes


def test_a_git_lfs_pointer_names_the_file_that_is_meant() -> None:
    data = b"version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 12345\n"
    assert read(data).facts.metadata == (Scalar("oid", "sha256:00ff"), Scalar("size", "12345"))
