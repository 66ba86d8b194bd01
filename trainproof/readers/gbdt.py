"""What XGBoost and LightGBM print while they train, and what they and CatBoost return.

Printed, with a tab between metrics, and with a spread behind each when cross-validating::

    [0]     train-logloss:0.49556   eval-logloss:0.51152
    [1]     training's l2: 0.25     valid_1's l2: 0.26
    [LightGBM] [Info] Iteration:1, valid_1 auc : 0.97

``evals_result`` is ``{set: {metric: [value of each iteration]}}``. A column is called
``set/metric`` in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from msgspec.structs import replace

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Declared, Facts, FaultCode, Item, NotJudgeable

from .boosting import is_known, meanings, split_of_set
from .interface import HEAD, Options
from .json_object import begun_object, read_object
from .sheet import MAX_COLUMNS, Row, Sheet, number
from .text import FaultLog, Line, TextSource, decode_head, strip_ansi

STEP = "iteration"
NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)"
ITERATION = re.compile(r"(?:^|.*\s)\[(?P<step>\d{1,15})\](?P<metrics>(?:\t| {2,}).*)", re.DOTALL)
METRIC = re.compile(
    r"(?<![\t ])[\t ]+(?P<set>[^\s:'-][^\t:'-]{0,99})(?:-|'s )(?P<part>train |valid )?"
    rf"(?P<metric>[^\s:][^\t]{{0,99}}?):\s?(?P<value>{NUMBER})(?:\s?\+\s?{NUMBER})?(?=\s|$)",
    re.IGNORECASE,
)
"""``part`` is the set when LightGBM cross-validates: ``cv_agg's valid l2: 0.3 + 0.01``."""

COMMAND_LINE = re.compile(
    r"(?:.*\s)?Iteration:\s?(?P<step>\d{1,15}), (?P<set>\S+) (?P<metric>\S+) : "
    rf"(?P<value>{NUMBER})",
    re.IGNORECASE,
)
REPEATS = re.compile(r"best iteration(?: is)?:?\s*$", re.IGNORECASE)
"""The line after this one is that of an earlier iteration once more."""

MAX_LENGTH = 10_000
"""Characters of a line that are looked at."""

BATCH = 4096
"""Rows collected before they are stored."""


class BoostingLog:
    """The console of a training, and what else was printed there."""

    name = "boosting-log"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = decode_head(head).split("\n")
        whole = lines if len(head) < HEAD else lines[:-1]
        found = (_points(strip_ansi(line)) for line in whole)
        return any(is_known(tag.partition("/")[2]) for _, points in found for tag in points)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        rows: list[Row] = []
        numbers: list[int] = []
        for line, step, points in _iterations(TextSource(stream, faults).lines()):
            rows.append({STEP: step, **points})
            numbers.append(line)
            if len(rows) >= BATCH:
                sheet.add(rows, numbers)
                rows, numbers = [], []
            if sheet.full:
                break
        sheet.add(rows, numbers)
        yield from _declared(sheet, options)


class EvalsResult:
    """The results as a JSON document."""

    name = "evals-result"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        first = next(iter(begun_object(head).values()), None)
        if not isinstance(first, dict) or "loss" in first:
            return False
        name, values = next(iter(first.items()), ("", None))
        return is_known(name) and isinstance(values, list) and bool(values)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        document = read_object(stream, faults)
        series = list(_lists(document.members))
        if document.cut and series:
            member, metric, values = series.pop()
            series.append((member, metric, values[:-1]))  # digits may be missing
        said = _said((member, metric) for member, metric, _ in series)
        found = False
        for member, metric, values in series[:MAX_COLUMNS]:
            tag = f"{member}/{metric}"
            column = _column(tag, values, said[tag])
            if len(column):
                found = True
                yield column
        if len(series) > MAX_COLUMNS:
            detail = f"more than {MAX_COLUMNS} metrics: the others are left out"
            faults.add(FaultCode.TOO_LARGE, detail)
        yield from faults
        if not found and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no metric has a value")


def _iterations(lines: Iterator[Line]) -> Iterator[tuple[int, int, Mapping[str, float]]]:
    """Line, iteration and metrics of each line that holds some."""
    repeats = False
    for line in lines:
        if not line.text.strip():
            continue
        step, points = _points(line.text)
        if points and not repeats:
            yield line.number, step, points
        repeats = REPEATS.search(line.text[-80:]) is not None


def _points(line: str) -> tuple[int, Mapping[str, float]]:
    """The iteration, and its metrics by ``set/metric``; none where the line is about something
    else."""
    line = line[:MAX_LENGTH]
    if told := COMMAND_LINE.fullmatch(line):
        return int(told["step"]), {f"{told['set']}/{told['metric']}": float(told["value"])}
    told = ITERATION.fullmatch(line)
    if told is None:
        return 0, {}
    found = METRIC.finditer(told["metrics"])
    return int(told["step"]), {
        f"{(m['part'] or m['set']).strip()}/{m['metric']}": float(m["value"]) for m in found
    }


def _declared(sheet: Sheet, options: Options) -> Iterator[Item]:
    """What the sheet yields, each metric with its meaning in its set."""
    pairs = (tag.partition("/") for tag in sheet.names)
    said = _said((member, metric) for member, slash, metric in pairs if slash)
    for item in sheet.items(options, Facts()):
        if isinstance(item, Column) and item.tag in said:
            yield replace(item, declared=said[item.tag])
        else:
            yield item


def _said(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Declared]:
    """The meaning of each metric in its set, by ``set/metric``."""
    sets: dict[str, list[str]] = {}
    for member, metric in pairs:
        sets.setdefault(member, []).append(metric)
    return {
        f"{member}/{metric}": declared
        for member, metrics in sets.items()
        for metric, declared in meanings(metrics, split_of_set(member)).items()
    }


def _lists(document: Mapping[str, object]) -> Iterator[tuple[str, str, Sequence[object]]]:
    for member, metrics in document.items():
        for metric, values in metrics.items() if isinstance(metrics, Mapping) else ():
            if isinstance(values, list):
                yield member, metric, values


def _column(tag: str, values: Sequence[object], declared: Declared) -> Column:
    points = [(i, v) for i, value in enumerate(values) if (v := number(value)) is not None]
    return Column(
        tag,
        np.array([step for step, _ in points], dtype=np.int64),
        np.array([value for _, value in points], dtype=np.float64),
        declared=declared,
    )
