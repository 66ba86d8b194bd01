from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import (
    Axis,
    Column,
    Direction,
    Facts,
    Floats,
    Identity,
    Regime,
    Role,
    RunView,
    Series,
    Split,
)
from trainproof.model.outcome import Level, Skip, State
from trainproof.rules.examples import IDENTITIES, falling, series, view

from .curves import flat, learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

NAN = math.nan
TRAIN = learning(200)
EVALUATED = IDENTITIES["eval_loss"]


def held_out(values: list[float], *others: Series) -> RunView:
    """A run of 200 training rows, evaluated at even distances up to the end."""
    every = 200 // len(values)
    steps = range(200 - every * (len(values) - 1), 201, every)
    return view(series("loss", TRAIN.tolist()), series("eval_loss", values, steps), *others)


# --- TP-EVAL-NAN -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2.0, 1.5, NAN], (Level.FAIL, "")),
        ([2.0, NAN, 1.5, NAN, 1.2], (Level.FAIL, "")),
        ([NAN, NAN, NAN], (Level.FAIL, "")),
        ([2.0, NAN, 1.5], (Level.WARN, "recovered")),
    ],
)
def test_evaluations_that_are_not_finite(values: list[float], expected: tuple[Level, str]) -> None:
    cell = judge("TP-EVAL-NAN", held_out(values))
    assert level(cell) == expected
    assert cell.hits[0].evidence.measured["train"] == "loss"


def test_one_held_out_set_of_several_that_is_never_finite_is_a_warning() -> None:
    def on(dataset: str, values: list[float]) -> Series:
        one = series(f"eval_{dataset}_loss", values, range(20, 101, 20), identity=EVALUATED)
        return replace(one, identity=replace(EVALUATED, dataset=dataset))

    finite = on("wiki", [2.0, 1.8, 1.7, 1.6, 1.5])
    cell = judge("TP-EVAL-NAN", view(series("loss", TRAIN.tolist()), finite, on("qa", [NAN] * 5)))
    assert level(cell) == (Level.WARN, "one-set")
    assert "while eval_wiki_loss, on other held-out data, is finite" in prose(cell).message
    later = on("qa", [2.0, NAN, NAN, NAN, NAN])
    cell = judge("TP-EVAL-NAN", view(series("loss", TRAIN.tolist()), finite, later))
    assert level(cell) == (Level.FAIL, "")


def test_a_training_loss_that_is_nan_too_is_left_to_its_own_rule() -> None:
    one = view(series("loss", [NAN] * 20), series("eval_loss", [NAN, NAN], [10, 20]))
    assert skipped(judge("TP-EVAL-NAN", one)) is Skip.NOT_FINITE


def test_without_a_training_loss_it_still_fails() -> None:
    one = view(series("eval_loss", [2.0, NAN, NAN]))
    cell = judge("TP-EVAL-NAN", one)
    assert level(cell) == (Level.FAIL, "alone")
    assert prose(cell).evidence.endswith("no training loss is logged beside it.")


# --- TP-EVAL-FROZEN ----------------------------------------------------------------------------


def test_five_evaluations_that_are_equal_to_the_last_digit_fail() -> None:
    cell = judge("TP-EVAL-FROZEN", held_out([2.0, 1.1, *([1.0986123] * 5)]))
    assert level(cell) == (Level.FAIL, "")
    assert "1.0986123 on each of the last 5 evaluations" in prose(cell).message


@pytest.mark.parametrize(
    ("values", "skip"),
    [
        ([2.0, 1.1, *([1.0986123] * 4)], None),
        ([*([1.0986123] * 6), 1.0986124], None),
        ([0.43] * 8, Skip.LOW_POWER),  # two digits may hide a change
        ([0.0] * 8, Skip.LOW_POWER),
        # the least cross-entropy of single precision
        ([0.7, 0.01, *([1.1920928955078125e-07] * 6)], Skip.LOW_POWER),
        # bfloat16 knows no number between 1.9921875 and 2
        ([2.25, 2.0625, 2.015625, *([1.9921875] * 6)], Skip.LOW_POWER),
    ],
)
def test_these_evaluations_are_not_frozen(values: list[float], skip: Skip | None) -> None:
    cell = judge("TP-EVAL-FROZEN", held_out(values))
    assert not cell.hits
    assert skipped(cell) is skip


