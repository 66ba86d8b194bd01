"""A sample against what is recorded, and published runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import population as published

from .results import Results, family, overall
from .runs import SMALL, sample
from .statistics import Rate

TOLERATED = 2
"""Runs of the sample that may come out otherwise, on a machine that adds in another order. None
where it comes to a false FAIL."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the sample: healthy runs with a FAIL and with a WARN; harmed runs, with an evaluation
    series and without, that were flagged."""

    fail: int
    warn: int
    evaluated: int
    train_only: int


def counts(results: Results) -> Counts:
    """Of the runs that the small size has, of a measurement of any size."""
    few = Results(sample(results.runs, SMALL), results.judged)
    healthy = few.healthy()
    return Counts(
        fail=family(few.judged, healthy, "FAIL").events,
        warn=family(few.judged, healthy, "WARN").events,
        evaluated=overall(few.judged, few, evaluated=True).flagged,
        train_only=overall(few.judged, few, evaluated=False).flagged,
    )


def compare(results: Results, recorded: str) -> list[str]:
    """What is worse on the sample than it was when everything was measured."""
    return list(worse(counts(results), Counts(**json.loads(recorded)["sample"])))


def worse(now: Counts, then: Counts) -> Iterator[str]:
    """A sentence for each count that is worse."""
    if now.fail > then.fail:
        yield f"{now.fail} healthy runs of the sample FAIL, {then.fail} were recorded"
    if now.warn > then.warn + TOLERATED:
        yield f"{now.warn} healthy runs of the sample WARN, {then.warn} were recorded"
    for name in ("evaluated", "train_only"):
        found, before = getattr(now, name), getattr(then, name)
        if found < before - TOLERATED:
            yield f"{found} harmed runs of the sample ({name}) are flagged, {before} were recorded"


def _text(rate: Rate) -> str:
    return f"{rate.events}/{rate.trials} = {rate.share:.2%}"


def population(directory: Path) -> str:
    """False FAILs on published runs whose outcome is known independently, as a paragraph."""
    tallied = published.tally(published.subjects(directory, "both"))
    lines = [
        f"- {rule}: {_text(Rate(*tallied.alone(rule)))} of the series it judged"
        f" (at most {Rate(*tallied.alone(rule)).upper:.2%})"
        for rule in published.GROUNDS
    ]
    rate = Rate(tallied.failed, tallied.views)
    head = (
        "Results of MLPerf Training v4.0 that reached their target and published speed runs of"
        " language models, from files beside the project (`benchmarks/population.py`):"
    )
    last = f"- any rule: {_text(rate)} of series and runs with a FAIL (at most {rate.upper:.2%})"
    return "\n".join([head, "", *lines, last])
