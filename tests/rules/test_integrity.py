from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import (
    Attempt,
    Axis,
    Column,
    Facts,
    Fault,
    FaultCode,
    Floats,
    Identity,
    Regime,
    Rewind,
    Role,
    RunView,
    Series,
    Split,
)
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import IDENTITIES, falling, series, view

from .curves import flat, learning
from .judging import is_clean, judge, level, measured, prose, skipped

# --- TP-NOT-A-LOSS -----------------------------------------------------------------------------


def test_a_loss_scale_under_a_loss_name_is_a_warning_even_with_nan() -> None:
    one = view(series("loss", [65536.0, 32768.0, math.nan, 16384.0, 8192.0, 8192.0]))
    cell = judge("TP-NOT-A-LOSS", one)
    assert level(cell) == (Level.WARN, "")
    assert "a loss scale" in prose(cell).message
    assert cell.hits[0].evidence.measured["points"] == 5


def test_a_counter_under_a_loss_name_is_a_warning() -> None:
    one = view(series("loss", [float(i) for i in range(1, 30)]))
    assert "a counter" in prose(judge("TP-NOT-A-LOSS", one)).message


def test_losses_are_clean_whatever_their_sign() -> None:
    one = view(series("loss", [v - 2 for v in falling(30)]), series("loss_cls", falling(30)))
    assert is_clean(judge("TP-NOT-A-LOSS", one))


# --- TP-LOG-TRUNCATED --------------------------------------------------------------------------


def faulty(*faults: Fault) -> RunView:
    return view(series("loss", falling(20)), faults=faults)


def test_problems_of_one_kind_in_one_file_are_counted_together() -> None:
    cut = Fault(FaultCode.TRUNCATED, "a.jsonl", "the last line is cut", False, 20)
    bad = [Fault(FaultCode.CORRUPT, "b.log", f"row {i}", False, i) for i in range(1, 4)]
    cell = judge("TP-LOG-TRUNCATED", faulty(*bad, cut))
    assert [hit.evidence.measured["count"] for hit in cell.hits] == [1, 3]
    assert [hit.evidence.where.artifact for hit in cell.hits] == ["a.jsonl", "b.log"]
    assert cell.hits[1].evidence.where.line == 1


def test_at_most_twenty_files_are_named() -> None:
    many = [Fault(FaultCode.IO, f"{i:02}.log", "no", True) for i in range(50)]
    assert len(judge("TP-LOG-TRUNCATED", faulty(*many)).hits) == 20


# --- TP-LOG-GAP --------------------------------------------------------------------------------


def logged(steps: list[int]) -> RunView:
    return view(series("loss", falling(len(steps)), steps))


def test_a_hole_in_a_regular_log_is_a_warning() -> None:
    cell = judge("TP-LOG-GAP", logged([*range(0, 300, 10), *range(600, 900, 10)]))
    assert level(cell) == (Level.WARN, "")
    where = cell.hits[0].evidence.where
    assert (where.first_step, where.last_step) == (290, 600)
    assert cell.hits[0].evidence.measured["cadence"] == 10


def test_a_few_missing_rows_of_a_long_log_are_a_note() -> None:
    steps = [step for step in range(0, 5000, 10) if not 2000 < step < 2050]
    assert level(judge("TP-LOG-GAP", logged(steps))) == (Level.INFO, "small")


@pytest.mark.parametrize(
    "steps",
    [
        [*range(0, 300, 10), *range(300, 3000, 100)],  # another cadence for good
        [*range(0, 10), *range(10, 100, 10), *range(100, 2000, 100)],  # dense at first
        [step for step in range(0, 1000, 10) if step % 70],  # single rows are dropped
        list(range(0, 1000, 10)),
    ],
)
def test_these_are_no_gaps(steps: list[int]) -> None:
    assert is_clean(judge("TP-LOG-GAP", logged(steps)))


def test_rows_at_the_same_step_are_no_cadence() -> None:
    assert is_clean(judge("TP-LOG-GAP", logged([5] * 30)))
    assert is_clean(judge("TP-LOG-GAP", logged([step for step in range(0, 400, 10) for _ in "ab"])))


def test_a_hole_between_steps_of_several_rows_is_a_warning() -> None:
    steps = [step for step in (*range(0, 300, 10), *range(600, 900, 10)) for _ in "ab"]
    cell = judge("TP-LOG-GAP", logged(steps))
    assert level(cell) == (Level.WARN, "")
    where = cell.hits[0].evidence.where
    assert (where.first_step, where.last_step) == (290, 600)


def ended(rows: int, *, witness: int, every: int = 1) -> RunView:
    """A loss of so many rows, beside a learning rate of so many."""
    loss = series("loss", falling(rows), range(0, rows * every, every))
    return view(loss, series("learning_rate", [1e-3] * witness, range(witness)))