def printed(value: float, train: Floats, count: int = 8) -> RunView:
    """The same held-out loss, evaluation after evaluation, beside a training loss."""
    every = len(train) // count
    evaluations = series("eval_loss", [value] * count, range(every, every * count + 1, every))
    return view(series("loss", train.tolist()), evaluations)


def test_half_precision_that_does_not_change_while_the_training_loss_falls_is_a_warning() -> None:
    """float16 knows no number between 2.001953125 and 2.00390625."""
    cell = judge("TP-EVAL-FROZEN", held_out([2.25, 2.05078125, 2.017578125, *([2.001953125] * 6)]))
    assert level(cell) == (Level.WARN, "coarse")
    assert measured(cell)["quantum"] == 2**-9


def test_few_digits_that_do_not_change_while_the_training_loss_falls_are_a_warning() -> None:
    cell = judge("TP-EVAL-FROZEN", printed(0.6931, learning(200, 0.71, 0.4, cv=0.02)))
    assert level(cell) == (Level.WARN, "coarse")
    assert "is printed as 0.6931 on each of the last 8" in prose(cell).message


@pytest.mark.parametrize(
    ("value", "train"),
    [
        (0.43, learning(200, 0.71, 0.4, cv=0.02)),  # two digits
        (0.693, flat(200, 0.3, 0.2)),  # converged
        (0.693, learning(200, 0.71, 0.705, cv=0.0)),  # a few printed units
    ],
)
def test_few_digits_are_not_judged_where_no_change_is_expected(value: float, train: Floats) -> None:
    assert skipped(judge("TP-EVAL-FROZEN", printed(value, train))) is Skip.LOW_POWER


def test_one_value_on_every_row_of_training_may_be_a_single_evaluation() -> None:
    repeated = series("eval_loss", [1.0986123] * 200)
    cell = judge("TP-EVAL-FROZEN", view(series("loss", TRAIN.tolist()), repeated))
    assert level(cell) == (Level.WARN, "every-row")
    assert prose(cell).message.startswith(
        "eval_loss, measured on held-out data, is 1.0986123 on each row of the log, while loss fell"
    )
    idle = view(series("loss", flat(200).tolist()), repeated)
    assert level(judge("TP-EVAL-FROZEN", idle)) == (Level.FAIL, "")
    later = series("eval_loss", [2.0, *[1.0986123] * 199])
    elsewhere = view(series("loss", TRAIN.tolist()), later)
    assert level(judge("TP-EVAL-FROZEN", elsewhere)) == (Level.FAIL, "")


def alone(values: list[float]) -> RunView:
    return view(series("eval_loss", values))


@pytest.mark.parametrize("values", [[0.7131] * 5, [7.832] * 6, [4.060712345678901] * 3])
def test_all_evaluations_equal_are_a_warning_by_themselves(values: list[float]) -> None:
    cell = judge("TP-EVAL-FROZEN", alone(values))
    assert level(cell) == (Level.WARN, "throughout")
    assert f"is {values[0]} on every one of its {len(values)} evaluations" in prose(cell).message


@pytest.mark.parametrize("values", [[0.7131] * 4, [4000.0] * 8, [0.0] * 3])
def test_all_evaluations_equal_in_too_few_digits_are_not_judged(values: list[float]) -> None:
    assert skipped(judge("TP-EVAL-FROZEN", alone(values))) is Skip.LOW_POWER


def test_equal_evaluations_after_another_one_need_a_training_loss_that_fell() -> None:
    assert skipped(judge("TP-EVAL-FROZEN", alone([0.9, *[0.7131] * 6]))) is Skip.LOW_POWER


# --- TP-EVAL-UNSTABLE --------------------------------------------------------------------------

UNSTABLE = "TP-EVAL-UNSTABLE"
JUMPS = [7.8, 5.4, 8.9, 5.9, 1.8, 8.6, 1.7, 4.9, 4.4, 7.5, 1.5, 2.1, 6.5, 8.6, 1.9, 4.0, 8.8, 1.7]


