"""The scale that keeps small gradients representable in half precision."""

from typing import Annotated

import numpy as np

from trainproof.model.data import Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Companions, Each, Example, rule, where
from .shape import first_improved
from .statistics import tail_of


@rule(
    id="TP-LOSS-SCALE-COLLAPSE",
    title="The loss scale collapsed",
    level=Level.FAIL,
    message="{series} fell from {most:g} to {end:.3g} and stays at {floor:g} or below from step"
    " {first_step} on; no training loss improved.",
    evidence="The last {tail} of {points} values are at {floor:g} or below (from {in_a_row} on they"
    " count).",
    needs={
        "scale": Each((Role.LOSS_SCALE,), points=20),
        "losses": Companions(Role.LOSS, Split.TRAIN),
    },
    measures={
        "points": "values logged",
        "most": "the highest scale",
        "end": "the scale at the end",
        "tail": "values at the end that are at the floor or below",
        "loss_name": "a training loss that improved",
    },
    variants={
        "zero": Variant(
            Level.FAIL,
            "{series} fell from {most:g} to exactly 0 at step {first_step} and stays there.",
            "The last {tail} of {points} values are 0: a loss times 0 has no gradient.",
        ),
        "learning": Variant(
            Level.WARN,
            "{series} fell from {most:g} to {end:.3g} and stays at {floor:g} or below from step"
            " {first_step} on, though {loss_name} improved.",
            "The last {tail} of {points} values are at {floor:g} or below: gradients overflow"
            " half precision without any scaling.",
        ),
    },
    doc=Doc(
        measures="How many of the last values of the loss scale are 1 or below, or 0, after it had"
        " been greater.",
        means="Step after step overflowed and was skipped, and the scale was halved until nothing"
        " was left: small gradients vanish, and most steps do nothing.",
        does_not_mean="Which layer overflows; nor that the weights are damaged.",
        guards=(
            "The scale must have been 16 or more: a scale of 1 throughout is bfloat16's.",
            "Halvings at the start are how the scale is found; only its level at the end counts.",
            "Beside a training loss that improved it is a warning: large gradients may need no"
            " scaling. Except at 0.",
        ),
        references=(
            "fairseq #282, #515; insightface #2262 (0); DeepSpeed #697, #5779",
            "apex #318, FactSeg #6: halved to 1e-205 and on to 0, while every step is skipped",
            "torch 2.13, GradScaler: a loss that overflows on every step brings the scale to 0",
            "DeepSpeed #931, CogVideo #233: benign halvings",
        ),
    ),
    fires=Example(
        "halved every row",
        view(
            series("loss_scale", [65536 * 0.5**i for i in range(40)]),
            series("loss", [2.0, 2.1] * 20),
        ),
    ),
    silent=Example(
        "found after three halvings",
        view(
            series("loss_scale", [65536.0, 32768.0, 16384.0, *([8192.0] * 37)]),
            series("loss", falling(40)),
        ),
    ),
)
def loss_scale_collapse(
    scale: Series,
    losses: tuple[Series, ...],
    *,
    floor: Annotated[float, Bound("scale", "at which nothing is scaled", ge=0)] = 1.0,
    least: Annotated[float, Bound("scale", "that it must have had before", ge=1)] = 16.0,
    in_a_row: Annotated[int, Bound("values", "at the end that count", ge=2)] = 10,
) -> Outcome:
    values = scale.values
    most = float(values.max())
    measured: dict[str, Value] = {"points": len(scale), "most": most, "end": float(values[-1])}
    zeros = tail_of(values == 0)
    tail = zeros if zeros >= in_a_row else tail_of(np.abs(values) <= floor)
    measured["tail"] = tail
    if most < least or tail < in_a_row:
        return Clean(measured)
    place = where(scale, len(scale) - tail)
    if zeros >= in_a_row:
        return Fired((Evidence(place, measured, "zero"),))
    loss = first_improved(losses)
    if loss is None:
        return Fired((Evidence(place, measured),))
    return Fired((Evidence(place, {**measured, "loss_name": loss.tag}, "learning"),))
