"""Two networks against each other. Their losses are a game's: neither has to fall."""

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np

from trainproof.model.data import Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .constants import clamp_at
from .examples import falling, series, view
from .interface import Bound, Companions, Each, Example, rule, where
from .shape import fell, gravest, rose
from .statistics import FEW, least_change, median, profile, screen

OTHER_REGIMES = (Regime.REINFORCEMENT, Regime.PREFERENCE)

DISCRIMINATOR = frozenset({"disc"})
GENERATOR = "gen"
TARGETS = frozenset(
    {"mel", "spec", "spectral", "stft"}
    | {"rec", "recon", "reconstruction", "cycle", "idt", "identity"}
    | {"l1", "l2", "mse", "mae", "pix", "pixel", "percep", "perceptual"}
)
"""Words for parts that compare with a given target: they measure progress, not a game."""

DISCRIMINATORS = Each((Role.LOSS,), Split.TRAIN, points=50, parts=DISCRIMINATOR)
LOSSES = Companions(Role.LOSS, Split.TRAIN)

LARGER = 1.5
"""A generator's loss that rose to this multiple of its start says that it is losing."""

ALIVE = 0.2
"""A discriminator's loss that keeps this share of its level at the start still has work to do."""

HOPELESS = 3.0
"""A generator's loss at less than this multiple of its start is still in the game."""


def _generators(losses: Iterable[Series]) -> list[Series]:
    """The losses of the game's other side, without the parts that compare with a target."""
    return [
        one
        for one in losses
        if _words(one)[0] == GENERATOR and not TARGETS & set(_words(one)) and len(one) >= FEW
    ]


def _words(series: Series) -> list[str]:
    return (series.identity.component or "").split("_")


def _losing(generators: Iterable[Series]) -> Series | None:
    """The first generator whose loss rose beyond doubt, and by half of its start or more."""
    for one in generators:
        if screen(one).nonfinite:
            continue
        seen = profile(one)
        if rose(seen) and seen.last >= seen.first + (LARGER - 1) * abs(seen.first):
            return one
    return None


