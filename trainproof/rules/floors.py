"""Levels that a loss has because of how it is computed, not of what was learned."""

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np

from trainproof.model.data import Axis, Facts, Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .constants import CLAMPS, EXACTLY, LEAST_FLOAT, clamp_at, softmax_twice
from .coupling import Coupling, coupling
from .examples import falling, series, view
from .interface import Bound, Companions, Declared, Each, Example, Which, rule, where
from .shape import late_level, on_same_data
from .statistics import greatest_of, least_of, median, screen, tail_of

GAMES = (Regime.REINFORCEMENT, Regime.ADVERSARIAL)

COMMON_CLASSES = (10, 100, 1000)
"""Numbers of classes that are tried where the run declares none."""


@rule(
    id="TP-LOSS-CLAMPED",
    title="The loss sits at the constant of a clamp",
    level=Level.FAIL,
    message="{series} is {value:.6g} from step {first_step} to the end: {clamp}, at which the"
    " logarithm is clamped.",
    evidence="The last {tail} of {points} values lie within 2 in 100,000 of that constant (from"
    " {in_a_row} on they count).",
    needs={"loss": Each((Role.LOSS,), Split.TRAIN, points=20, which=Which.PRINCIPAL)},
    measures={
        "points": "values logged",
        "value": "the value at the end",
        "tail": "values at the end that are at the constant",
        "clamp": "the constant",
    },
    variants={
        "epsilon": Variant(
            Level.WARN,
            "{series} is {value:.6g} from step {first_step} to the end: {clamp}, a usual clamp of"
            " logarithms.",
            "The last {tail} of {points} values lie within 2 in 100,000 of that constant (from"
            " {in_a_row} on they count).",
        )
    },
    doc=Doc(
        measures="How many of the last values of the training loss are the negative logarithm of"
        " one of the usual epsilons, or 100.",
        means="Every sample gets a probability of 0 for its own class, or one that is not finite,"
        " and the clamp that keeps the logarithm finite stands in for the loss: its gradient is 0.",
        does_not_mean="That the clamp is at fault: it hides outputs that are saturated or NaN.",
        guards=(
            "Twenty values at the end at least, each equal to the constant to five digits: a loss"
            " that passes by, or hovers near it, does not count.",
            "Only the logarithm of the least float32, 87.3365, fails: of it there are public logs."
            " The other constants are known from source code, not from logs, and 100 is a round"
            " number: a warning.",
            "Adversarial and reinforcement training are out of scope.",
        ),
        references=(
            "caffe #1255, PSPNet #63, caffe-wrn #1: 87.3365, the logarithm of the least float32",
            "sphereface #103: 87.3365 on every row past iteration 26,400; Up-Down-Captioner #2: on"
            " every row but the first",
            "PyTorch BCELoss: logarithms are clamped at -100; Keras: epsilon 1e-7",
        ),
    ),
    not_for=GAMES,
    fires=Example(
        "87.3365 after a few rows",
        view(series("loss", [*falling(10, 6, 5), *([87.3365] * 30)])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(40)))),
)
def clamped(
    loss: Series,
    *,
    in_a_row: Annotated[int, Bound("values", "at the end that count", ge=5)] = 20,
) -> Outcome:
    end = float(loss.values[-1])
    measured: dict[str, Value] = {"points": len(loss), "value": end}
    clamp = clamp_at(end, EXACTLY)
    if clamp is None:
        return Clean(measured)
    bound = CLAMPS[clamp]
    tail = tail_of(np.abs(loss.values - bound) <= EXACTLY * bound)
    measured |= {"tail": tail, "clamp": clamp}
    if tail < in_a_row:
        return Undecided(measured)
    variant = "" if clamp == LEAST_FLOAT else "epsilon"
    return Fired((Evidence(where(loss, len(loss) - tail), measured, variant),))


