"""False alarms of the rules on published runs whose outcome is known independently.

    python benchmarks/population.py DIRECTORY [--half a|b|both] [--show N]

DIRECTORY holds ``mlperf-training-v4.0.jsonl.gz`` (a result a line: ``path``, ``bench``,
``status``, ``ev`` evaluations, ``tl`` training losses, ``thr`` throughput) and
``llm-speedruns.jsonl.gz`` (a log a line: ``file``, ``pop``, ``tr`` and ``va``). All of them
reached their target, except results whose status is not ``success``, which are left out: every FAIL
counted here is false.

The two halves are drawn by a hash of the path. Thresholds were chosen on half a only.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainproof.assembly import Reading, assemble
from trainproof.engine.evaluate import evaluate
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, RunView
from trainproof.model.outcome import Cell, Level, State
from trainproof.rules import REGISTRY

Point = Sequence[float]
LOSS_EVALUATIONS = frozenset({"gpt3", "llama2_70b_lora", "stable_diffusion"})
"""Benchmarks whose evaluation is a loss (or FID); of the others it is a metric, higher is better."""

GROUNDS = ("TP-DIVERGE", "TP-DEAD-RUN")


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One published series, or one whole run, as a view."""

    population: str
    name: str
    view: RunView


def subjects(directory: Path, half: str) -> Iterator[Subject]:
    yield from _speed_runs(directory / "llm-speedruns.jsonl.gz", half)
    yield from _mlperf(directory / "mlperf-training-v4.0.jsonl.gz", half)


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _wanted(name: str, half: str) -> bool:
    drawn = "ab"[hashlib.sha256(name.encode()).digest()[0] & 1]
    return half in ("both", drawn)


def _speed_runs(path: Path, half: str) -> Iterator[Subject]:
    for row in _rows(path):
        name, pop = str(row["file"]), str(row["pop"])
        if not _wanted(name, half):
            continue
        train, held_out = _points(row["tr"]), _points(row["va"])
        yield Subject(f"{pop} train", name, _view({"train_loss": train}))
        yield Subject(f"{pop} val, fed as the loss", name, _view({"train_loss": held_out}))
        if train and held_out:
            run = _view({"train_loss": train, "val_loss": held_out})
            yield Subject(f"{pop} whole run", name, run)


def _mlperf(path: Path, half: str) -> Iterator[Subject]:
    for row in _rows(path):
        name, bench = str(row["path"]), str(row["bench"])
        if row["status"] != "success" or not _wanted(name, half):
            continue
        evaluations = _points(row["ev"])
        if bench not in LOSS_EVALUATIONS:
            evaluations = [(step, 1 - value) for step, value in evaluations]
        yield Subject(f"mlperf {bench} eval", name, _view({"train_loss": evaluations}))
        yield Subject(f"mlperf {bench} train", name, _view({"train_loss": _points(row["tl"])}))
        speed = row["thr"]
        assert isinstance(speed, list)
        yield Subject(f"mlperf {bench} speed", name, _view({"throughput": _numbered(speed)}))


def _points(pairs: object) -> list[Point]:
    assert isinstance(pairs, list)
    return [pair for pair in pairs if pair[0] is not None and pair[1] is not None]


def _numbered(values: Sequence[float]) -> list[Point]:
    return [(i, value) for i, value in enumerate(values) if value is not None]


def _view(series: dict[str, list[Point]]) -> RunView:
    """As the product sees a file with these columns: segmented at rewinds, before any rule."""
    columns = tuple(
        Column(
            tag,
            np.array([step for step, _ in points], np.int64),
            np.array([value for _, value in points], np.float64),
        )
        for tag, points in series.items()
        if points
    )
    artifact = Artifact("", "log.jsonl", 0, Kind.LOG, "jsonl")
    return assemble("run", [Reading(artifact, columns)])


# --- counting -----------------------------------------------------------------------------------


class Count:
    """Applications of one rule on one population, and what came of them."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.alarms: list[str] = []

    def add(self, name: str, cell: Cell) -> None:
        for check in cell.checks:
            self.outcomes[str(check.state)] += 1
        for hit in cell.hits:
            self.outcomes[str(hit.level)] += 1
            if hit.level is Level.FAIL:
                self.alarms.append(name)

    @property
    def decided(self) -> int:
        return self.outcomes[State.CLEAN] + self.outcomes[State.FIRED]


def clopper_pearson(events: int, trials: int, alpha: float = 0.05) -> tuple[float, float]:
    """Exact two-sided confidence interval of a proportion (Clopper and Pearson 1934)."""
    if not trials:
        return 0.0, 1.0
    low = 0.0 if events == 0 else _solve(lambda p: 1 - _at_most(events - 1, trials, p), alpha / 2)
    high = 1.0 if events == trials else _solve(lambda p: -_at_most(events, trials, p), -alpha / 2)
    return low, high


def _at_most(events: int, trials: int, p: float) -> float:
    """P(X <= events) of a binomial."""
    if p <= 0 or p >= 1:
        return float(p <= 0 or events >= trials)
    logs = (
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(p)
        + (trials - k) * math.log1p(-p)
        for k in range(events + 1)
    )
    return math.fsum(map(math.exp, logs))


def _solve(rising, level: float) -> float:  # type: ignore[no-untyped-def]
    """Where a function that rises on 0..1 reaches ``level``, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return low


def measure(found: Iterator[Subject]) -> dict[tuple[str, str], Count]:
    counts: dict[tuple[str, str], Count] = {}
    for subject in found:
        if not subject.view.series:
            continue
        for rule in REGISTRY.values():
            cell = evaluate(rule, subject.view, {})
            count = counts.setdefault((subject.population, rule.info.id), Count())
            count.add(subject.name, cell)
    return counts


def report(title: str, counts: dict[tuple[str, str], Count], show: int) -> None:
    print(f"\n== {title}")
    print(f"{'population':34}{'rule':22}{'clean':>7}{'fired':>7}{'n.c.':>7}{'FAIL':>6}{'WARN':>6}")
    for (population, rule), count in sorted(counts.items()):
        got = count.outcomes
        if rule in GROUNDS or got[Level.FAIL] or got[Level.WARN]:
            line = f"{population:34}{rule:22}{got[State.CLEAN]:7}{got[State.FIRED]:7}"
            print(f"{line}{got[State.NOT_CHECKED]:7}{got[Level.FAIL]:6}{got[Level.WARN]:6}")
            for name in count.alarms[:show]:
                print(f"    FAIL {name}")
    for rule in GROUNDS:
        parts = [
            c for (pop, id), c in counts.items() if id == rule and not pop.endswith("whole run")
        ]
        fails, decided = sum(len(c.alarms) for c in parts), sum(c.decided for c in parts)
        low, high = clopper_pearson(fails, decided)
        print(f"{rule}: {fails} false FAIL of {decided} decided, 95 % {low:.2%} to {high:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--half", choices=("a", "b", "both"), default="both")
    parser.add_argument("--show", type=int, default=5, help="false FAILs named per rule")
    options = parser.parse_args()
    for half in ("a", "b") if options.half == "both" else (options.half,):
        report(f"half {half}", measure(subjects(options.directory, half)), options.show)


if __name__ == "__main__":
    main()
