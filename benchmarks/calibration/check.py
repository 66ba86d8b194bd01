"""A sample against what is recorded, and published runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import population as published

from .results import Results, family, overall
from .statistics import Rate


def compare(results: Results, recorded: str) -> list[str]:
    """What got worse than the recorded intervals allow: a rate of the sample of which even the
    favourable end of its own interval lies beyond them."""
    return list(_worse(results, json.loads(recorded)))


def _worse(results: Results, document: dict[str, Any]) -> Iterator[str]:
    for level in ("FAIL", "WARN"):
        rate = family(results.judged, results.healthy(), level)
        allowed = document["family"][level]["all"]["upper"]
        if rate.bounds[0] > allowed:
            yield f"{_text(rate)} of healthy runs with a {level}, recorded at most {allowed:.2%}"
    for name, evaluated in (("with_evaluation", True), ("train_only", False)):
        rate = overall(results.judged, results, evaluated=evaluated).rate
        least = document["detection"][name]["lower"]
        if rate.bounds[1] < least:
            yield f"{_text(rate)} of harmed runs flagged {name}, recorded at least {least:.2%}"


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
