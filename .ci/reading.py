"""How much of a labelled collection of logs is read as what it is, whatever the verdict.

    python .ci/reading.py LABELS CORPUS [--floor SHARE]

LABELS holds ``runs.tsv``: one line for each run with the files that make it, what they are
(``kind``), the principal series (``objective``), the held-out one and the metric with their first
and last value, how many points the first two have, and how many executions there are.
Prints the shares and every miss; exits with 1 when a share is below the floor.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainproof.api import audit
from trainproof.config import Config
from trainproof.model.report import Report, SeriesSummary, SubjectReport

PRECISE = 5e-4
"""Relative difference that four digits of a console allow for."""

Row = dict[str, str]


@dataclass(frozen=True)
class Curve:
    """One tag of one artifact over all executions: points, first and last value."""

    artifacts: frozenset[str]
    points: int
    first: float
    last: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labels", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--floor", type=float, default=0.95)
    options = parser.parse_args()
    return measure(options.labels, options.corpus, options.floor)


def measure(labels: Path, corpus: Path, floor: float) -> int:
    right, all_ = Counter[str](), Counter[str]()
    misses = []
    for group, members in _groups(labels / "runs.tsv", corpus):
        report = audit(Config(paths=(str(corpus / group),), isolation=False))
        for what, who, miss in _measured(report, group, members):
            all_[what] += 1
            right[what] += not miss
            if miss:
                misses.append(f"{what}: {who}: {miss}")
    for what, count in all_.items():
        print(f"{what:40} {right[what]:4} of {count:4}  {right[what] / count:7.1%}")
    print("\n".join(misses))
    return int(any(right[what] < floor * count for what, count in all_.items()))


def _groups(runs: Path, corpus: Path) -> Iterator[tuple[str, list[Row]]]:
    """The groups of which files are there."""
    groups = defaultdict(list)
    with runs.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["open_copy"] != "absent":
                groups[row["group"]].append(row)
    return ((name, rows) for name, rows in sorted(groups.items()) if (corpus / name).is_dir())


def _measured(report: Report, group: str, members: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """What is measured, of what, and what is wrong with it (nothing: the empty text)."""
    logs = [row for row in members if row["kind"] == "log"]
    if logs:
        yield "groups with the right number of runs", group, _of_count(report, logs)
    for row in members:
        if row["kind"] == "log":
            yield from _of_log(report, row, alone=len(members) == 1)
        else:
            yield f"{row['kind']} named as such", row["run_id"], _of_other(report, row)


def _of_count(report: Report, logs: Sequence[Row]) -> str:
    """Executions of one run may be told apart or judged as one."""
    most = sum(int(row["attempts"] or 1) for row in logs)
    found = sum(any(one.points for one in run.series) for run in report.reports)
    if len(logs) <= found <= max(len(logs), most) or _is_named(report):
        return ""
    return f"{found} runs, not {len(logs)}" + (f" to {most}" if most > len(logs) else "")


def _is_named(report: Report) -> bool:
    """Whether what cannot be read is said to be so."""
    return "unsupported-format" in report.not_judged.counts and not report.reports


def _of_log(report: Report, row: Row, *, alone: bool) -> Iterator[tuple[str, str, str]]:
    own = [run for run in report.reports if alone or _is_about(run, _files(row))]
    curves = [curve for run in own for curve in _curves(run.series)]
    if not row["objective"]:
        yield "principal series read", row["run_id"], "" if _is_named(report) else "not named"
        return
    for what, key in (("principal series read", "obj"), ("held-out series read", "heldout")):
        if row[f"{key}_n"] not in ("", "0"):
            number, first, last = (row[f"{key}_{part}"] for part in ("n", "first", "last"))
            yield what, row["run_id"], _missing(curves, int(number), float(first), float(last))
    if row["metric_first"]:
        first, last = float(row["metric_first"]), float(row["metric_last"])
        yield "metric read", row["run_id"], _missing(curves, None, first, last)


def _is_about(run: SubjectReport, files: Iterable[str]) -> bool:
    return any(artifact.path in files for artifact in run.artifacts)


def _files(row: Row) -> list[str]:
    return [name for name in row["files"].split(";") if name]


def _curves(series: Iterable[SeriesSummary]) -> Iterator[Curve]:
    def of(one: SeriesSummary) -> tuple[str, str]:
        return one.artifact, one.name

    for (artifact, _), group in itertools.groupby(sorted(series, key=of), of):
        parts = sorted(group, key=lambda one: one.segment)
        also = itertools.chain.from_iterable(one.also_in for one in parts)
        points = sum(one.points for one in parts)
        yield Curve(
            frozenset((artifact, *also)), points, float(parts[0].first), float(parts[-1].last)
        )


def _missing(curves: Sequence[Curve], points: int | None, first: float, last: float) -> str:
    """Why no curve is the one that is looked for. Values tell curves apart, not names."""
    same = [one for one in curves if _near(one.first, first) and _near(one.last, last)]
    if not same:
        return f"no series from {first} to {last} among {len(curves)}"
    if points is None or any(one.points == points for one in same):
        return ""
    return f"{[one.points for one in same]} points, not {points}"


def _near(value: float, label: float) -> bool:
    if math.isnan(label):
        return math.isnan(value)
    return math.isclose(value, label, rel_tol=PRECISE, abs_tol=1e-9)


def _of_other(report: Report, row: Row) -> str:
    """Of what is no log: a series of it is a mistake, and so is silence about a pointer."""
    files = _files(row)
    runs = [run for run in report.reports if _is_about(run, files)]
    judged = [run.verdict for run in runs if run.verdict != "NOT-CHECKED"]
    if judged:
        return f"judged: {judged}"
    contents = {file.content for file in report.not_judged.files if file.path in files}
    match row["kind"]:
        case "not-a-log":
            lengths = {one.points for run in runs for one in run.series}
            return "" if max(lengths, default=0) < 2 else f"series of {max(lengths)} points"
        case "pointer":
            return "" if contents == {"git-lfs-pointer"} else f"{contents}"
        case "summary-only":
            return "" if "summary-only" in contents else f"{contents}"
    known = {"header-only", "empty", "summary-only"} & contents
    return "" if known or _is_one_setting(runs) else f"{contents or report.not_judged.counts}"


def _is_one_setting(runs: Sequence[SubjectReport]) -> bool:
    """Lightning writes ``hp_metric`` before anything is measured."""
    return bool(runs) and all(one.role == "other" for run in runs for one in run.series)


if __name__ == "__main__":
    sys.exit(main())