@rule(
    id="TP-DISCRIMINATOR-WON",
    title="The discriminator won the game",
    level=Level.WARN,
    message="{series} sank from {first:.4g} to {end:.4g} and stayed there, while {generator} rose"
    " from {generator_first:.4g} to {generator_last:.4g}.",
    evidence="Over the last {tail} of {points} rows the discriminator's loss lies below {floor:g}"
    " of its level at the start ({share:.0%} of the rows count).",
    needs={"disc": DISCRIMINATORS, "losses": LOSSES},
    measures={
        "points": "values of the discriminator's loss",
        "first": "its level at the start, a median",
        "end": "its level over the last tenth, a median",
        "least": "its lowest value",
        "tail": "rows at the end below the floor",
        "clamp": "the constant at which it sits",
        "generator": "the generator's loss",
        "generator_first": "its level at the start",
        "generator_last": "its level at the end",
        "moved": "noise of one row over the last tenth, over the level there",
    },
    variants={
        "clamped": Variant(
            Level.WARN,
            "{series} sits at {end:.5g}, where a clamp holds it ({clamp}), while {generator} rose"
            " from {generator_first:.4g} to {generator_last:.4g}.",
            "Median over the last tenth of {points} rows; a clamped loss gives no gradient.",
        ),
        "balanced": Variant(
            Level.INFO,
            "{series} stays at {end:.5g} over the second half of the log: the discriminator"
            " answers as if it could not tell real from generated.",
            "Every tenth of the last half lies within half a percent of ln 2 or 2 ln 2, over"
            " {points} rows.",
        ),
    },
    doc=Doc(
        measures="The level of the discriminator's loss at the end against its start, and whether"
        " the generator's loss rose meanwhile.",
        means="The discriminator tells real from generated without error: the generator gets next"
        " to no gradient, and its loss says that it is losing.",
        does_not_mean="That samples are bad, nor, where clean, that they are good: a generator that"
        " gives one sample over and over has losses like a healthy one's.",
        guards=(
            "The generator's loss must have risen beyond doubt, by half of its start or more.",
            "A loss near 0 for a while is no win: the last tenth of the rows must all lie below.",
            "A loss that is ever negative is a Wasserstein critic's or a score: at 0 it may have"
            " converged or died, and the losses cannot tell. Not checked.",
            "A loss of exactly 0 is a hinge without violations, or rounding: not checked.",
            "Clean only from fifty rows on, with both sides in the game: the discriminator's loss"
            " keeps a fifth of its start, off every clamp, and still scatters; the generator's"
            " is below three times its start.",
        ),
        references=(
            "ganhacks #36, HyperGAN #177, StyleNAT #11: a discriminator's loss of 0",
            "CycleGAN #806: a loss near 0 for a while is harmless",
            "Goodfellow et al. 2014: 2 ln 2 where the discriminator cannot tell",
        ),
    ),
    grounds=True,
    not_for=OTHER_REGIMES,
    fires=Example(
        "one sinks, the other rises",
        view(
            series("loss_disc", falling(200, 1.2, 1e-5)),
            series("loss_gen", falling(200, 1.0, 12.0)),
            regime=Regime.ADVERSARIAL,
        ),
    ),
    silent=Example(
        "both in the game",
        view(
            series("loss_disc", falling(200, 1.3, 1.1, noise=0.05)),
            series("loss_gen", falling(200, 0.9, 1.1, noise=0.1)),
            regime=Regime.ADVERSARIAL,
        ),
    ),
)
def discriminator_won(
    disc: Series,
    losses: tuple[Series, ...],
    *,
    floor: Annotated[float, Bound("share", "of the start: a loss below it has sunk", ge=0)] = 1e-3,
    share: Annotated[float, Bound("share", "of the rows, at the end", ge=0.01, le=1)] = 0.1,
) -> Outcome:
    values = disc.values
    seen = profile(disc)
    ending = values[-max(FEW, math.ceil(share * len(disc))) :]
    end = median(ending)
    measured: dict[str, Value] = {
        "points": len(disc),
        "first": seen.first,
        "end": end,
        "least": float(values.min()),
        "moved": median(np.abs(np.diff(ending))) / end if end > 0 else 0.0,
    }
    if values.min() < 0 or end == 0:
        return Undecided(measured)
    generators = _generators(losses)
    if not generators:
        return Undecided(measured, Skip.NEED_ABSENT)
    below = np.flatnonzero(values >= floor * seen.first)
    tail = len(disc) - (int(below[-1]) + 1 if len(below) else 0)
    clamp = clamp_at(end)
    measured |= {"tail": tail} if clamp is None else {"tail": tail, "clamp": clamp}
    losing = _losing(generators)
    if losing is not None and (tail >= len(ending) or clamp is not None):
        other = profile(losing)
        measured |= {
            "generator": losing.tag,
            "generator_first": other.first,
            "generator_last": other.last,
        }
        return Fired((Evidence(where(disc), measured, "" if clamp is None else "clamped"),))
    if _cannot_tell(disc):
        return Fired((Evidence(where(disc, len(disc) // 2), measured, "balanced"),))
    alive = clamp is None and end >= ALIVE * seen.first and float(measured["moved"]) > 1e-4
    if alive and all(map(_in_the_game, generators)):
        return Clean(measured)
    return Undecided(measured)


@rule(
    id="TP-DISCRIMINATOR-STILL",
    title="The discriminator's loss stands still",
    level=Level.WARN,
    message="{series} is {value:.5g} on {equal} of the last {rows} rows.",
    evidence="{share:.0%} of the second half of the log (limit {most:.0%}) hold this one value, to"
    " the last digit.",
    needs={"disc": DISCRIMINATORS},
    measures={
        "points": "values of the discriminator's loss",
        "rows": "values of the second half",
        "value": "the most frequent of these",
        "equal": "how many are equal to it",
        "share": "these over the rows",
        "quantum": "unit of the last printed decimal, 0 for full precision",
    },
    doc=Doc(
        measures="How many values of a discriminator's loss, in the second half of the log, are"
        " one and the same.",
        means="The discriminator answers the same whatever it is shown: a hinge is then at 2, a"
        " cross-entropy at a constant. Neither side learns from that.",
        does_not_mean="Which side broke, nor that the samples are bad.",
        guards=(
            "Fifty values at least, the value printed finely enough to differ from its neighbours"
            " by a five-hundredth.",
            "A loss of exactly 0 is a hinge without violations, rounding, or a critic that has"
            " converged or died: not judged.",
        ),
        references=(
            "benchmarks/calibration, hinge-game: half of the rows at 2 at learning rates 60 to 300"
            " times too high",
        ),
    ),
    not_for=OTHER_REGIMES,
    fires=Example(
        "at 2 from the middle on",
        view(
            series("loss_disc", falling(50, 1.8, 1.2, noise=0.05) + [2.0] * 50),
            regime=Regime.ADVERSARIAL,
        ),
    ),
    silent=Example(
        "it scatters",
        view(series("loss_disc", falling(100, 1.3, 1.1, noise=0.05)), regime=Regime.ADVERSARIAL),
    ),
)
def discriminator_still(
    disc: Series,
    *,
    most: Annotated[float, Bound("share", "of the second half", ge=0, le=1)] = 0.5,
    legible: Annotated[float, Bound("share", "of the value: the printed unit", ge=0)] = 2e-3,
) -> Outcome:
    half = disc.values[len(disc) // 2 :]
    found, counts = np.unique(half, return_counts=True)
    at = int(counts.argmax())
    value, equal = float(found[at]), int(counts[at])
    quantum = least_change(disc.values, value)
    measured: dict[str, Value] = {
        "points": len(disc),
        "rows": len(half),
        "value": value,
        "equal": equal,
        "share": equal / len(half),
        "quantum": quantum,
    }
    if equal < most * len(half):
        return Clean(measured)
    if value == 0:
        return Undecided(measured)
    if quantum > legible * abs(value):
        return Undecided(measured, Skip.LOW_POWER)
    return Fired((Evidence(where(disc, len(disc) // 2), measured),))


def _cannot_tell(disc: Series) -> bool:
    """Whether each tenth of the last half is at ln 2 or 2 ln 2, the loss of an even guess."""
    half = disc.values[len(disc) // 2 :]
    levels = np.array([median(part) for part in np.array_split(half, 5)])
    guesses = (math.log(2), 2 * math.log(2))
    return any(bool((np.abs(levels - guess) <= 5e-3 * guess).all()) for guess in guesses)


def _in_the_game(generator: Series) -> bool:
    if screen(generator).nonfinite:
        return False
    seen = profile(generator)
    return seen.last < seen.first + (HOPELESS - 1) * abs(seen.first)


@rule(
    id="TP-TARGET-LOST",
    title="The reconstruction gave its progress back",
    level=Level.WARN,
    message="{series} ended far above the best level it had reached: {best:.4g} around step"
    " {best_step}, {end:.4g} at the end.",
    evidence="It had fallen by {drop:.4g} and rose again by {rise:.4g} (limit {share:.0%} of the"
    " fall), {errors:.3g} standard errors (limit {least_errors:g}) over {points} points.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=FEW, parts=TARGETS),
        "losses": LOSSES,
    },
    measures={
        "points": "values judged",
        "best": "lowest level reached",
        "best_step": "step of that level",
        "end": "level at the end, a median",
        "drop": "fall from the highest level before to the lowest",
        "rise": "rise from the lowest level to the end",
        "errors": "rise in standard errors of its measurement",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
        "p_fall": "Mann-Kendall p of a fall over the whole series",
    },
    doc=Doc(
        measures="For the part of a game's losses that compares with a given target (a spectrum, a"
        " cycle, an image): its level at the end against the lowest reached.",
        means="The outputs at the end match their targets less well than earlier ones.",
        does_not_mean="That they sound or look worse: the other side of the game may ask for"
        " what the target does not hold.",
        guards=(
            "Only parts named after a target: the losses of the game itself need not fall.",
            "A rise must exceed half of the fall before it and six standard errors.",
            "Only beside a discriminator's loss; elsewhere TP-DIVERGE judges the total.",
            "Clean only if the part demonstrably fell and kept it.",
        ),
        references=("Kim, Kong and Son 2021 (VITS): the mel-spectrogram loss", "TP-DIVERGE"),
    ),
    grounds=True,
    not_for=OTHER_REGIMES,
    fires=Example(
        "the spectrum gets worse again",
        view(
            series("loss_mel", [*falling(60, 20, 12), *falling(60, 12, 19)]),
            series("loss_disc", falling(120, 1.3, 1.1)),
            regime=Regime.ADVERSARIAL,
        ),
    ),
    silent=Example(
        "the spectrum gets better",
        view(
            series("loss_mel", falling(60, 20, 12)),
            series("loss_disc", falling(60, 1.3, 1.1)),
            regime=Regime.ADVERSARIAL,
        ),
    ),
)
def target_lost(
    loss: Series,
    losses: tuple[Series, ...],
    *,
    share: Annotated[float, Bound("share", "of the progress given back", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "a rise must exceed", ge=1)] = 6.0,
) -> Outcome:
    seen = profile(loss)
    measured: dict[str, Value] = {
        "points": len(loss),
        "first": seen.first,
        "last": seen.last,
        "p_fall": seen.p_fall,
    }
    if not any(DISCRIMINATOR & set(_words(one)) for one in losses):
        return Undecided(measured, Skip.NEED_ABSENT)
    found = gravest(loss.values, seen, least_errors)
    if found is None or found.share < share:
        return Clean(measured) if fell(seen) else Undecided(measured, Skip.LOW_POWER)
    measured |= {
        "best": found.best,
        "best_step": int(loss.steps[found.best_at]),
        "end": found.end,
        "drop": found.drop,
        "rise": found.rise,
        "errors": found.errors,
    }
    return Fired((Evidence(where(loss, found.best_at, -1), measured),))