def test_evaluations_that_jump_without_a_fall_are_a_warning() -> None:
    cell = judge(UNSTABLE, held_out(JUMPS))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == (
        "eval_loss, measured on held-out data, changes by a factor of 3.54 from one evaluation to"
        " the next, and does not fall."
    )


def test_evaluations_that_jump_and_fall_are_clean() -> None:
    values = np.array(JUMPS) * 0.8 ** np.arange(len(JUMPS))
    assert is_clean(judge(UNSTABLE, held_out(values.tolist())))


@pytest.mark.parametrize("values", [flat(20, 2.0, 0.1).tolist(), [*[2.0] * 9, 40.0, *[2.0] * 10]])
def test_usual_scatter_and_a_single_outlier_are_clean(values: list[float]) -> None:
    assert is_clean(judge(UNSTABLE, held_out(values)))


def test_a_loss_that_fell_at_once_may_sway_at_its_low_level() -> None:
    low = [1e-5 * value for value in JUMPS]
    assert is_clean(judge(UNSTABLE, alone([1.0, *low, *low])))


def test_a_loss_far_below_where_training_began_may_sway() -> None:
    steps = [100 * (i + 1) for i in range(len(JUMPS))]
    evaluated = series("eval_loss", [1e-5 * value for value in JUMPS], steps)
    train = series("loss", [1.0, 0.1, 0.01, *[5e-5] * 97], [10 * i for i in range(100)])
    assert is_clean(judge(UNSTABLE, view(train, evaluated)))
    assert level(judge(UNSTABLE, view(evaluated))) == (Level.WARN, "")


def test_a_loss_that_crosses_zero_has_no_ratio() -> None:
    assert skipped(judge(UNSTABLE, held_out([-1.0, *JUMPS]))) is Skip.NEED_DEGENERATE


def test_jumps_over_the_whole_range_of_numbers_are_measured() -> None:
    assert level(judge(UNSTABLE, held_out([1e-300, 1e300] * 6))) == (Level.WARN, "")


def test_the_least_of_all_numbers_is_measured() -> None:
    assert is_clean(judge(UNSTABLE, held_out([5e-324] * 12)))


def test_eleven_evaluations_are_too_few() -> None:
    assert skipped(judge(UNSTABLE, held_out(JUMPS[:11]))) is Skip.NEED_TOO_SHORT


# --- TP-OVERFIT --------------------------------------------------------------------------------

TURNING = [3.0, 2.0, 1.5, 1.4, 1.5, 1.7, 1.9, 2.2, 2.4, 2.6]


def test_a_held_out_loss_that_turns_warns_and_names_the_best_step() -> None:
    cell = judge("TP-OVERFIT", held_out(TURNING))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured["best_step"] == 80
    assert prose(cell).message == (
        "eval_loss, measured on held-out data, was best at step 80 (1.4) and rose to 2.4 by step"
        " 200, while loss kept falling."
    )


def test_a_held_out_loss_that_rises_from_the_first_evaluation_on_warns() -> None:
    values = [0.46 + 0.005 * i + 0.002 * math.sin(i * 2.4) for i in range(50)]
    assert level(judge("TP-OVERFIT", held_out(values))) == (Level.WARN, "")


def test_six_evaluations_are_too_few() -> None:
    assert skipped(judge("TP-OVERFIT", held_out(TURNING[2:8]))) is Skip.NEED_TOO_SHORT


def test_noise_around_a_converged_level_is_clean() -> None:
    for seed in range(20):
        values = learning(20, last=1.2, cv=0.04, seed=seed).tolist()
        assert is_clean(judge("TP-OVERFIT", held_out(values)))


def test_the_noise_floor_after_a_great_fall_is_clean() -> None:
    values = [0.437, 0.02, 1e-3, 1e-4, 2.9e-5, 4e-5, 6e-5, 1e-4, 9e-5, 1e-4]
    assert is_clean(judge("TP-OVERFIT", held_out(values)))


