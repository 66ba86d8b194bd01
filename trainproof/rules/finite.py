"""Values that stopped being numbers."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from trainproof.model.data import Role, Series
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Where
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Each, Example, rule

_NAN = float("nan")


@rule(
    id="TP-NAN",
    title="The loss is not a number",
    level=Level.FAIL,
    message="{series} is NaN or infinite from step {first_step} on.",
    evidence="{nonfinite} of {points} logged values are not finite, longest run {longest} in a"
    " row, the last {tail} values included (allowed at the end: {at_end}).",
    needs={"loss": Each((Role.LOSS,), nonfinite=1.0)},
    measures={
        "points": "values logged",
        "nonfinite": "values that are NaN or infinite",
        "longest": "longest run of consecutive values that are not finite",
        "tail": "consecutive values at the end that are not finite",
        "last_finite": "the last finite value before the first that is not",
    },
    variants={
        "recovered": Variant(
            Level.WARN,
            "{series} was NaN or infinite for a while and recovered.",
            "{nonfinite} of {points} logged values are not finite, first at step {first_step},"
            " longest run {longest} in a row; the last value is finite.",
        )
    },
    doc=Doc(
        measures="Counts logged loss values that are NaN or infinite, and their runs.",
        means="From there on the logged objective carries no information.",
        does_not_mean="That the weights on disk hold NaN: the checkpoint rules say that.",
        guards=("Isolated values from which the series recovers are a warning.",),
        references=("IEEE 754-2019, section 6.2",),
    ),
    fires=Example("the loss becomes NaN", view(series("loss", [3.0, 2.0, 1.5, _NAN, _NAN, _NAN]))),
    silent=Example("the loss falls", view(series("loss", falling(30)))),
)
def nonfinite_loss(
    loss: Series,
    *,
    in_a_row: Annotated[int, Bound("points", "consecutive values that make a FAIL", ge=1)] = 3,
    share: Annotated[float, Bound("share", "share of all values that makes a FAIL", ge=0)] = 0.01,
    at_end: Annotated[int, Bound("points", "values at the end tolerated", ge=0)] = 0,
) -> Outcome:
    bad = ~np.isfinite(loss.values)
    where = np.flatnonzero(bad)
    count, points = len(where), len(loss)
    if not count:
        return Clean({"points": points, "nonfinite": 0})
    longest, tail = _runs(bad)
    first, last = int(where[0]), int(where[-1])
    measured = {
        "points": points,
        "nonfinite": count,
        "longest": longest,
        "tail": tail,
        "last_finite": float(loss.values[first - 1]) if first else _NAN,
    }
    broken = longest >= in_a_row or tail > at_end or count >= share * points
    place = Where(
        loss.artifact,
        series=loss.tag,
        first_step=int(loss.steps[first]),
        last_step=int(loss.steps[last]),
        line=loss.line(first),
    )
    return Fired((Evidence(place, measured, "" if broken else "recovered"),))


def _runs(bad: np.typing.NDArray[np.bool_]) -> tuple[int, int]:
    """Length of the longest run of True, and of the run at the end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], bad, [False])).astype(np.int8)))
    lengths = edges[1::2] - edges[::2]
    return int(lengths.max()), int(lengths[-1]) if bad[-1] else 0
