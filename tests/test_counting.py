"""What a step that falls means: resume, restart, epoch, or a count that starts over."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support import tfevents as tb
from trainproof import audit
from trainproof.counting import Clock, Course, Fall, cadence, course, falls, meanings
from trainproof.model.data import Axis, Column, Floats, Series
from trainproof.rules.examples import IDENTITIES

from .rules.curves import flat, learning

ROWS = 60
"""Of each of two parts; the count starts over between them."""

STEPS = np.arange(10, 10 * ROWS + 1, 10)
TWICE = np.concatenate([STEPS, STEPS])

GOES_ON = learning(2 * ROWS)
STARTS_OVER = np.concatenate([learning(ROWS), learning(ROWS, seed=2)])
UNCLEAR = flat(2 * ROWS, cv=0.1)

ONCE = np.linspace(1e-3, 0, 2 * ROWS)
AGAIN = np.tile(np.linspace(1e-3, 0, ROWS), 2)


def clock(
    values: Floats,
    steps: Floats | Sequence[int] = TWICE,
    *,
    rate: Floats | None = None,
    epochs: Sequence[float] | None = None,
    axis: Axis = Axis.STEP,
) -> Clock:
    column = Column("loss", np.asarray(steps, np.int64), np.array(values), axis)
    counted = None if epochs is None else Column("epoch", column.steps, np.array(epochs, float))
    return Clock(Series("log", IDENTITIES["loss"], column), rate, counted)


def told(one: Clock) -> list[Fall] | None:
    return meanings(one, falls(one.steps).tolist())


def halves(first: float, second: float) -> list[float]:
    return [first] * ROWS + [second] * ROWS


@pytest.mark.parametrize(
    ("values", "fall"), [(GOES_ON, Fall.ANEW), (STARTS_OVER, Fall.RESTART)], ids=["on", "over"]
)
def test_a_count_that_starts_over_once_is_told_by_the_loss(values: Floats, fall: Fall) -> None:
    assert told(clock(values)) == [fall]
    assert told(clock(values, rate=AGAIN)) == [fall]


def test_a_learning_rate_that_goes_on_was_not_begun_again() -> None:
    assert told(clock(STARTS_OVER, rate=ONCE)) == [Fall.ANEW]


def test_a_loss_that_falls_fast_is_told_by_its_first_row() -> None:
    fast = learning(ROWS, cv=0.02)
    fast[1:] = flat(ROWS - 1, 1.0, cv=0.02)
    values = np.concatenate([learning(ROWS, cv=0.02), fast])
    assert told(clock(values)) == [Fall.RESTART]


def test_where_the_loss_does_not_tell_the_learning_rate_does() -> None:
    assert told(clock(UNCLEAR, rate=AGAIN)) == [Fall.RESTART]
    assert told(clock(UNCLEAR, rate=ONCE)) == [Fall.ANEW]


def test_where_neither_tells_epochs_that_start_over_are_another_execution() -> None:
    nearer_to_the_end = np.concatenate([flat(ROWS, 2.0, 0.1), flat(ROWS, 1.95, 0.1)])
    nearer_to_the_end[ROWS - 5 : ROWS] = 1.94
    nearer_to_the_end[:5] = 2.0
    nearer_to_the_end[ROWS : ROWS + 5] = 1.95
    assert told(clock(nearer_to_the_end)) == [Fall.ANEW]
    assert told(clock(nearer_to_the_end, epochs=halves(3, 0))) == [Fall.RESTART]
    assert told(clock(nearer_to_the_end, axis=Axis.EPOCH)) == [Fall.RESTART]


def test_a_loss_that_certainly_goes_on_is_one_execution_though_its_epochs_start_over() -> None:
    assert told(clock(GOES_ON, epochs=halves(3, 0))) == [Fall.ANEW]


def test_an_epoch_that_rises_makes_it_the_count_of_an_epoch() -> None:
    assert told(clock(GOES_ON, epochs=halves(0, 1))) == [Fall.COUNTER]
    assert told(clock(STARTS_OVER, epochs=halves(0, 1))) == [Fall.COUNTER]


def test_a_step_that_falls_to_the_middle_is_a_resume() -> None:
    steps = np.concatenate([STEPS, STEPS + 300])
    assert told(clock(GOES_ON, steps)) == [Fall.RESUME]


def epochs_of(rows: Sequence[int]) -> list[int]:
    return [step for count in rows for step in range(10, 10 * count + 1, 10)]


@pytest.mark.parametrize("rows", [[30, 30, 30, 30], [30, 31, 29, 30], [40, 40, 40, 5]])
def test_several_parts_of_one_length_are_epochs(rows: list[int]) -> None:
    for values in (learning(sum(rows)), flat(sum(rows), cv=0.2)):
        assert told(clock(values, epochs_of(rows))) == [Fall.COUNTER] * 3


def test_epochs_of_few_rows_are_epochs_and_other_steps_that_often_fall_are_no_clock() -> None:
    assert told(clock(learning(120), epochs_of([6] * 20))) == [Fall.COUNTER] * 19
    assert told(clock(learning(120), [s for i in range(60) for s in (i * 10 + 8, i * 10)])) is None
    rising = [s for i in range(20) for s in range(10 * i, 10 * i + 60, 10)]
    assert told(clock(learning(120), rising)) is None


@pytest.mark.parametrize("rows", [[30, 40, 20, 30], [20, 20, 20, 60], [40, 40, 40]])
def test_few_parts_or_those_of_several_lengths_may_be_resumes(rows: list[int]) -> None:
    one = clock(learning(sum(rows)), epochs_of(rows))
    assert told(one) == [Fall.ANEW] * (len(rows) - 1)


def test_several_runs_of_one_length_are_no_epochs() -> None:
    values = np.concatenate([learning(30, seed=seed) for seed in range(4)])
    assert told(clock(values, epochs_of([30] * 4))) == [Fall.RESTART] * 3
    noisy, rate = flat(120, cv=0.2), np.tile(np.linspace(1e-3, 0, 30), 4)
    assert told(clock(noisy, epochs_of([30] * 4), rate=rate)) == [Fall.RESTART] * 3


def test_counts_of_epochs_do_not_start_over_with_each_epoch() -> None:
    one = clock(learning(120), epochs_of([30] * 4), axis=Axis.EPOCH)
    assert told(one) == [Fall.ANEW] * 3


def test_steps_that_cannot_be_added_up_are_no_clock() -> None:
    most = 2**63 - 1
    assert told(clock(GOES_ON, np.tile([most, -most], ROWS))) is None
    assert told(clock(GOES_ON, np.concatenate([STEPS, STEPS]) * 2**40)) == [Fall.ANEW]
    assert told(clock(GOES_ON, np.concatenate([STEPS, STEPS]) * 2**52)) is None


def test_what_follows_another_execution_is_compared_with_the_beginning_of_that_one() -> None:
    values = np.concatenate([learning(60, 8, 4), learning(60, 4, 1)])
    values[60:] = learning(60, 8, 4, seed=3)
    steps = [*STEPS, *STEPS[:30], *STEPS[20:50]]
    assert told(clock(values, steps)) == [Fall.RESTART, Fall.RESUME]


def test_a_loss_that_broke_is_followed_by_another_execution() -> None:
    values = GOES_ON.copy()
    values[ROWS - 5 : ROWS] = np.nan
    assert told(clock(values)) == [Fall.RESTART]
    values[ROWS - 5 : ROWS] = np.inf
    assert told(clock(values)) == [Fall.RESTART]


def test_levels_within_the_noise_tell_nothing() -> None:
    assert course(UNCLEAR[:ROWS], UNCLEAR[ROWS:]) is Course.UNCLEAR
    assert course(GOES_ON[:ROWS], GOES_ON[ROWS:]) is Course.GOES_ON
    assert course(STARTS_OVER[:ROWS], STARTS_OVER[ROWS:]) is Course.STARTS_OVER
    between = np.full(ROWS, 0.8 * GOES_ON[ROWS] + 0.2 * GOES_ON[0])
    assert course(GOES_ON[:ROWS], between) is Course.UNCLEAR
    assert course(np.array([2.0]), np.array([1.0])) is Course.UNCLEAR


def test_the_cadence_is_the_usual_distance() -> None:
    assert cadence(np.array([10, 20, 30, 400])) == 10
    assert cadence(np.array([10])) == 0


# --- in the files of people -----------------------------------------------------------------------

Rows = Sequence[tuple[int, float]]
"""Step and loss, in the order in which they were written."""


def json_lines(path: Path, rows: Rows) -> None:
    lines = (json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in rows)
    (path / "log.jsonl").write_text("".join(lines))


def lightning_table(path: Path, rows: Rows) -> None:
    with (path / "metrics.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "step", "train_loss"])
        writer.writerows([step // 300, step, loss] for step, loss in rows)


def console(path: Path, rows: Rows) -> None:
    lines = (f"step {step} | loss {loss:.4f}\n" for step, loss in rows)
    (path / "train.log").write_text("".join(lines))


def event_file(path: Path, rows: Rows) -> None:
    points = (tb.scalar("train/loss", loss, step) for step, loss in rows)
    (path / "events.out.tfevents.1700000000.host.0.0").write_bytes(tb.event_file(points))


def trainer_state(path: Path, rows: Rows) -> None:
    history = [{"loss": loss, "step": step} for step, loss in rows]
    state = {"log_history": history, "global_step": rows[-1][0], "max_steps": rows[-1][0]}
    (path / "trainer_state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("write", [json_lines, lightning_table, console, event_file, trainer_state])
@pytest.mark.parametrize(
    ("values", "attempts", "variant"), [(GOES_ON, 1, "anew"), (STARTS_OVER, 2, "")]
)
def test_a_log_whose_steps_start_over_once_says_so(
    tmp_path: Path,
    write: Callable[[Path, Rows], None],
    values: Floats,
    attempts: int,
    variant: str,
) -> None:
    write(tmp_path, list(zip(TWICE.tolist(), values.tolist(), strict=True)))
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert len(run.segments) == attempts
    (told,) = [one for one in run.findings if one.id == "TP-LOG-REWIND"]
    assert (told.level, told.variant, told.first_step, told.last_step) == ("INFO", variant, 10, 600)
    (rewind,) = run.rewinds
    assert rewind.counted_as == (610 if variant else None)


def test_the_batches_of_each_epoch_in_lines_are_no_news(tmp_path: Path) -> None:
    rows = zip(np.tile(STEPS[:30], 4).tolist(), learning(120).tolist(), strict=True)
    console(tmp_path, list(rows))
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert (run.findings, run.rewinds) == ((), ())
    (loss,) = run.series
    assert (loss.points, loss.first_step, loss.last_step) == (120, 10, 1200)