@rule(
    id="TP-SOFTMAX-TWICE",
    title="The loss stops at the floor of two softmaxes",
    level=Level.WARN,
    message="{series} stops at {end:.4g}, the least that a cross-entropy over {classes} classes can"
    " be when its input has been through a softmax already ({floor:.4g}), while {accuracy} is at"
    " {reached:.3g}.",
    evidence="The last third of {points} values lies within half a percent of that floor, and none"
    " lies below.",
    needs={
        "loss": Each((Role.LOSS,), points=20, which=Which.OBJECTIVE),
        "losses": Companions(Role.LOSS),
        "metrics": Companions(Role.METRIC),
        "facts": Declared(),
    },
    measures={
        "points": "values logged",
        "end": "median of the last third",
        "least": "lowest value",
        "classes": "declared number of classes, or 10, 100 or 1,000; in the other forms the one"
        " that follows from the sum",
        "floor": "logarithm of e + C - 1, less 1",
        "accuracy": "the accuracy on the same split",
        "reached": "its median over the last third",
        "rows": "rows with a loss and an accuracy",
        "total": "loss plus accuracy, mean over the last third",
        "ceiling": "logarithm of e + C - 1: that sum for C classes and two softmaxes",
        "cost": "loss, mean over the last third",
        "share": "accuracy, mean over the last third",
        "before": "accuracy over the first of twenty parts",
        "after": "accuracy over the last part",
        "moved": "standard deviation of the accuracy over these parts",
        "scatter": "that of the sum over that of the accuracy",
        "fair": "cross-entropy of the same answers, each with a confidence of the accuracy",
        "implied": "classes that follow from the sum, as computed",
    },
    variants={
        "coupled": Variant(
            Level.WARN,
            "{series} and {accuracy} keep the same sum from the start to the end, {total:.4g},"
            " while the latter goes from {before:.3g} to {after:.3g}: so does a cross-entropy over"
            " {classes} classes whose input has been through a softmax already ({ceiling:.4g}).",
            "Over {rows} rows in at most twenty parts the sum scatters by {scatter:.0%} of what the"
            " accuracy does (limit {least_scatter:.0%}), and no loss lies outside of {floor:.4g}"
            " to {ceiling:.4g}.",
        ),
        "standing": Variant(
            Level.WARN,
            "{series} ends at {cost:.4g} beside an accuracy of {share:.3g} ({accuracy}), as a"
            " cross-entropy over {classes} classes whose input has been through a softmax"
            " already; the same answers, each with a confidence of {share:.3g}, cost {fair:.4g}.",
            "Means over the last third of {rows} rows; their sum {total:.4g} is that of"
            " {implied:.3f} classes, and no loss lies outside of {floor:.4g} to {ceiling:.4g}.",
        ),
    },
    doc=Doc(
        measures="The last third of the loss against ln(e + C - 1) - 1, for the declared number of"
        " classes C or 10, 100 and 1,000, and the accuracy. Where a loss and an accuracy are"
        " logged on the same rows, also whether their sum stands still while both move: two"
        " softmaxes leave ln(e + C - 1) less the share of right answers.",
        means="The loss is as large as a softmax of probabilities must leave it. Its gradients are"
        " small, and training is slow.",
        does_not_mean="That the model is bad: the order of its answers is right. Logits that are"
        " kept between 0 and 1 by other means, as cosines without a temperature, look the same.",
        guards=(
            "At the floor: the accuracy, on the split of the loss, must be 95 % or more, where a"
            " plain cross-entropy is far lower; every value of the last third must be at it, and"
            " none below.",
            "By the sum: every loss must be one that two softmaxes can leave, an interval of"
            " length 1, and the sum must end within 0.03 of ln(e + C - 1). A plain cross-entropy"
            " falls by more than the accuracy rises: twice as much and more from five classes on.",
            "For two to four classes the slopes are near each other: the loss must also exceed, by"
            " 3 % (two classes) or 40 %, what the same answers cost with a confidence of their"
            " accuracy.",
            "Where the accuracy hardly moves, or moved at once, the loss must exceed that by a"
            " fifth, half of the answers be right, and the sum be that of a whole number of classes"
            " to 0.03.",
        ),
        references=(
            "SciCo #2, CGES #1, tflearn PR #562: softmax before a loss that applies it",
            "benchmarks/calibration: the sum of no healthy training stood still",
        ),
    ),
    not_for=(*GAMES, Regime.PREFERENCE),
    fires=Example(
        "1.4612 at an accuracy of 0.99",
        view(
            series("loss", [1.4612 + 0.8 * 0.8**i for i in range(60)]),
            series("accuracy", [0.99] * 60),
        ),
    ),
    silent=Example(
        "a falling loss",
        view(series("loss", falling(60)), series("accuracy", [0.99] * 60)),
    ),
)
def softmax_floor(
    loss: Series,
    losses: tuple[Series, ...],
    metrics: tuple[Series, ...],
    facts: Facts,
    *,
    near: Annotated[float, Bound("share", "of the floor: values at it", ge=0)] = 5e-3,
    right: Annotated[float, Bound("accuracy", "from which the two contradict", ge=0)] = 0.95,
    least_scatter: Annotated[
        float, Bound("share", "of the accuracy's: up to it the sum stands still", ge=0)
    ] = 0.4,
) -> Outcome:
    outcome = _by_floor(loss, metrics, facts, near, right)
    if isinstance(outcome, Fired) or not metrics:
        return outcome
    pairs = ((one, _accuracy(one, metrics)) for one in (loss, *losses))
    found = (_coupled(one, beside, least_scatter) for one, beside in pairs if beside is not None)
    fired = next(filter(None, found), None)
    return Fired((fired,)) if fired is not None else outcome


