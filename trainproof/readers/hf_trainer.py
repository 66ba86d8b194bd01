"""``trainer_state.json`` of transformers' Trainer, and of what is built on it (TRL and others).

The file is written with ``json.dump(indent=2, sort_keys=True)``. A raw newline cannot stand
inside a JSON string, so the separators of that layout are real separators wherever they occur,
and the log can be parsed in pieces: a million rows in the memory of a few megabytes. Other
layouts are parsed as a whole, up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Facts, FaultCode, Ints, Item, Split

from .interface import Options
from .json_text import loads, loads_leniently, loads_partial, object_spans, salvage, uncollected
from .names import classify
from .sheet import Row, Sheet
from .text import FaultLog, TextSource, decode_head, read_document

KEY = '"log_history"'
STATE = ('"global_step"', '"is_world_process_zero"', '"best_model_checkpoint"', '"max_steps"')
"""Keys of a state; two of them identify one whose ``log_history`` begins beyond the head."""

HISTORY = re.compile(rb'"log_history"\s*:\s*\[')
CANONICAL = re.compile(rb'\n  "log_history": \[\n(?=    \{\n)')
BETWEEN = b"\n    },\n    {\n"
END = b"\n    }\n  ]"
ROW_END = b"\n    }"

MAX_DOCUMENT = 64 << 20
MAX_TAIL = 16 << 20
"""Bytes that may follow the log: the states of callbacks stand there."""


class HfTrainer:
    """The log of a Trainer: training rows, ``eval_*`` rows and one summary row at the end."""

    name = "hf-trainer"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        text = decode_head(head).lstrip()
        if not text.startswith("{"):
            return False
        return KEY in text or sum(key in text for key in STATE) > 1

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        chunks = TextSource(stream, faults).chunks()
        with uncollected():
            first = next(chunks, b"")
            begin = CANONICAL.search(first)
            if begin is None:
                state = _whole(chain((first,), chunks), sheet, faults)
            else:
                state = _Canonical(sheet, faults).read(first, begin.end(), chunks)
        yield from sheet.items(options, _facts(state, sheet))


@dataclass(slots=True)
class _Canonical:
    """The layout with one key per line, read piece by piece."""

    sheet: Sheet
    faults: FaultLog
    line: int = 1
    rest: bytes = field(default=b"", init=False)

    def read(self, data: bytes, begin: int, chunks: Iterator[bytes]) -> Mapping[str, object]:
        """The state without its log; the log goes into the sheet."""
        head, self.rest = data[:begin], data[begin:]
        self.line += head.count(b"\n")
        while not self.sheet.full:
            end = self.rest.find(END)
            if end >= 0:
                self._add(self.rest[: end + len(ROW_END)])
                return self._state(head, self.rest[end + len(ROW_END) :], chunks)
            cut = self.rest.rfind(BETWEEN)
            if cut >= 0:
                self._add(self.rest[: cut + len(ROW_END)])
                self.rest = self.rest[cut + len(ROW_END) + 2 :]
                self.line += 1
            more = next(chunks, b"")
            if not more:
                self._ends_early()
                break
            self.rest += more
            self._check_size()
        return _object(head, partial=True)

    def _add(self, piece: bytes) -> None:
        """Parse a piece that holds whole rows, the last without newline."""
        newlines = piece.count(b"\n")
        try:
            rows = loads(b"[" + piece + b"]")
        except ValueError:
            rows = None
        if isinstance(rows, list) and set(map(type, rows)) == {dict}:
            self.sheet.add(rows, self._lines(rows, piece, newlines))
        else:
            self._add_one_by_one(piece)
        self.line += newlines

    def _add_one_by_one(self, piece: bytes) -> None:
        line = self.line
        for part in piece.removesuffix(ROW_END).split(ROW_END + b",\n"):
            try:
                row = loads_leniently(part + ROW_END)
            except ValueError as error:
                self.faults.add(FaultCode.CORRUPT, f"not JSON: {error}", line)
            else:
                self.sheet.add([row] if isinstance(row, dict) else [], [line])
            line += part.count(b"\n") + 2

    def _lines(self, rows: list[Row], piece: bytes, newlines: int) -> Ints | list[int]:
        """A row of scalars takes one line for each key and two for its braces."""
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + 2
        if int(sizes.sum()) == newlines + 1:
            return self.line + np.cumsum(sizes) - sizes
        spans = object_spans(b"[" + piece + b"]", 0)
        return [self.line + span.line for span in spans.objects]

    def _check_size(self) -> None:
        if len(self.rest) > MAX_DOCUMENT:
            self.sheet.full = True
            detail = f"a row of more than {MAX_DOCUMENT} bytes"
            self.faults.add(FaultCode.TOO_LARGE, detail, self.line, fatal=True)

    def _ends_early(self) -> None:
        whole = self.rest.rstrip()
        if whole.endswith(ROW_END):
            self._add(whole)
        line = self.line + self.rest.count(b"\n")
        self.faults.add(FaultCode.TRUNCATED, "the file ends within the log", line)

    def _state(self, head: bytes, tail: bytes, chunks: Iterator[bytes]) -> Mapping[str, object]:
        for data in chunks:
            tail += data
            if len(tail) > MAX_TAIL:
                detail = f"more than {MAX_TAIL} bytes follow the log"
                self.faults.add(FaultCode.TOO_LARGE, detail, self.line)
                break
        state = _object(head + tail, partial=False)
        if not state:
            line = self.line + tail.count(b"\n")
            self.faults.add(FaultCode.TRUNCATED, "the file ends behind the log", line)
            state = _object(head + tail, partial=True)
        return state


def _whole(chunks: Iterator[bytes], sheet: Sheet, faults: FaultLog) -> Mapping[str, object]:
    data = read_document(chunks, faults, MAX_DOCUMENT)
    if data is None:
        return {}
    begin = HISTORY.search(data)
    start = begin.end() - 1 if begin else 0
    first = 1 + data.count(b"\n", 0, start)
    spans = object_spans(data, start) if begin else None
    state = _object(data, partial=False)
    rows = state.get("log_history")
    if spans is not None and isinstance(rows, list) and len(rows) == len(spans.objects):
        sheet.add(rows, [first + span.line for span in spans.objects])
        return state
    if spans is not None:
        sheet.add(*salvage(data, spans, first, faults))
    if not state:
        cut = bool(_object(data, partial=True))
        code = FaultCode.TRUNCATED if cut else FaultCode.CORRUPT
        detail = "the file is cut" if cut else "not JSON"
        faults.add(code, detail, data.count(b"\n") + 1 if cut else None)
    return state or _object(data[: start + 1], partial=True)


def _object(data: bytes, *, partial: bool) -> Mapping[str, object]:
    try:
        state = (loads_partial if partial else loads)(data)
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _facts(state: Mapping[str, object], sheet: Sheet) -> Facts:
    best = _number(state, "best_metric")
    name, greater = _best(best, sheet)
    checkpoint = state.get("best_model_checkpoint")
    step, epoch = _whole_number(state, "global_step"), _number(state, "epoch")
    limit = _whole_number(state, "max_steps")
    done = sheet.summary is not None or (step is not None and limit == step)
    return Facts(
        framework="transformers",
        max_steps=limit,
        max_epochs=_number(state, "num_train_epochs"),
        steps_per_epoch=_per_epoch(step, epoch),
        last_step=step,
        last_epoch=epoch,
        logging_steps=_whole_number(state, "logging_steps"),
        batch_size=_whole_number(state, "train_batch_size"),
        best_metric_name=name,
        best_metric=best,
        best_checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        greater_is_better=greater,
        finished=True if done else None,
    )


def _best(best: float | None, sheet: Sheet) -> tuple[str | None, bool | None]:
    """The evaluation column that holds the best metric, and whether it is its maximum."""
    if best is None:
        return None, None
    for name in sheet.names:
        if classify(name).split is not Split.EVAL:
            continue
        values = sheet.scattered(name)
        values = values[np.isfinite(values)]
        if best in values:
            least, most = float(values.min()), float(values.max())
            return name, None if least == most else {most: True, least: False}.get(best)
    return None, None


def _per_epoch(step: int | None, epoch: float | None) -> int | None:
    """Steps in an epoch, where the state says it to a whole number."""
    if not step or not epoch or not epoch > 0:
        return None
    steps = step / epoch
    return round(steps) if 0.5 < steps < 1e9 and abs(steps - round(steps)) < 1e-3 else None


def _number(state: Mapping[str, object], key: str) -> float | None:
    value = state.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -1e300 < value < 1e300 else None


def _whole_number(state: Mapping[str, object], key: str) -> int | None:
    """A positive count; Trainer writes -1 or a fraction where there is none."""
    value = _number(state, key)
    return int(value) if value is not None and 1 <= value < 2**53 and value % 1 == 0 else None