def test_without_a_training_loss_it_is_not_checked() -> None:
    one = view(series("eval_loss", TURNING))
    assert skipped(judge("TP-OVERFIT", one)) is Skip.NEED_ABSENT


def test_parts_are_compared_with_the_same_part() -> None:
    def part(tag: str, split: Split, name: str, values: list[float]) -> Series:
        identity = Identity(Role.LOSS, tag, split, component=name, direction=Direction.LOWER)
        return series(tag, values, identity=identity)

    rising = part("eval_loss_feat", Split.EVAL, "feat", TURNING)
    other = part("loss_mel", Split.TRAIN, "mel", TRAIN.tolist())
    same = part("loss_feat", Split.TRAIN, "feat", TRAIN.tolist())
    assert skipped(judge("TP-OVERFIT", view(rising, other))) is Skip.NEED_ABSENT
    assert level(judge("TP-OVERFIT", view(rising, other, same))) == (Level.WARN, "")


def test_a_training_loss_that_does_not_fall_is_no_overfitting() -> None:
    one = view(series("loss", flat(200).tolist()), series("eval_loss", TURNING, range(20, 201, 20)))
    assert skipped(judge("TP-OVERFIT", one)) is Skip.UNDECIDED


def test_a_training_loss_that_is_nan_decides_nothing() -> None:
    one = view(
        series("loss", [*TRAIN[:-1].tolist(), NAN]),
        series("eval_loss", TURNING, range(20, 201, 20)),
    )
    assert skipped(judge("TP-OVERFIT", one)) is Skip.NOT_FINITE


def test_a_metric_that_goes_on_improving_lowers_the_level() -> None:
    """A word error rate falls on while the loss becomes over-confident."""
    errors = Identity(Role.METRIC, "wer", Split.EVAL, direction=Direction.LOWER)
    rate = [0.9, 0.7, 0.6, 0.5, 0.45, 0.4, 0.36, 0.33, 0.31, 0.30]
    one = held_out(TURNING, series("wer", rate, range(20, 201, 20), identity=errors))
    cell = judge("TP-OVERFIT", one)
    assert level(cell) == (Level.INFO, "metric-at-best")
    assert "wer went on improving, from 0.5 to 0.3" in prose(cell).message


def test_a_metric_on_a_plateau_does_not() -> None:
    plateau = [0.5, 0.65, 0.72, 0.75, 0.74, 0.75, 0.73, 0.74, 0.75, 0.74]
    one = held_out(TURNING, series("eval_accuracy", plateau, range(20, 201, 20)))
    assert level(judge("TP-OVERFIT", one)) == (Level.WARN, "")


def on(dataset: str, tag: str, values: list[float], role: Role = Role.LOSS) -> Series:
    """What was measured on one of several held-out sets, every twenty steps."""
    better = Direction.LOWER if role is Role.LOSS else Direction.HIGHER
    identity = Identity(role, tag, Split.EVAL, direction=better, dataset=dataset)
    return series(f"eval_{dataset}_{tag}", values, range(20, 201, 20), identity=identity)


def test_a_set_that_gets_worse_while_others_get_better_is_told_as_that() -> None:
    code, wiki = on("code", "loss", TURNING), on("wiki", "loss", falling(10, 3.0, 1.0, 0.0))
    cells = judge("TP-OVERFIT", view(series("loss", TRAIN.tolist()), code, wiki))
    assert level(cells) == (Level.WARN, "one-set")
    assert "eval_wiki_loss, on other held-out data, went on falling" in prose(cells).message


def test_sets_that_all_get_worse_are_overfitting_each() -> None:
    code, wiki = on("code", "loss", TURNING), on("wiki", "loss", [2 * x for x in TURNING])
    cell = judge("TP-OVERFIT", view(series("loss", TRAIN.tolist()), code, wiki))
    assert [(hit.evidence.where.series, hit.evidence.variant) for hit in cell.hits] == [
        ("eval_code_loss", ""),
        ("eval_wiki_loss", ""),
    ]