@pytest.mark.parametrize("rows", [60, 8])
def test_a_loss_that_ends_before_its_file_is_a_warning(rows: int) -> None:
    cell = judge("TP-LOG-GAP", ended(rows, witness=100))
    assert level(cell) == (Level.WARN, "ends")
    measured = cell.hits[0].evidence.measured
    assert (measured["end"], measured["until"], measured["later"]) == (rows - 1, 99, 100 - rows)
    assert cell.hits[0].evidence.where.line == rows


@pytest.mark.parametrize(
    "run",
    [
        ended(60, witness=64),  # a few rows of something else
        ended(600, witness=608),  # less than two percent
        ended(30, witness=320, every=10),  # no more than three distances of the loss
    ],
)
def test_a_short_rest_is_no_end(run: RunView) -> None:
    assert is_clean(judge("TP-LOG-GAP", run))


def test_gaps_are_looked_for_in_twenty_rows() -> None:
    assert skipped(judge("TP-LOG-GAP", ended(19, witness=19))) is Skip.NEED_TOO_SHORT


def test_a_loss_that_another_takes_over_from_has_no_end() -> None:
    run = ended(60, witness=100)
    identity = Identity(Role.LOSS, "second_loss", Split.TRAIN, component="second")
    second = series("second_loss", falling(40), range(60, 100), identity=identity)
    assert is_clean(judge("TP-LOG-GAP", view(*run.series, second)))


def test_what_was_not_logged_on_the_same_steps_or_in_the_same_file_is_no_witness() -> None:
    loss = series("loss", falling(60), range(0, 120, 2))
    odd = series("learning_rate", [1e-3] * 100, range(1, 201, 2))
    assert is_clean(judge("TP-LOG-GAP", view(loss, odd)))
    elsewhere = series("learning_rate", [1e-3] * 200, range(200), artifact="other.jsonl")
    assert is_clean(judge("TP-LOG-GAP", view(loss, elsewhere)))


# --- TP-LOG-PREFIX -----------------------------------------------------------------------------


def declared(last: int, facts: Facts) -> RunView:
    return view(
        series("loss", falling(50), np.linspace(1, last, 50).astype(int).tolist()), facts=facts
    )


@pytest.mark.parametrize(
    ("facts", "planned"),
    [
        (Facts(max_steps=40_000), 40_000),
        (Facts(max_epochs=1000, steps_per_epoch=24_940), 24_940_000),
    ],
)
def test_the_share_of_the_declared_run_is_stated(facts: Facts, planned: int) -> None:
    cell = judge("TP-LOG-PREFIX", declared(10_000, facts))
    assert level(cell) == (Level.INFO, "")
    assert cell.hits[0].evidence.measured["planned"] == planned
    assert f"{10_000 / planned:.2%}" in prose(cell).message


def test_a_complete_run_is_clean_and_so_is_one_that_misses_two_percent() -> None:
    assert is_clean(judge("TP-LOG-PREFIX", declared(10_000, Facts(max_steps=10_000))))
    assert is_clean(judge("TP-LOG-PREFIX", declared(9_800, Facts(max_steps=10_000))))


def test_without_a_declaration_nothing_is_known() -> None:
    assert skipped(judge("TP-LOG-PREFIX", declared(10_000, Facts()))) is Skip.NEED_ABSENT


def test_a_log_that_begins_late_says_so() -> None:
    one = view(series("loss", falling(50), range(50_000, 55_000, 100)))
    cell = judge("TP-LOG-PREFIX", one)
    assert level(cell) == (Level.INFO, "suffix")
    assert "begins at step 50000" in prose(cell).message


def test_epochs_are_compared_with_epochs() -> None:
    column = Column("loss", np.arange(30), np.array(falling(30)), Axis.EPOCH)
    loss = Series("log.csv", IDENTITIES["loss"], column)
    cell = judge("TP-LOG-PREFIX", view(loss, facts=Facts(max_epochs=100)))
    assert prose(cell).message.startswith("The log ends at epoch 30 of 100")
    assert is_clean(judge("TP-LOG-PREFIX", view(loss, facts=Facts(max_epochs=30))))


def test_counts_of_samples_are_not_compared_with_steps() -> None:
    column = Column("loss", np.arange(0, 6400, 64), np.array(falling(100)), Axis.SAMPLES)
    one = view(Series("log", IDENTITIES["loss"], column), facts=Facts(max_steps=10))
    assert skipped(judge("TP-LOG-PREFIX", one)) is Skip.NEED_ABSENT


# --- TP-LOG-DOUBLED ----------------------------------------------------------------------------


