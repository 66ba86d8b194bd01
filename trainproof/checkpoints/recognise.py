"""What a file is, from its first bytes. Its name is asked only where the bytes leave it open."""

from __future__ import annotations

from trainproof.model.tensors import Layout

HEAD = 4096

_STARTS: tuple[tuple[bytes, Layout], ...] = (
    (b"PK\x03\x04", Layout.TORCH_ZIP),
    (b"PK\x05\x06", Layout.ZIP),
    (b"version https://git-lfs", Layout.LFS_POINTER),
    (b"\x89HDF\r\n\x1a\n", Layout.HDF5),
    (b"GGUF", Layout.GGUF),
    (b"\x93NUMPY", Layout.NPY),
    (b"\x0c\xdb\x3a\x2a", Layout.OCDBT),
    (b"\x1f\x8b", Layout.COMPRESSED),
    (b"7z\xbc\xaf\x27\x1c", Layout.COMPRESSED),
    (b"BZh", Layout.COMPRESSED),
    (b"\xfd7zXZ\x00", Layout.COMPRESSED),
    (b"\x28\xb5\x2f\xfd", Layout.COMPRESSED),
    (b"{L\0\0\0\0\0\0\0", Layout.XGBOOST),
    (b'{"learner"', Layout.XGBOOST),
)
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<error")
_PICKLE_STARTS = b"(]})cNIUSVXKJMGFL\x88\x89\x8c"
_PROTOCOLS = (b"\0", b"\1", b"\2", b"\3", b"\4", b"\5")
_LONG_HEADER = 1 << 40
"""Eight letters, taken for the length of a header, are a larger number than this."""


def layout_of(path: str, head: bytes) -> Layout:
    """``head``: the first ``HEAD`` bytes, fewer where the file has fewer."""
    if not head:
        return Layout.EMPTY
    if path.endswith(".distcp"):
        return Layout.TORCH_CHUNKS
    for start, layout in _STARTS:
        if head.startswith(start):
            return layout
    if head[:512].lstrip()[:16].lower().startswith(_MARKUP):
        return Layout.MARKUP
    if head[257:262] == b"ustar":
        return Layout.TORCH_TAR
    if not any(head):
        return Layout.ZEROS
    return _by_structure(path.lower(), head)


def _by_structure(path: str, head: bytes) -> Layout:
    length = int.from_bytes(head[:8], "little")
    if path.endswith(".safetensors") or (head[8:9] == b"{" and length < _LONG_HEADER):
        return Layout.SAFETENSORS
    if head[:1] == b"\x80" and head[1:2] in _PROTOCOLS:
        return Layout.PICKLE
    by_name = _by_name(path, head)
    if by_name is not None:
        return by_name
    if head.lstrip()[:1] in (b"{", b"["):
        return Layout.JSON
    return Layout.PICKLE if head[:1] in _as_bytes(_PICKLE_STARTS) else Layout.UNKNOWN


def _as_bytes(codes: bytes) -> tuple[bytes, ...]:
    return tuple(bytes([code]) for code in codes)


_NAMED: tuple[tuple[str, tuple[bytes, ...], Layout], ...] = (
    (".onnx", (b"\x08", *(bytes([field << 3 | 2]) for field in range(2, 9))), Layout.ONNX),
    (".msgpack", tuple(bytes([code]) for code in (*range(0x80, 0x90), 0xDE, 0xDF)), Layout.MSGPACK),
)
"""Ends of names, and the first bytes of such a file: a field of the model, a mapping. An index of
TensorFlow begins with an empty key, whose value begins with the number of data files."""

_PACKED = (".joblib", ".pkl", ".pickle", ".z", ".model", ".sav")
"""Names under which joblib leaves what zlib has packed, whose mark is one letter only."""


def _by_name(path: str, head: bytes) -> Layout | None:
    """Formats without a mark of their own."""
    for end, starts, layout in _NAMED:
        if path.endswith(end) and head.startswith(starts):
            return layout
    name = path.rpartition("/")[2]
    if name == "_metadata" and head[:1] == b"{":
        return Layout.OCDBT
    if head[:1] == b"\x78" and name.endswith(_PACKED):
        return Layout.COMPRESSED
    if name.endswith(".index") and head[:2] == bytes(2) and head[3:4] == b"\x08":
        return Layout.TF_INDEX
    return Layout.TF_DATA if ".data-" in name else None