def test_a_metric_on_another_set_is_no_excuse() -> None:
    rising = [0.1 * i for i in range(10)]
    run = [series("loss", TRAIN.tolist()), on("code", "loss", TURNING)]
    other = judge("TP-OVERFIT", view(*run, on("wiki", "accuracy", rising, Role.METRIC)))
    own = judge("TP-OVERFIT", view(*run, on("code", "accuracy", rising, Role.METRIC)))
    assert (level(other), level(own)) == ((Level.WARN, ""), (Level.INFO, "metric-at-best"))


# --- TP-METRIC-COLLAPSE --------------------------------------------------------------------------


def metric(
    values: list[float], direction: Direction = Direction.HIGHER, split: Split = Split.EVAL
) -> RunView:
    identity = Identity(Role.METRIC, "m", split, direction=direction)
    return view(series("m", values, identity=identity))


def test_a_metric_that_ends_near_zero_fails() -> None:
    cell = judge("TP-METRIC-COLLAPSE", metric([0.1, 0.5, 0.9, 0.9, 0.0, 0.0]))
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).message == "m was 0.9 at step 3 and is 0 at the end."


def test_a_rate_of_success_that_a_better_reward_was_traded_for_is_a_note() -> None:
    success = metric([0.1, 0.1, 0.15, 0.1, 0.1] * 4 + [0.0] * 80, split=Split.TRAIN)
    earned = series("reward", np.linspace(-1, -0.2, 100).tolist())
    cell = judge("TP-METRIC-COLLAPSE", view(*success.series, earned))
    assert level(cell) == (Level.INFO, "traded")
    assert prose(cell).message == "m was 0.15 at step 3 and is 0 at the end, while reward improved."


def test_a_few_lucky_batches_are_no_level_to_fall_from() -> None:
    """A rate of success of eight episodes each, most of which never succeed."""
    values = [0.0, 0.125, 0.0, 0.0, 0.125, 0.0, 0.0, 0.125] + [0.0] * 150
    assert not judge("TP-METRIC-COLLAPSE", metric(values, split=Split.TRAIN)).hits


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.5, 0.9, 0.9, 0.9, 0.0],  # one evaluation may be broken
        [0.1, 0.5, 0.0, 0.0, 0.8, 0.9],  # recovered
        [0.0, 0.001, 0.04, 0.0, 0.0, 0.0],  # it never was anything
        [-1.0] * 8,  # nothing to score
        [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0],  # as low in between
    ],
)
def test_these_are_no_collapse(values: list[float]) -> None:
    assert not judge("TP-METRIC-COLLAPSE", metric(values)).hits


def test_a_metric_that_gives_its_gain_back_is_a_warning() -> None:
    values = [*np.linspace(0.1, 0.9, 40), *np.linspace(0.9, 0.3, 30)] + 0.01 * noise(70)
    assert level(judge("TP-METRIC-COLLAPSE", metric(values.tolist()))) == (
        Level.WARN,
        "given-back",
    )


def test_a_metric_that_improved_gives_grounds_in_either_direction() -> None:
    error = (1 - 0.02 * np.arange(30)).tolist()
    assert is_clean(judge("TP-METRIC-COLLAPSE", metric(error, Direction.LOWER)))
    assert is_clean(judge("TP-METRIC-COLLAPSE", metric([1 - v for v in error])))
    assert skipped(judge("TP-METRIC-COLLAPSE", metric(error))) is Skip.LOW_POWER


def test_the_accuracy_of_the_last_training_batch_may_be_zero_by_chance() -> None:
    """Of a batch of four examples, at a true accuracy of 0.3: a quarter of the values is 0."""
    values = np.random.default_rng(17).binomial(4, 0.3, 73) / 4
    for rows in range(20, 74):
        seen = metric(values[:rows].tolist(), split=Split.TRAIN)
        assert not judge("TP-METRIC-COLLAPSE", seen).hits
    dead = metric([*values.tolist(), *[0.0] * 20], split=Split.TRAIN)
    assert level(judge("TP-METRIC-COLLAPSE", dead)) == (Level.FAIL, "")


