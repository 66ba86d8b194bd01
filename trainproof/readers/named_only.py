"""What holds runs and cannot be read here: named as what it is, with what helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Item, NotJudgeable

from .interface import Options
from .mlflow_db import MAGIC


class Aim:
    """An Aim repository (``.aim``), which keeps its series in RocksDB."""

    name = "aim"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return path.rpartition("/")[2] == "run_metadata.sqlite" and head.startswith(MAGIC)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        detail = "an Aim repository keeps its series in RocksDB: export its runs and audit these"
        yield NotJudgeable(Content.UNSUPPORTED, detail)