def twice(one: Floats, other: Floats, *more: Series) -> RunView:
    """Two writers, row by row."""
    rows = np.column_stack((one, other)).ravel()
    return view(
        series("loss", rows.tolist(), np.repeat(np.arange(1, len(one) + 1), 2).tolist()), *more
    )


def evaluated_twice(tag: str, role: Role) -> Series:
    identity = Identity(role, tag, Split.EVAL)
    steps = [20, 20, 40, 40, 60, 60]
    return series(tag, [1.9, 1.8, 1.6, 1.7, 1.5, 1.4], steps, identity=identity)


def test_two_curves_in_one_log_are_a_warning() -> None:
    cell = judge("TP-LOG-DOUBLED", twice(learning(60), learning(60, 5, 2, seed=2)))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == (
        "loss holds two curves: 100% of its steps are logged twice, with different values."
    )


def test_two_writers_that_run_ahead_of_each_other_are_a_warning() -> None:
    steps = [step for i in range(1, 61) for step in (i + 2, i)]
    values = np.column_stack((learning(60), learning(60, seed=2))).ravel()
    cell = judge("TP-LOG-DOUBLED", view(series("loss", values.tolist(), steps)))
    assert level(cell) == (Level.WARN, "")


def test_micro_batches_are_a_note() -> None:
    for rows in (2, 4):
        steps = np.repeat(np.arange(1, 41), rows).tolist()
        one = view(series("loss", learning(40 * rows).tolist(), steps))
        assert level(judge("TP-LOG-DOUBLED", one)) == (Level.INFO, "micro")