def test_a_share_of_few_cases_gives_back_what_counting_may_have_given() -> None:
    """val_accuracy on 256 examples: 18 of them right, then 13 (two standard deviations)."""
    counts = [*np.linspace(3, 18, 40).round(), *np.linspace(18, 5, 40).round()]
    cell = judge("TP-METRIC-COLLAPSE", metric([count / 256 for count in counts]))
    assert skipped(cell) is Skip.LOW_POWER
    many = judge("TP-METRIC-COLLAPSE", metric([10 * count / 256 for count in counts]))
    assert level(many) == (Level.WARN, "given-back")


def test_a_metric_without_a_direction_is_not_judged() -> None:
    cell = judge("TP-METRIC-COLLAPSE", metric([0.1, 0.5, 0.9, 0.0, 0.0], Direction.NONE))
    assert skipped(cell) is Skip.NEED_DEGENERATE


# --- TP-CHANCE ---------------------------------------------------------------------------------


def guessing(level: float, accuracy: float | None, facts: Facts | None = None) -> RunView:
    members = [series("loss", (level + 1e-3 * noise(60)).tolist())]
    if accuracy is not None:
        reached = np.round(accuracy * (1 + 0.01 * noise(60, 5)), 4)
        members.append(series("accuracy", reached.tolist()))
    return view(*members, facts=facts)


@pytest.mark.parametrize(
    ("classes", "accuracy"), [(2, 0.50), (3, 0.36), (10, 0.1135), (100, 0.0105)]
)
def test_loss_and_accuracy_of_a_guess_fail(classes: int, accuracy: float) -> None:
    cell = judge("TP-CHANCE", guessing(math.log(classes), accuracy))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["classes"] == classes


def test_a_loss_somewhat_below_the_guess_still_counts() -> None:
    """A class prior that is not even."""
    assert level(judge("TP-CHANCE", guessing(1.0614, 0.357))) == (Level.FAIL, "")


@pytest.mark.parametrize(
    ("loss", "accuracy"),
    [
        (2.3026, 0.35),  # as high as ln 10, and right far more often
        (0.55, 0.50),  # below the guess
        (8.5, 0.02),  # more classes than are considered
        (-3.0, 0.5),
    ],
)
def test_where_the_two_do_not_agree_it_is_clean(loss: float, accuracy: float) -> None:
    assert is_clean(judge("TP-CHANCE", guessing(loss, accuracy)))


def test_an_accuracy_that_rises_is_learning() -> None:
    rising = (0.50 + 0.001 * np.arange(60)).tolist()
    one = view(series("loss", (0.693 + 1e-4 * noise(60)).tolist()), series("accuracy", rising))
    assert is_clean(judge("TP-CHANCE", one))


def test_a_loss_that_passes_through_the_guess_is_learning() -> None:
    """As an alignment loss did: the median of its last third was 0.99 ln 5, its end 0.86 ln 5."""
    falls = np.linspace(2.5, 1.38, 126).tolist()
    one = view(
        series("loss", falls), series("accuracy", [0.19 + 0.01 * (i % 2) for i in range(126)])
    )
    assert 0.95 < float(np.median(falls[-42:])) / math.log(5) < 1.005
    assert is_clean(judge("TP-CHANCE", one))


def test_an_accuracy_far_below_the_guess_does_not_confirm_the_classes() -> None:
    """As that of whole sequences, of which one in thirty was right."""
    assert skipped(judge("TP-CHANCE", guessing(math.log(5), 0.03))) is Skip.UNDECIDED
    declared = judge("TP-CHANCE", guessing(math.log(5), 0.03, Facts(num_classes=5)))
    assert level(declared) == (Level.FAIL, "")


def test_without_an_accuracy_only_declared_classes_count() -> None:
    assert skipped(judge("TP-CHANCE", guessing(2.3026, None))) is Skip.UNDECIDED
    declared = judge("TP-CHANCE", guessing(2.3026, None, Facts(num_classes=10)))
    assert level(declared) == (Level.WARN, "declared")
    detector = judge("TP-CHANCE", guessing(12.0, None, Facts(num_classes=91)))
    assert detector.state is State.NOT_CHECKED
    assert is_clean(judge("TP-CHANCE", guessing(2.3026, None, Facts(num_classes=1000))))


