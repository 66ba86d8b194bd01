"""A reader for a format that trainproof does not know: ``%curves`` files.

    %curves 1
    loss@10>2.31
    loss@20>1.98

The first line is the mark of the format; each other line is a name, a step and a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, FaultCode, Item, NotJudgeable
from trainproof.readers.interface import Options
from trainproof.readers.text import FaultLog, TextSource

MARK = b"%curves 1\n"


class Curves:
    name = "curves"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return head.startswith(MARK)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        points: dict[str, list[tuple[np.int64, float, int]]] = {}
        for line in TextSource(stream, faults).lines():
            if line.number == 1 or not line.ended:  # the last line may be cut
                continue
            try:
                place, value = line.text.split(">")
                name, step = place.split("@")
                point = (np.int64(step), float(value), line.number)
            except (ValueError, OverflowError):
                faults.add(FaultCode.CORRUPT, "not name@step>value", line.number)
            else:
                points.setdefault(name, []).append(point)
        for name, found in points.items():
            steps, values, lines = zip(*found, strict=True)
            yield Column(
                name,
                np.array(steps, dtype=np.int64),
                np.array(values, dtype=np.float64),
                lines=np.array(lines, dtype=np.int64),
            )
        if not points:
            yield NotJudgeable(Content.HEADER_ONLY, "no line holds a value")
        yield from faults