def _by_floor(
    loss: Series, metrics: tuple[Series, ...], facts: Facts, near: float, right: float
) -> Outcome:
    values = loss.values
    ending = values[-(len(values) // 3) :]
    least, most = least_of(values), greatest_of(ending)
    measured: dict[str, Value] = {"points": len(values), "end": late_level(loss), "least": least}
    candidates = COMMON_CLASSES if facts.num_classes is None else (facts.num_classes,)
    classes = _at_floor(candidates, least, most, near)
    if classes is None:
        return Clean(measured)
    measured |= {"classes": classes, "floor": softmax_twice(classes)}
    accuracy = _accuracy(loss, metrics)
    if accuracy is None:
        return Undecided(measured)
    reached = median(accuracy.values[-max(1, len(accuracy) // 3) :])
    measured |= {"accuracy": accuracy.tag, "reached": reached}
    if reached < right:
        return Undecided(measured)
    return Fired((Evidence(where(loss, -len(ending)), measured),))


MOST_CLASSES = 100
"""Above it the sums of neighbouring numbers of classes are no longer told apart."""

AT_CEILING = 0.03
"""Distance of loss plus accuracy from that sum for two softmaxes and answers that are certain."""

DEARER = {2: 1.03, 3: 1.4, 4: 1.4}
"""By few classes: what a loss must exceed, of what the same answers cost with a confidence of their
accuracy. A plain cross-entropy keeps the sum, too, while it is learned slowly."""

LEAST_MOVED = 0.015
"""Standard deviation of an accuracy that moves."""


def _coupled(loss: Series, accuracy: Series, least_scatter: float) -> Evidence | None:
    """What the sum of a total loss and an accuracy says, where it says anything."""
    found = None if loss.identity.component is not None else coupling(loss, accuracy)
    if found is None or not found.within or found.classes > MOST_CLASSES:
        return None
    still = found.scatter <= least_scatter and found.moved >= LEAST_MOVED
    near = abs(found.total - found.ceiling) < AT_CEILING
    if still and near and found.loss > DEARER.get(found.classes, 0.0) * found.fair:
        variant = "coupled"
    elif _stands(found):
        variant = "standing"
    else:
        return None
    measured: dict[str, Value] = {
        "points": len(loss),
        "accuracy": accuracy.tag,
        "rows": found.rows,
        "total": found.total,
        "cost": found.loss,
        "share": found.accuracy,
        "before": found.first,
        "after": found.last,
        "moved": found.moved,
        "scatter": found.scatter,
        "fair": found.fair,
        "classes": found.classes,
        "implied": found.implied,
        "floor": softmax_twice(found.classes),
        "ceiling": found.ceiling,
    }
    return Evidence(where(loss), measured, variant)


def _stands(found: Coupling) -> bool:
    whole = abs(found.implied - found.classes) <= 0.03
    return whole and found.accuracy >= 0.5 and found.loss > 1.2 * found.fair > 0


def _at_floor(candidates: Iterable[int], least: float, most: float, near: float) -> int | None:
    """The number of classes at whose floor a loss is. ``least``: of all values, ``most``: of those
    at the end."""
    for classes in candidates:
        floor = softmax_twice(max(2, classes))
        if most <= (1 + near) * floor and least >= (1 - near) * floor:
            return classes
    return None


def _accuracy(loss: Series, metrics: Iterable[Series]) -> Series | None:
    found = (
        one
        for one in on_same_data(loss, metrics)
        if "acc" in one.tag.lower() and not screen(one).nonfinite
    )
    return max(found, key=len, default=None)


@rule(
    id="TP-FIRST-LOSS",
    title="The first loss is not that of a guess",
    level=Level.WARN,
    message="{series} starts at {first:.4g}, {times:.3g} times the {guess:.4g} of an even guess"
    " among the {classes} declared classes.",
    evidence="The first of {points} values, at step {first_step} (from {most:g} times on it"
    " counts).",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=5, which=Which.PRINCIPAL, from_start=True),
        "facts": Declared("num_classes"),
    },
    measures={
        "points": "values logged",
        "classes": "declared number of classes",
        "guess": "natural logarithm of that number",
        "first": "the first value",
        "times": "first over guess",
    },
    variants={
        "low": Variant(
            Level.INFO,
            "{series} starts at {first:.4g}, well below the {guess:.4g} of an even guess among the"
            " {classes} declared classes.",
            "The first of {points} values, at step {first_step}: a model that was trained before"
            " starts like this, and so does one that is shown the answer.",
        )
    },
    doc=Doc(
        measures="The first logged loss against ln C, for C declared classes.",
        means="Outputs are large before anything was learned, or what is logged is no mean over the"
        " samples: the scale of initial weights, or of the loss, is not the usual one.",
        does_not_mean="That training fails: most runs recover from it within a few steps.",
        guards=(
            "Only where classes are declared and the first step is logged by itself; the mean of"
            " many steps is not judged.",
            "One and a half times the guess at least. A low start is a note: it is usual in"
            " fine-tuning.",
            "Parts of a loss, adversarial and reinforcement training are out of scope.",
        ),
        references=("TheDeepChecker 2023: initial loss against -ln(1/C)",),
    ),
    not_for=(*GAMES, Regime.PREFERENCE),
    fires=Example(
        "9.2 among ten classes",
        view(series("loss", falling(40, 9.2, 0.5)), facts=Facts(num_classes=10)),
    ),
    silent=Example(
        "2.3 among ten classes",
        view(series("loss", falling(40, 2.3, 0.5)), facts=Facts(num_classes=10)),
    ),
)
def first_loss(
    loss: Series,
    facts: Facts,
    *,
    most: Annotated[float, Bound("ratio", "to the loss of an even guess", ge=1)] = 1.5,
    least: Annotated[float, Bound("ratio", "below it a start is low", ge=0, le=1)] = 0.5,
) -> Outcome:
    classes, first = facts.num_classes or 0, float(loss.values[0])
    measured: dict[str, Value] = {"points": len(loss), "classes": classes, "first": first}
    alone = loss.column.axis is Axis.STEP and loss.steps[0] <= 1 and (facts.logging_steps or 1) == 1
    if classes < 2 or loss.identity.component is not None or not alone:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    guess = math.log(classes)
    measured |= {"guess": guess, "times": first / guess}
    if first >= most * guess:
        return Fired((Evidence(where(loss, 0, 0), measured),))
    if 0 <= first < least * guess:
        return Fired((Evidence(where(loss, 0, 0), measured, "low"),))
    return Clean(measured)
