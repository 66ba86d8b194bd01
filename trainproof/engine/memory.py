"""Judge what is in memory already: what a callback collected, what was counted of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainproof.model.data import RunView
from trainproof.model.outcome import Value
from trainproof.model.wire import RunResult
from trainproof.rules import REGISTRY

from .evaluate import evaluate
from .work import segment, summary


def judge_view(
    view: RunView, rules: Sequence[str], thresholds: Mapping[str, Mapping[str, Value]]
) -> RunResult:
    """Apply ``rules`` to the view, in this process: it parses nothing."""
    return RunResult(
        cells=tuple(evaluate(REGISTRY[id], view, thresholds.get(id, {})) for id in rules),
        segments=tuple(segment(attempt) for attempt in view.attempts),
        rewinds=view.rewinds,
        series=tuple(summary(attempt, one) for attempt in view.attempts for one in attempt.series),
        facts=view.facts,
        faults=view.faults,
    )