def test_the_rows_of_a_curve_that_falls_within_each_step_are_no_two_curves() -> None:
    """Two rows an epoch, in which the loss goes on falling."""
    steps = [row // 2 for row in range(120)]
    one = view(series("loss", learning(120, 4, 0.5, cv=0.001).tolist(), steps))
    cell = judge("TP-LOG-DOUBLED", one)
    assert level(cell) == (Level.INFO, "micro")


def test_several_updates_of_a_policy_are_a_note_and_two_evaluations_a_warning() -> None:
    one = twice(learning(60), learning(60, 5, 2, seed=2))
    cell = judge("TP-LOG-DOUBLED", replace(one, regime=Regime.REINFORCEMENT))
    assert level(cell) == (Level.INFO, "micro")
    held = evaluated_twice("eval_reward", Role.REWARD)
    both = twice(learning(60), learning(60, 5, 2, seed=2), held)
    cell = judge("TP-LOG-DOUBLED", replace(both, regime=Regime.REINFORCEMENT))
    assert level(cell) == (Level.WARN, "evaluated")


@pytest.mark.parametrize(("rows", "expected"), [(1, (Level.INFO, "micro")), (2, (Level.WARN, ""))])
def test_a_discriminator_that_is_updated_twice_a_step_is_a_note(
    rows: int, expected: tuple[Level, str]
) -> None:
    """Unless its generator has two rows as well."""

    def part(name: str, values: Floats, each: int) -> Series:
        steps = np.repeat(np.arange(1, 61), each).tolist()
        identity = Identity(Role.LOSS, f"loss_{name}", component=name)
        return series(f"loss_{name}", values.tolist(), steps, identity=identity)

    critic = np.column_stack((learning(60), learning(60, 5, 2, seed=2))).ravel()
    generator = learning(60 * rows, seed=3)
    one = view(part("disc", critic, 2), part("gen", generator, rows), regime=Regime.ADVERSARIAL)
    cell = judge("TP-LOG-DOUBLED", one)
    first = cell.hits[0]
    assert (first.level, first.evidence.variant) == expected
    assert first.evidence.where.series == "loss_disc"


def test_a_reward_is_judged_where_no_loss_is_logged() -> None:
    steps = np.repeat(np.arange(60), 2).tolist()
    reward = series("reward", learning(120).tolist(), steps)
    held = evaluated_twice("eval_reward", Role.REWARD)
    alone = judge("TP-LOG-DOUBLED", view(reward, held))
    assert [hit.evidence.where.series for hit in alone.hits] == ["reward"]
    beside = judge("TP-LOG-DOUBLED", twice(learning(60), learning(60, seed=2), reward, held))
    assert [hit.evidence.where.series for hit in beside.hits] == ["loss"]


def normed(first: Floats, second: Floats) -> RunView:
    norms = np.column_stack((first, second)).ravel().tolist()
    norm = series("grad_norm", norms, np.repeat(np.arange(1, len(first) + 1), 2).tolist())
    return twice(learning(60), learning(60, seed=2), norm)


def test_a_step_with_two_gradients_is_a_warning_unless_one_is_the_sum_of_both() -> None:
    cell = judge("TP-LOG-DOUBLED", normed(flat(60, cv=0.2), flat(60, cv=0.2, seed=3)))
    assert level(cell) == (Level.WARN, "stepped")
    assert "the gradient norm grad_norm" in prose(cell).message
    summed = judge("TP-LOG-DOUBLED", normed(flat(60, cv=0.2), flat(60, 4, cv=0.2, seed=3)))
    assert level(summed) == (Level.INFO, "micro")
    once = judge("TP-LOG-DOUBLED", normed(flat(60, cv=0.2), flat(60, cv=0.2)))
    assert level(once) == (Level.INFO, "micro")


def test_gradients_of_an_epoch_are_no_steps() -> None:
    one = normed(flat(60, cv=0.2), flat(60, cv=0.2, seed=3))
    (attempt,) = one.attempts
    counted = tuple(replace(s, column=replace(s.column, axis=Axis.EPOCH)) for s in attempt.series)
    cell = judge("TP-LOG-DOUBLED", replace(one, attempts=(Attempt(0, counted),)))
    assert level(cell) == (Level.INFO, "micro")


def test_evaluations_that_are_doubled_too_are_a_warning() -> None:
    evaluations = evaluated_twice("eval_loss", Role.LOSS)
    cell = judge("TP-LOG-DOUBLED", twice(learning(60), learning(60, seed=2), evaluations))
    assert level(cell) == (Level.WARN, "evaluated")


def test_equal_rows_and_a_few_steps_logged_again_are_clean() -> None:
    curve = learning(60)
    assert is_clean(judge("TP-LOG-DOUBLED", twice(curve, curve)))
    steps = sorted([*range(1, 41), *range(10, 41, 10)])
    assert is_clean(judge("TP-LOG-DOUBLED", view(series("loss", learning(44).tolist(), steps))))


# --- TP-LOG-REWIND -----------------------------------------------------------------------------


def went_back(*rewinds: Rewind) -> RunView:
    return view(
        series("loss", falling(100), range(10, 1001, 10)),
        rewinds=rewinds,
        earlier=[Attempt(0, (series("loss", falling(5)),))],
    )


def test_another_execution_is_a_note() -> None:
    cell = judge("TP-LOG-REWIND", went_back(Rewind("log.jsonl", 50, 10, False, 6)))
    assert level(cell) == (Level.INFO, "")
    assert prose(cell).evidence == "The run is judged as 2 execution(s), each by itself."


def test_a_resume_is_a_note_with_the_steps_done_again() -> None:
    cell = judge("TP-LOG-REWIND", went_back(Rewind("log.jsonl", 550, 500, True)))
    assert level(cell) == (Level.INFO, "resumed")
    assert prose(cell).evidence.startswith("50 steps were done again (5.0% of the run)")


def test_resumes_that_cost_a_tenth_of_the_run_are_a_warning() -> None:
    back = [Rewind("log.jsonl", 550 + 10 * i, 500, True) for i in range(3)]
    cell = judge("TP-LOG-REWIND", went_back(*back))
    assert level(cell) == (Level.WARN, "costly")
    assert cell.hits[0].evidence.measured["redone"] == 180


def test_what_each_of_several_executions_did_again_is_no_greater_for_their_number() -> None:
    back = tuple(Rewind("log.jsonl", 560, 500, True) for _ in range(2))
    one = view(
        series("loss", falling(100), range(10, 1001, 10)),
        rewinds=back,
        earlier=[Attempt(0, (series("loss", falling(100), range(10, 1001, 10)),))],
    )
    cell = judge("TP-LOG-REWIND", one)
    assert level(cell) == (Level.INFO, "resumed")
    assert cell.hits[0].evidence.measured["share"] == 0.06


def test_a_count_that_starts_over_in_one_execution_is_a_note_that_says_how_it_was_read() -> None:
    for resume in (True, False):
        anew = Rewind("log.jsonl", 500, 10, resume, 51, counted_as=510)
        one = view(series("loss", falling(100), range(10, 1001, 10)), rewinds=(anew,))
        cell = judge("TP-LOG-REWIND", one)
        assert level(cell) == (Level.INFO, "anew")
    told = prose(cell)
    assert told.message == (
        "log.jsonl starts its count over 1 time(s): after step 500 comes step 10."
    )
    assert "step 10 stands for step 510" in told.evidence
    assert cell.hits[0].evidence.where.line == 51


def test_a_file_that_goes_on_where_another_ended_is_clean() -> None:
    cell = judge("TP-LOG-REWIND", went_back(Rewind("log.jsonl", 500, 510, True)))
    assert is_clean(cell)


def test_steps_that_only_rise_are_clean() -> None:
    assert measured(judge("TP-LOG-REWIND", view(series("loss", falling(9))))) == {
        "count": 0,
        "attempts": 1,
    }
