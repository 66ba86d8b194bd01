"""``results.txt`` of YOLOv5 up to 5.0, YOLOv7 and their descendants: a table without a header.

One row per epoch: ``0/99  0.56G``, the losses of training, labels and image size of the last
batch, precision, recall, mAP at 0.5 and at 0.5:0.95, the losses of validation. The columns get
the names that the same projects give them in TensorBoard. A descendant that learns a fourth thing
(landmarks, angles, masks) writes its loss before the sum or behind it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Facts, FaultCode, Item

from .interface import HEAD, Options
from .sheet import Row, Sheet
from .text import Block, FaultLog, TextSource, decode_head

ROW = re.compile(
    r"\s*(?P<epoch>\d{1,9})/(?P<last>\d{1,9})\s+(?P<memory>\d[\d.]*(?:e[+-]?\d+)?)G"
    r"(?P<numbers>(?:\s+(?:-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan))){13,14})\s*",
    re.IGNORECASE,
)

PARTS = ("train/box_loss", "train/obj_loss", "train/cls_loss")
SUM, FOURTH = "train/loss", "train/extra_loss"
BATCH = ("labels", "img_size")
RESULTS = (
    *("metrics/precision", "metrics/recall", "metrics/mAP_0.5", "metrics/mAP_0.5:0.95"),
    *("val/box_loss", "val/obj_loss", "val/cls_loss"),
)
ROUNDED = 0.005
"""Relative difference from the sum that four digits of each part allow for."""


class YoloResults:
    """A table that is known by the shape of its rows."""

    name = "yolo-results"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = decode_head(head).split("\n")
        whole = lines[:-1] or (lines if len(head) < HEAD else [])
        return bool(whole) and ROW.fullmatch(whole[0]) is not None

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        table = _Table(sheet, faults)
        for block in TextSource(stream, faults).blocks():
            table.add(block)
            if sheet.full:
                break
        facts = Facts(framework="yolov5", max_epochs=table.epochs)
        yield from sheet.items(options, facts)


class _Table:
    def __init__(self, sheet: Sheet, faults: FaultLog) -> None:
        self._sheet, self._faults = sheet, faults
        self._names: Sequence[str] = ()
        self.epochs: float | None = None

    def add(self, block: Block) -> None:
        rows: list[Row] = []
        numbers: list[int] = []
        *lines, tail = block.data.decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines, block.first_line):
            row = self._row(line)
            if row is not None:
                rows.append(row)
                numbers.append(number)
            elif line.strip():
                self._faults.add(FaultCode.CORRUPT, "not a row of results", number)
        if tail.strip():
            at = block.first_line + len(lines)
            self._faults.add(FaultCode.TRUNCATED, "the file ends within a row", at)
        self._sheet.add(rows, numbers)

    def _row(self, line: str) -> Row | None:
        match = ROW.fullmatch(line)
        if match is None:
            return None
        try:
            memory, *values = map(float, [match["memory"], *match["numbers"].split()])
        except ValueError:  # 1.2.3
            return None
        names = self._names = self._names or _names(values)
        if len(names) != len(values):
            return None
        self.epochs = float(match["last"]) + 1
        return {"epoch": int(match["epoch"]), "gpu_mem": memory} | dict(
            zip(names, values, strict=True)
        )


def _names(values: Sequence[float]) -> Sequence[str]:
    """The columns behind the memory, from the values of the first row."""
    if len(values) == len(PARTS) + 1 + len(BATCH) + len(RESULTS):
        return (*PARTS, SUM, *BATCH, *RESULTS)
    sum_is_last = math.isclose(sum(values[:4]), values[4], rel_tol=ROUNDED)
    losses = (FOURTH, SUM) if sum_is_last else (SUM, FOURTH)
    return (*PARTS, *losses, *BATCH, *RESULTS)