def test_a_plateau_at_the_start_of_a_longer_run_is_not_judged() -> None:
    cell = judge("TP-CHANCE", guessing(0.6931, 0.5, Facts(max_steps=600)))
    assert skipped(cell) is Skip.UNDECIDED
    assert measured(cell)["seen"] == 0.1
    epochs = Column("loss", np.arange(60), 0.6931 + 1e-4 * noise(60), Axis.EPOCH)
    loss = Series("log.csv", IDENTITIES["loss"], epochs)
    accuracy = series("accuracy", (0.5 + 0.001 * noise(60)).tolist())
    one = view(loss, accuracy, facts=Facts(max_epochs=100))
    assert skipped(judge("TP-CHANCE", one)) is Skip.UNDECIDED


def test_a_learned_run_is_clean() -> None:
    accuracy = (0.95 - 0.8 * np.exp(-np.arange(60) / 10)).tolist()
    one = view(series("loss", falling(60, 2.3, 0.1)), series("accuracy", accuracy))
    assert is_clean(judge("TP-CHANCE", one))


def test_preference_tuning_begins_at_ln_2_by_construction() -> None:
    one = view(series("loss", [0.6931] * 60), regime=Regime.PREFERENCE)
    assert skipped(judge("TP-CHANCE", one)) is Skip.REGIME


# --- short runs that broke ----------------------------------------------------------------------


def broken(train: list[float], held_out: list[float]) -> RunView:
    """One row and one evaluation an epoch."""
    return view(series("loss", train), series("eval_loss", held_out))


def test_a_held_out_loss_that_rose_with_the_training_loss_is_told() -> None:
    """Gradients that are never zeroed, stopped early: too short for the training loss alone."""
    train = [1.22, 0.908, 0.884, 1.13, 1.24, 1.38, 2.26]
    held_out = [0.97, 0.872, 0.917, 1.18, 1.85, 2.64, 2.4]
    cell = judge("TP-OVERFIT", broken(train, held_out))
    assert level(cell) == (Level.WARN, "with-training")
    assert not judge("TP-DIVERGE", broken(train, held_out)).hits


def test_a_training_loss_that_stands_does_not_confirm_it() -> None:
    train = [1.22, 0.908, 0.884, 0.91, 0.90, 0.89, 0.92]
    held_out = [0.97, 0.872, 0.917, 1.18, 1.85, 2.64, 2.4]
    assert not judge("TP-OVERFIT", broken(train, held_out)).hits


def test_what_the_training_loss_shows_alone_is_left_to_it() -> None:
    train = [*falling(40, 2.0, 0.5), *np.linspace(0.6, 3.0, 20).tolist()]
    held_out = [2.0, 1.0, 0.7, 0.6, 0.8, 1.6, 3.0, 3.1]
    steps = [5, 15, 25, 40, 45, 50, 55, 60]
    one = view(series("loss", train), series("eval_loss", held_out, steps))
    assert judge("TP-DIVERGE", one).hits
    assert not judge("TP-OVERFIT", one).hits


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        ([0.853, 0.917, 0.943, 0.94, 0.947, 0.24, 0.257], True),
        ([0.853, 0.917, 0.943, 0.947, 0.24, 0.257], False),  # too few before
        ([0.853, 0.917, 0.943, 0.94, 0.947, 0.93, 0.257], False),  # one alone
        ([0.25, 0.917, 0.943, 0.94, 0.947, 0.24, 0.26], False),  # as low as before
        ([0.4, 0.9, 0.3, 0.94, 0.5, 0.24, 0.2], False),  # they scatter as much
        ([0.853, 0.917, 0.943, 0.94, 0.947, 0.54, 0.557], False),  # above half
    ],
)
def test_the_last_two_evaluations_far_below_all_others_are_told(
    values: list[float], fires: bool
) -> None:
    cell = judge("TP-METRIC-COLLAPSE", view(series("eval_accuracy", values)))
    assert bool(cell.hits) is fires
    if fires:
        assert level(cell) == (Level.WARN, "halved")
