"""Walk a store and recognise what is in it: the only module that sniffs.

A name alone never identifies a log: most files called ``metrics.json``, ``train.log`` or
``results.csv`` are something else, and that is a normal, silent outcome. What a person expected
to be judged and cannot be (an empty log, a git-lfs pointer) is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

from .model.artifact import Artifact, Content, Kind, Unjudged
from .model.compression import Method, bare, method_of
from .readers.interface import HEAD, Reader
from .readers.names import word_set
from .stores.compressed import head_of, unsupported
from .stores.interface import Entry, Passed, Store, StoreError
from .stores.regular import reason

NEVER_LOGS = word_set(
    "png jpg jpeg gif bmp tif tiff webp svg ico psd exr mp3 wav flac ogg mp4 avi mov mkv webm",
    "ttf otf woff woff2",
    "py pyi pyc pyx ipynb c cc cpp cu cuh h hpp rs go java js jsx ts tsx css scss html htm xml",
    "sh bash zsh ps1 bat r jl m lua md rst tex bib pdf doc docx ppt pptx xls xlsx odt",
    "so o a dll dylib exe whl egg jar deb rpm",
    "parquet arrow feather avro tfrecord tfrecords lmdb mdb pb pbtxt proto sst",
)
"""Suffixes of files that are not opened, unless their name says ``tfevents``."""

WEIGHTS = word_set(
    "pt pth ckpt bin safetensors npy npz h5 hdf5 keras onnx gguf msgpack pkl pickle joblib",
    "distcp pt2 ptl ubj nemo tflite mlmodel pdparams pdopt weights",
)
"""Suffixes of checkpoints: opened only where a reader of checkpoints is given."""

LOG_SUFFIXES = word_set("csv tsv jsonl ndjson json log txt out err wandb")
"""Suffixes of files that a person may have expected to be judged."""

NEVER_NAMES = word_set(
    "requirements.txt license.txt readme.txt cmakelists.txt top_level.txt vocab.txt merges.txt",
    "debug-internal.log debug-core.log",  # W&B about itself
)
"""The same, by name: text that may speak of training and is no log of one."""

OTHER_NAMES = NEVER_NAMES | word_set(
    "vocab.json config.json package.json package-lock.json tsconfig.json tokenizer.json",
    "tokenizer_config.json special_tokens_map.json added_tokens.json generation_config.json",
    "preprocessor_config.json adapter_config.json model_index.json dataset_infos.json",
    "model.safetensors.index.json pytorch_model.bin.index.json",
)
"""Names with such a suffix that are well known for something else."""

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
"""Names of archives that a directory holds: only those that are given as paths are opened."""

_BLANK = b"\xef\xbb\xbf\0 \t\r\n"
_POINTER = b"version https://git-lfs.github.com/spec/v1"
_POINTER_SIZE = re.compile(rb"^size (\d{1,20})$", re.MULTILINE)
_MARKUP = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<error")


def discover(
    store: Store, root: str, readers: Sequence[Reader], format_hint: str | None = None
) -> Iterator[Artifact | Unjudged | StoreError]:
    """Everything in the store, in its order: recognised, seen and not judged, or failed.

    ``root`` is the caller's name for the store. Readers are asked in their order.
    ``format_hint`` names the reader of the only file of a store; where there are several files
    it has no effect. Raises ValueError when no reader has that name.
    """
    forced = None if format_hint is None else _named(readers, format_hint)
    walk = store.walk()
    first = tuple(islice(walk, 2))
    scout = _Scout(store, root, readers, forced if len(first) == 1 else None)
    for item in chain(first, walk):
        match item:
            case Entry():
                yield scout.look(item)
            case Passed():
                yield Unjudged(root, item.path, item.content, item.detail)
            case StoreError():
                yield item


def _named(readers: Sequence[Reader], name: str) -> Reader:
    for reader in readers:
        if reader.name == name:
            return reader
    raise ValueError(f"no reader is called {name!r}")


class _Scout:
    def __init__(
        self, store: Store, root: str, readers: Sequence[Reader], forced: Reader | None
    ) -> None:
        self._store = store
        self._root = root
        self._readers = readers
        self._forced = forced
        weights = any(reader.kind is Kind.CHECKPOINT for reader in readers)
        self._unopened = NEVER_LOGS if weights else NEVER_LOGS | WEIGHTS

    def look(self, entry: Entry) -> Artifact | Unjudged | StoreError:
        path = entry.path
        if self._forced is None and self._is_known_by_name(path):
            return Unjudged(self._root, path, Content.NOT_A_LOG)
        try:
            with self._store.open(path) as stream:
                head = stream.read(HEAD)
                size = stream.seek(0, os.SEEK_END) if entry.size is None else entry.size
                method = method_of(head)
                if method is None:
                    return self._recognise(path, head, size)
                stream.seek(0)
                return self._unfold(path, stream, size, method)
        except StoreError as error:
            return error
        except OSError as error:
            return StoreError(path, reason(error))

    def _is_known_by_name(self, path: str) -> bool:
        name, suffix = _name(path)
        return (suffix in self._unopened and "tfevents" not in name) or name in NEVER_NAMES

    def _unfold(
        self, path: str, stream: BinaryIO, size: int, method: Method
    ) -> Artifact | Unjudged:
        """Recognise a compressed file by what it stands for."""
        detail = unsupported(method)
        if not detail:
            head, trouble = head_of(stream, method, HEAD)
            if head or trouble is None:
                return self._recognise(path, head, size)
            detail = trouble.detail
        expected = self._forced is not None or looks_like_log(path)
        content = Content.UNSUPPORTED if expected else Content.NOT_A_LOG
        return Unjudged(self._root, path, content, detail if expected else "")

    def _recognise(self, path: str, head: bytes, size: int) -> Artifact | Unjudged:
        hollow = self._hollow(path, head)
        if hollow is not None:
            return hollow
        name = bare(path)
        reader = self._forced or next((r for r in self._readers if r.claims(name, head)), None)
        if reader is None:
            return Unjudged(self._root, path, _unrecognised(path, head))
        return Artifact(self._root, path, size, reader.kind, reader.name)

    def _hollow(self, path: str, head: bytes) -> Unjudged | None:
        """What stands where a log was expected; readers are not asked about it."""
        pointer = pointed(head)
        if not head.strip(_BLANK) and len(head) < HEAD:
            content, detail = Content.EMPTY, "nothing but blanks" if head else ""
        elif pointer is not None:
            content, detail = Content.LFS_POINTER, pointer
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n")[:9].lower().startswith(_MARKUP):
            content, detail = Content.MARKUP_PAGE, ""
        else:
            return None
        if self._forced is None and not looks_like_log(path):
            content, detail = Content.NOT_A_LOG, ""
        return Unjudged(self._root, path, content, detail)


def _unrecognised(path: str, head: bytes) -> Content:
    if path.lower().endswith(ARCHIVES) and (head[:4] == b"PK\3\4" or head[257:262] == b"ustar"):
        return Content.ARCHIVE
    if looks_like_log(path):
        from .readers.bare_numbers import holds_numbers  # noqa: PLC0415 - few walks meet one

        if holds_numbers(head):
            return Content.UNNAMED_NUMBERS
    return Content.NOT_A_LOG


def pointed(head: bytes) -> str | None:
    """What a Git LFS pointer says of the file that it stands for; None for anything else."""
    if not head.startswith(_POINTER):
        return None
    size = _POINTER_SIZE.search(head)
    return f"{size[1].decode()} bytes were not fetched" if size else ""


def looks_like_log(path: str) -> bool:
    """Whether a person who sees the name may expect the file to be judged."""
    name, suffix = _name(path)
    return "tfevents" in name or (suffix in LOG_SUFFIXES and name not in OTHER_NAMES)


def _name(path: str) -> tuple[str, str]:
    """The last component and what follows its last dot, in lower case, as without compression."""
    name = bare(path).rpartition("/")[2].lower()
    _, dot, suffix = name.rpartition(".")
    return name, suffix if dot else ""
