"""False alarms of the rules on published runs whose outcome is known independently.

    python benchmarks/population.py DIRECTORY [--half a|b|both] [--show N] [--pairs]

DIRECTORY holds ``mlperf-training-v4.0.jsonl.gz`` (a result a line: ``path``, ``bench``,
``status``, ``ev`` evaluations, ``tl`` training losses, ``thr`` throughput) and
``llm-speedruns.jsonl.gz`` (a log a line: ``file``, ``pop``, ``tr`` and ``va``). All of them
reached their target, except results whose status is not ``success``, which are left out: every FAIL
counted here is false.

The two halves are drawn by a hash of the path. Thresholds were chosen on half a only.

With ``--pairs`` each log is also the baseline of another one of its benchmark, or of its directory,
drawn at random with a fixed seed: every FAIL of a comparison is false there, too.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from trainproof.assembly import Reading, assemble
from trainproof.engine.evaluate import evaluate
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, RunView
from trainproof.model.outcome import Cell, Level, State
from trainproof.model.rule import SubjectKind
from trainproof.rules import REGISTRY

Point = Sequence[float]
LOSS_EVALUATIONS = frozenset({"gpt3", "llama2_70b_lora", "stable_diffusion"})
"""Benchmarks whose evaluation is a loss (or FID); of the others it is a metric, to be high."""

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


class Tally:
    """Counts by population and rule, the number of views, and those with a FAIL of any rule."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Count] = {}
        self.views = 0
        self.failed = 0

    def add(self, subject: Subject) -> None:
        cells = [evaluate(rule, subject.view, {}) for rule in REGISTRY.values()]
        for cell in cells:
            count = self.counts.setdefault((subject.population, cell.rule), Count())
            count.add(subject.name, cell)
        self.views += 1
        self.failed += any(hit.level is Level.FAIL for cell in cells for hit in cell.hits)

    def alone(self, rule: str) -> tuple[int, int]:
        """False FAILs and decisions of one rule; a whole run's series were counted alone."""
        parts = [
            count
            for (population, id), count in self.counts.items()
            if id == rule and not population.endswith("whole run")
        ]
        return sum(len(c.alarms) for c in parts), sum(c.decided for c in parts)


def tally(found: Iterator[Subject]) -> Tally:
    result = Tally()
    for subject in found:
        if subject.view.series:
            result.add(subject)
    return result


# --- one against another ------------------------------------------------------------------------

MOST_PAIRS = 150
"""Pairs drawn of one benchmark; of one directory of speed runs, six."""


def pairs(found: Iterator[Subject]) -> Iterator[Subject]:
    """Each a run with one other of its kind as its baseline."""
    kinds: dict[str, list[Subject]] = {}
    for one in found:
        speed_run = not one.population.startswith("mlperf")
        kind = f"{one.population} {one.name.rpartition('/')[0] if speed_run else ''}"
        if one.view.series and not one.population.endswith("whole run"):
            kinds.setdefault(kind, []).append(one)
    draw = random.Random(1)
    for members in kinds.values():
        possible = len(members) * (len(members) - 1)
        most = MOST_PAIRS if members[0].population.startswith("mlperf") else 6
        for _ in range(min(most, possible)):
            run, other = draw.sample(members, 2)
            view = replace(run.view, baselines=(replace(other.view, id="baseline"),))
            yield Subject("pairs", f"{run.name} against {other.name}", view)


def compared(found: Iterator[Subject], show: int) -> None:
    rules = [rule for rule in REGISTRY.values() if rule.info.subject is SubjectKind.PAIR]
    counts = {rule.info.id: Count() for rule in rules}
    views = decided = failed = 0
    for one in found:
        cells = [evaluate(rule, one.view, {}) for rule in rules]
        for cell in cells:
            counts[cell.rule].add(one.name, cell)
        views += 1
        decided += any(cell.rule == "TP-END-RATIO" and cell.state is State.CLEAN for cell in cells)
        failed += any(hit.level is Level.FAIL for cell in cells for hit in cell.hits)
    for id, count in counts.items():
        got = count.outcomes
        if got[Level.FAIL] or got[Level.WARN]:
            print(
                f"{id:26}{count.decided:6} decided{got[Level.FAIL]:5} FAIL{got[Level.WARN]:5} WARN"
            )
            for name in count.alarms[:show]:
                print(f"    FAIL {name}")
    print(
        f"pairs: {views}, of which the ends of {decided} are alike; {failed} with a false FAIL,",
        end=" ",
    )
    print(_interval(failed, views))


# --- printing -----------------------------------------------------------------------------------


def table(found: Tally, show: int) -> None:
    print(f"{'population':34}{'rule':22}{'clean':>7}{'fired':>7}{'n.c.':>7}{'FAIL':>6}{'WARN':>6}")
    for (population, rule), count in sorted(found.counts.items()):
        got = count.outcomes
        decided = rule in GROUNDS and count.decided
        if decided or got[Level.FAIL] or got[Level.WARN]:
            line = f"{population:34}{rule:22}{got[State.CLEAN]:7}{got[State.FIRED]:7}"
            print(f"{line}{got[State.NOT_CHECKED]:7}{got[Level.FAIL]:6}{got[Level.WARN]:6}")
            for name in count.alarms[:show]:
                print(f"    FAIL {name}")


def summary(parts: Sequence[Tally]) -> None:
    for rule in GROUNDS:
        each = [part.alone(rule) for part in parts]
        fails, decided = sum(f for f, _ in each), sum(d for _, d in each)
        print(f"{rule}: {fails} false FAIL of {decided} decided, {_interval(fails, decided)}")
    failed, views = sum(t.failed for t in parts), sum(t.views for t in parts)
    print(f"any rule: {failed} of {views} series and runs with a false FAIL,", end=" ")
    print(_interval(failed, views))


def _interval(events: int, trials: int) -> str:
    low, high = clopper_pearson(events, trials)
    return f"95 % interval {low:.2%} to {high:.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--half", choices=("a", "b", "both"), default="both")
    parser.add_argument("--show", type=int, default=5, help="false FAILs named per rule")
    parser.add_argument("--pairs", action="store_true", help="compare logs with one another, too")
    options = parser.parse_args()
    parts: list[Tally] = []
    for half in ("a", "b") if options.half == "both" else (options.half,):
        print(f"\n== half {half}")
        parts.append(tally(subjects(options.directory, half)))
        table(parts[-1], options.show)
        summary(parts[-1:])
    if len(parts) > 1:
        print("\n== both")
        summary(parts)
    if options.pairs:
        print("\n== pairs")
        compared(pairs(subjects(options.directory, options.half)), options.show)


if __name__ == "__main__":
    main()
