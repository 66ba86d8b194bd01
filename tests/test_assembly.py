"""Which points are one curve: twins once, resumes joined, executions apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.assembly import Reading, assemble, strangers
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import (
    Axis,
    Column,
    Declared,
    Direction,
    Facts,
    Regime,
    Role,
    RunView,
    Split,
)
from trainproof.rules.examples import falling


def column(
    tag: str,
    values: Sequence[float],
    steps: Sequence[int] | None = None,
    *,
    lines: bool = True,
    wall: float | None = None,
) -> Column:
    count = len(values)
    at = np.arange(1, count + 1) if steps is None else np.asarray(steps)
    return Column(
        tag,
        at.astype(np.int64),
        np.asarray(values, np.float64),
        lines=np.arange(1, count + 1) if lines else None,
        walls=None if wall is None else wall + np.arange(count, dtype=np.float64),
    )


def reading(
    path: str, *columns: Column, reader: str = "jsonl", facts: Facts | None = None
) -> Reading:
    return Reading(Artifact("root", path, 1, Kind.LOG, reader), columns, facts or Facts())


def shape(view: RunView) -> list[list[tuple[str, int, int, int]]]:
    """Per attempt: tag, points, first and last step of each series."""
    return [
        [(s.tag, len(s), int(s.steps[0]), int(s.steps[-1])) for s in attempt.series]
        for attempt in view.attempts
    ]


def test_axis_columns_place_points_and_are_no_series() -> None:
    view = assemble("r", [reading("r/log", column("loss", [2, 1]), column("epoch", [0, 1]))])
    assert shape(view) == [[("loss", 2, 1, 2)]]


def test_a_copy_that_is_a_prefix_is_named_in_the_longest() -> None:
    loss = falling(30)
    view = assemble(
        "r",
        [
            reading("r/checkpoint-10/t.json", column("loss", loss[:10])),
            reading("r/checkpoint-20/t.json", column("loss", loss[:20])),
            reading("r/t.json", column("loss", loss)),
        ],
    )
    assert shape(view) == [[("loss", 30, 1, 30)]]
    assert view.series[0].also_in == ("r/checkpoint-10/t.json", "r/checkpoint-20/t.json")


def test_the_same_series_in_two_trackers_is_one_to_the_width_of_a_float32() -> None:
    loss = falling(30)
    single = np.asarray(loss, np.float32).astype(np.float64)
    view = assemble(
        "r",
        [
            reading("r/metrics.csv", column("train_loss", loss)),
            reading(
                "r/events", column("train/loss", single, lines=False, wall=1e9), reader="tfevents"
            ),
        ],
    )
    assert shape(view) == [[("train_loss", 30, 1, 30)]]
    assert view.series[0].also_in == ("r/events",)


def test_two_columns_of_one_file_with_one_meaning_stay_two_series() -> None:
    view = assemble(
        "r", [reading("r/log", column("loss", falling(9)), column("train/loss", falling(9, 8, 2)))]
    )
    assert shape(view) == [[("loss", 9, 1, 9), ("train/loss", 9, 1, 9)]]


def test_a_shard_that_goes_on_where_the_last_ended_is_the_same_curve() -> None:
    loss = falling(40)
    view = assemble(
        "r",
        [
            reading("r/b", column("loss", loss[20:], range(21, 41), wall=2e9)),
            reading("r/a", column("loss", loss[:20], wall=1e9)),
        ],
    )
    assert shape(view) == [[("loss", 40, 1, 40)]]
    assert view.series[0].values.tolist() == loss


@pytest.mark.parametrize(
    "names",
    [
        ["t.log.10", "t.log.2", "t.log.1", "t.log"],
        ["t.log.2023-01-02", "t.log.2023-01-10", "t.log.2023-02-01", "t.log"],
    ],
)
def test_the_parts_of_a_log_that_was_rotated_are_one_curve(names: list[str]) -> None:
    loss = falling(40)
    parts = [
        reading(f"r/{name}", column("loss", loss[10 * i : 10 * i + 10], range(10 * i, 10 * i + 10)))
        for i, name in enumerate(names)
    ]
    view = assemble("r", sorted(parts, key=lambda one: one.artifact.path))
    assert shape(view) == [[("loss", 40, 0, 39)]]
    assert view.series[0].values.tolist() == loss


def test_a_constant_of_two_shards_is_in_both() -> None:
    loss, rate = falling(40), [1e-3] * 20
    view = assemble(
        "r",
        [
            reading(
                f"r/{i}", *(column(tag, values, steps, wall=1e9 * i) for tag, values in members)
            )
            for i, steps, members in (
                (1, range(20), (("loss", loss[:20]), ("lr", rate))),
                (2, range(20, 40), (("loss", loss[20:]), ("lr", rate))),
            )
        ],
    )
    assert shape(view) == [[("loss", 40, 0, 39), ("lr", 40, 0, 39)]]


def test_a_shard_that_resumes_earlier_replaces_what_it_redid() -> None:
    loss = falling(40)
    view = assemble(
        "r",
        [
            reading("r/a", column("loss", [*loss[:20], 9.0, 9.0], wall=1e9)),
            reading("r/b", column("loss", loss[20:], range(21, 41), wall=2e9)),
        ],
    )
    assert shape(view) == [[("loss", 40, 1, 40)]]
    assert view.series[0].values.tolist() == loss
    assert [(r.from_step, r.to_step, r.resume) for r in view.rewinds] == [(22, 21, True)]


def test_a_shard_that_goes_on_is_a_place_where_training_was_resumed() -> None:
    loss = falling(40)
    parts = [
        reading("r/a", column("loss", loss[:20], wall=1e9)),
        reading("r/b", column("loss", loss[20:], range(21, 41), wall=2e9)),
    ]
    (rewind,) = assemble("r", parts).rewinds
    assert (rewind.from_step, rewind.to_step, rewind.resume, rewind.back) == (20, 21, True, False)


def test_a_resume_leaves_several_rows_of_one_step() -> None:
    """Two processes that write to one log, and are resumed at once."""
    steps = [1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4, 5, 5]
    loss = [float(i) for i in range(len(steps))]
    (series,) = assemble("r", [reading("r/log", column("loss", loss, steps))]).series
    assert series.steps.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert series.values.tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 12, 13]


def test_shards_that_each_start_over_are_executions_apart() -> None:
    shards = [
        reading(f"r/{i}", column("loss", falling(20, noise=0.01 * i), wall=i * 1e9))
        for i in range(1, 4)
    ]
    view = assemble("r", shards)
    assert [len(attempt.series) for attempt in view.attempts] == [1, 1, 1]
    assert [attempt.superseded for attempt in view.attempts] == [False, False, False]
    assert [r.resume for r in view.rewinds] == [False, False]


def test_an_attempt_is_superseded_by_one_that_gets_further() -> None:
    loss = [*falling(10), *falling(40)]
    steps = [*range(1, 11), *range(1, 41)]
    view = assemble("r", [reading("r/log", column("loss", loss, steps))])
    assert shape(view) == [[("loss", 10, 1, 10)], [("loss", 40, 1, 40)]]
    assert [attempt.superseded for attempt in view.attempts] == [True, False]
    assert [(r.to_step, r.line) for r in view.rewinds] == [(1, 11)]


def test_other_series_of_the_file_are_cut_at_the_same_line() -> None:
    loss = column("loss", [*falling(10), *falling(10)], [*range(1, 11), *range(1, 11)])
    evals = Column(
        "eval_loss",
        np.array([5, 10, 5, 10]),
        np.array([2.0, 1.5, 2.0, 1.5]),
        lines=np.array([5, 10, 15, 20]),
    )
    view = assemble("r", [reading("r/log", loss, evals)])
    assert [[len(s) for s in attempt.series] for attempt in view.attempts] == [[10, 2], [10, 2]]


def test_a_step_that_counts_batches_of_each_epoch_is_one_execution() -> None:
    loss = falling(40, noise=0)
    steps = [*range(1, 11)] * 4
    view = assemble("r", [reading("r/log", column("loss", loss, steps))])
    assert len(view.attempts) == 1
    assert view.series[0].values.tolist() == loss
    assert view.rewinds == ()


def evaluated(
    steps: Sequence[int], lines: Sequence[int], *, by_wall: bool = False
) -> tuple[Column, Column]:
    """40 rows whose steps start over in the middle, and evaluations at these lines, or so many
    seconds later."""
    loss = column("loss", falling(40, noise=0), [*range(1, 21)] * 2)
    held = column("val_loss", [3.0 - 0.1 * i for i in range(len(steps))], steps)
    if by_wall:
        loss = replace(loss, lines=None, walls=1e9 + np.arange(1, 41))
        return loss, replace(held, lines=None, walls=1e9 + np.asarray(lines, np.float64))
    return loss, replace(held, lines=np.asarray(lines))


@pytest.mark.parametrize("by_wall", [False, True])
def test_a_count_that_starts_over_while_training_goes_on_is_told(by_wall: bool) -> None:
    columns = evaluated([20, 20], [20, 40], by_wall=by_wall)
    view = assemble("r", [reading("r/log", *columns)])
    assert shape(view) == [[("loss", 40, 1, 40), ("val_loss", 2, 20, 40)]]
    (rewind,) = view.rewinds
    assert (rewind.from_step, rewind.to_step, rewind.resume) == (20, 1, False)
    assert (rewind.counted_as, rewind.judged_at) == (21, 21)
    assert rewind.line == (None if by_wall else 21)


@pytest.mark.parametrize("by_wall", [False, True])
def test_what_is_evaluated_before_the_first_row_belongs_to_what_follows(by_wall: bool) -> None:
    end_and_start = [(10, 10), (20, 20.2), (0, 20.5), (10, 30), (20, 40)]
    steps, lines = zip(*end_and_start, strict=True)
    loss, held = evaluated(steps, lines, by_wall=by_wall)
    if not by_wall:
        held = replace(held, lines=np.array([20, 41, 42, 60, 80]))
        loss = replace(loss, lines=np.array([*range(2, 42, 2), *range(43, 83, 2)]))
    (on,) = assemble("r", [reading("r/log", loss, held)]).attempts
    assert on.series[1].steps.tolist() == [10, 20, 20, 30, 40]
    over = replace(loss, values=np.array(falling(20) * 2))
    first, second = assemble("r", [reading("r/log", over, held)]).attempts
    assert first.series[1].steps.tolist() == [10, 20]
    assert second.series[1].steps.tolist() == [0, 10, 20]


@pytest.mark.parametrize(
    ("rate", "attempts"), [(range(40, 0, -1), 1), ([*range(20, 0, -1)] * 2, 2)]
)
def test_the_learning_rate_tells_where_the_loss_does_not(
    rate: Sequence[int], attempts: int
) -> None:
    steps = [*range(1, 21)] * 2
    columns = (column("loss", [2.0, 2.1, 1.9, 2.05] * 10, steps), column("lr", rate, steps))
    assert len(assemble("r", [reading("r/log", *columns)]).attempts) == attempts


def test_what_is_learned_tells_executions_apart_before_times_do() -> None:
    steps = [*range(1, 31)] * 2
    accuracy = column("accuracy", [0.03 * i for i in range(30)] * 2, steps)
    seconds = column("data_time", [0.5] * 30 + [0.1] * 30 + [0.1], [*steps, 31])
    assert len(assemble("r", [reading("r/log", seconds, accuracy)]).attempts) == 2


def test_an_epoch_column_that_rises_where_the_step_falls_keeps_the_note_away() -> None:
    steps = [*range(1, 21)] * 2
    columns = (column("loss", falling(40, noise=0), steps), column("epoch", [0] * 20 + [1] * 20))
    view = assemble("r", [reading("r/log", *columns)])
    assert (shape(view), view.rewinds) == ([[("loss", 40, 1, 40)]], ())


def process(path: str, *columns: Column, wall: float) -> Reading:
    """An event file of one process."""
    events = (replace(c, lines=None, walls=wall + np.arange(len(c))) for c in columns)
    return reading(path, *events, reader="tfevents")


def test_a_file_that_counts_anew_and_whose_loss_goes_on_is_the_same_execution() -> None:
    loss = falling(60, noise=0)
    files = [
        process(
            f"r/events.{i}",
            column("loss", loss[20 * i : 20 * i + 20]),
            column("val_loss", [3.0 - i], [20]),
            wall=(i + 1) * 1e9,
        )
        for i in range(3)
    ]
    view = assemble("r", files)
    assert shape(view) == [[("loss", 60, 1, 60), ("val_loss", 3, 20, 60)]]
    assert view.series[0].values.tolist() == loss
    told = [(r.artifact, r.to_step, r.resume, r.counted_as) for r in view.rewinds]
    assert told == [("r/events.1", 1, True, 21), ("r/events.2", 1, True, 41)]


def test_a_file_that_counts_anew_and_whose_learning_rate_goes_on_is_the_same_execution() -> None:
    def files(rate: Sequence[int]) -> list[Reading]:
        return [
            process(
                f"r/events.{i}",
                column("loss", [2.0 + 0.01 * i, 2.1, 1.9, 2.05] * 5),
                column("lr", rate[20 * i : 20 * i + 20]),
                wall=(i + 1) * 1e9,
            )
            for i in range(2)
        ]

    assert len(assemble("r", files(range(40, 0, -1))).attempts) == 1
    assert len(assemble("r", files([*range(40, 20, -1)] * 2)).attempts) == 2


def test_files_of_which_some_hold_no_loss_of_training_count_for_themselves() -> None:
    loss = falling(40, noise=0)
    files = [
        process(f"r/{split}/events.{i}", column(tag, loss[20 * i : 20 * i + 20]), wall=i * 1e9 + j)
        for i in range(2)
        for j, (split, tag) in enumerate((("train", "loss"), ("validation", "loss")))
    ]
    view = assemble("r", files)
    assert [len(attempt.series) for attempt in view.attempts] == [2, 2]


def test_steps_that_often_fall_back_are_no_clock() -> None:
    steps = [s for i in range(20) for s in (i * 10 + 8, i * 10 + 4)]
    view = assemble("r", [reading("r/log", column("loss", falling(40), steps))])
    assert shape(view)[0][0][1] == 40
    assert len(view.attempts) == 1


@pytest.mark.parametrize(
    ("path", "tag", "split"),
    [
        ("r/validation/events", "epoch_loss", Split.EVAL),
        ("r/train/events", "epoch_loss", Split.TRAIN),
        ("r/Loss_val/events", "Loss", Split.EVAL),
        ("r/tb/events", "loss", Split.TRAIN),
        ("r/validation/events", "train/loss", Split.EVAL),
        ("r/events", "val_loss", Split.EVAL),
    ],
)
def test_a_writer_of_its_own_for_each_split_puts_the_split_in_the_path(
    path: str, tag: str, split: Split
) -> None:
    view = assemble("r", [reading(path, column(tag, [2, 1]))])
    assert [s.split for s in view.series] == [split]


def test_totals_on_several_held_out_sets_are_totals_apart() -> None:
    sets = [column("eval_wiki_loss", [3, 2]), column("eval_code_loss", [3, 2])]
    times = [column("eval_wiki_runtime", [1, 1]), column("eval_code_runtime", [1, 1])]
    view = assemble("r", [reading("r/log", column("loss", [2, 1]), *sets, *times)])
    losses = [one.identity for one in view.series if one.role is Role.LOSS]
    assert [(one.split, one.component, one.dataset) for one in losses] == [
        (Split.TRAIN, None, None),
        (Split.EVAL, None, "wiki"),
        (Split.EVAL, None, "code"),
    ]


def test_twins_of_two_trackers_are_of_one_set() -> None:
    printed = [column("eval_wiki_loss", [3, 2]), column("eval_wiki_runtime", [1, 1])]
    state = reading("r/trainer_state.json", *printed, reader="hf-trainer")
    tracked = column("eval/wiki_loss", [3, 2], lines=False)
    view = assemble("r", [state, reading("r/events", tracked, reader="tfevents")])
    assert [(one.tag, one.also_in) for one in view.series if one.role is Role.LOSS] == [
        ("eval_wiki_loss", ("r/events",)),
    ]


def test_facts_of_all_files_are_joined() -> None:
    view = assemble(
        "r",
        [
            reading("r/a", column("loss", [2, 1]), facts=Facts(max_steps=100)),
            reading("r/b", facts=Facts(precision="fp16")),
        ],
    )
    assert (view.facts.max_steps, view.facts.precision) == (100, "fp16")


def test_of_two_states_of_a_training_the_later_one_is_believed() -> None:
    told = [
        reading("r/checkpoint-10", facts=Facts(last_step=10, best_metric=0.9, max_epochs=3.0)),
        reading("r/checkpoint-20", facts=Facts(last_step=20, best_metric=0.5)),
    ]
    for readings in (told, told[::-1]):
        facts = assemble("r", readings).facts
        assert facts == Facts(last_step=20, best_metric=0.5, max_epochs=3.0)


def test_the_columns_show_the_regime() -> None:
    losses = (column(tag, [2.0, 1.0, 1.5]) for tag in ("loss_gen", "loss_disc"))
    assert assemble("r", [reading("r/log", *losses)]).regime is Regime.ADVERSARIAL


def test_a_column_can_be_given_a_role() -> None:
    view = assemble("r", [reading("r/log", column("zorp", [2, 1]))], tags={"zorp": "loss"})
    assert [s.role for s in view.series] == [Role.LOSS]


def test_what_a_format_declares_goes_over_what_the_tag_says() -> None:
    said = Declared(Role.LOSS, Split.EVAL, Direction.HIGHER)
    plain = column("train/rmse", [2, 1])
    one = reading("r/test/log", replace(plain, declared=said))
    (series,) = assemble("r", [one]).series
    identity = series.identity
    assert (identity.role, identity.split) == (Role.LOSS, Split.EVAL)
    assert (identity.direction, identity.component) == (Direction.HIGHER, None)


def test_a_format_that_declares_one_thing_leaves_the_others_to_the_tag() -> None:
    plain = column("val/box_loss", [2, 1])
    one = reading("r/log", replace(plain, declared=Declared(direction=Direction.HIGHER)))
    identity = assemble("r", [one]).series[0].identity
    assert (identity.role, identity.split, identity.component) == (Role.LOSS, Split.EVAL, "box")
    assert identity.direction is Direction.HIGHER


def test_the_caller_knows_the_role_better_than_the_format() -> None:
    one = reading("r/log", replace(column("x", [2, 1]), declared=Declared(Role.METRIC)))
    view = assemble("r", [one], tags={"x": "reward"})
    assert [s.role for s in view.series] == [Role.REWARD]


def test_what_is_declared_stays_with_points_taken_and_joined() -> None:
    said = Declared(direction=Direction.HIGHER)
    whole = replace(column("zorp", falling(20)), declared=said)
    assert whole.take(slice(0, 5)).declared == said
    parts = (
        reading("r/a", whole.take(slice(0, 10))),
        reading("r/b", whole.take(slice(10, 20))),
    )
    (series,) = assemble("r", parts).series
    assert (len(series), series.column.declared) == (20, said)


def test_a_twin_whose_format_declares_nothing_is_named_in_the_one_that_declares() -> None:
    rmse = falling(20)
    plain = column("rmse", rmse, lines=False)
    said = replace(column("RMSE", rmse), declared=Declared(Role.LOSS, Split.EVAL))
    view = assemble(
        "r",
        [reading("r/test/events", plain, reader="tfevents"), reading("r/test_error.tsv", said)],
    )
    (series,) = view.series
    assert (series.artifact, series.role) == ("r/test_error.tsv", Role.LOSS)
    assert series.also_in == ("r/test/events",)


def split_files(train: Column, held_out: Column) -> list[Reading]:
    """As CatBoost writes: a file for each split, of which the format says what it is."""
    pairs = (("r/learn_error.tsv", train, Split.TRAIN), ("r/test_error.tsv", held_out, Split.EVAL))
    return [
        reading(path, replace(one, declared=Declared(Role.LOSS, split)), reader="catboost")
        for path, one, split in pairs
    ]


def test_the_files_of_two_splits_are_one_execution() -> None:
    files = split_files(column("RMSE", falling(20)), column("RMSE", falling(19)))
    view = assemble("r", files)
    assert strangers("r", files) == ()
    assert shape(view) == [[("RMSE", 20, 1, 20), ("RMSE", 19, 1, 19)]]


@pytest.mark.parametrize(
    "stale", [column("Logloss", falling(21)), column("RMSE", falling(24)), column("RMSE", [3, 2])]
)
def test_what_an_earlier_training_left_behind_is_another_execution(stale: Column) -> None:
    files = split_files(column("RMSE", falling(20)), stale)
    view = assemble("r", files)
    assert [[s.split for s in a.series] for a in view.attempts] == [[Split.TRAIN], [Split.EVAL]]
    assert [a.superseded for a in view.attempts] == [False, False]


def test_what_an_earlier_training_left_behind_is_told_with_its_copies() -> None:
    stale = column("Logloss", falling(21))
    copy = reading("r/test/events", replace(stale, lines=None), reader="tfevents")
    files = [*split_files(column("RMSE", falling(20)), stale), copy]
    assert strangers("r", files) == ("r/test/events", "r/test_error.tsv")


def test_two_names_for_one_thing_are_not_joined_to_one_curve() -> None:
    names = [
        reading("r/metrics/loss", column("loss", [3, 2, 1]), reader="mlflow"),
        reading("r/metrics/train/loss", column("train/loss", [9], [150]), reader="mlflow"),
    ]
    assert shape(assemble("r", names)) == [[("loss", 3, 1, 3), ("train/loss", 1, 150, 150)]]


def test_logs_that_each_hold_both_splits_follow_one_another() -> None:
    def log(path: str, steps: Sequence[int]) -> Reading:
        columns = [
            replace(column(tag, falling(len(steps)), steps), declared=Declared(Role.LOSS, split))
            for tag, split in (("train/l2", Split.TRAIN), ("valid/l2", Split.EVAL))
        ]
        return reading(path, *columns, reader="boosting-log")

    view = assemble("r", [log("r/a.log", range(10)), log("r/b.log", range(10, 30))])
    assert shape(view) == [[("train/l2", 30, 0, 29), ("valid/l2", 30, 0, 29)]]


def test_settings_say_what_the_log_does_not_and_nothing_where_two_disagree() -> None:
    def settings(path: str, facts: Facts) -> Reading:
        return Reading(Artifact("root", path, 1, Kind.CONFIG, "yaml-settings"), (), facts)

    view = assemble(
        "r",
        [
            settings("r/args.yaml", Facts(max_steps=9, seed=1, batch_size=8)),
            reading("r/log.jsonl", column("loss", falling(20)), facts=Facts(max_steps=20)),
            settings("r/params.yaml", Facts(max_steps=9, seed=2)),
        ],
    )
    assert view.facts == Facts(max_steps=20, batch_size=8)


def test_what_was_also_printed_is_named_in_what_holds_all_digits() -> None:
    loss = [2.34567, 1.23456, 0.0000049, 0.98765]
    table = reading("r/progress.csv", column("loss", loss), reader="csv")
    rounded = column("loss", [2.35, 1.23, 0.0, 0.988])
    printed = reading("r/console.log", rounded, reader="text")
    ((series,),) = (a.series for a in assemble("r", [printed, table]).attempts)
    assert (series.artifact, series.also_in) == ("r/progress.csv", ("r/console.log",))
    other = reading("r/other.csv", rounded, reader="csv")
    assert len(assemble("r", [other, table]).series) == 2


# --- a file for each split ------------------------------------------------------------------------


def of_splits(
    theirs: Column, *more: Column, ours: Column | None = None, path: str = "r/val.csv"
) -> list[Reading]:
    """A table of the training, thirty rows, and one of what is held out."""
    train = ours or column("loss", falling(30), range(1, 31))
    held_out = [theirs, *more]
    return [reading("r/train.csv", train, reader="csv"), reading(path, *held_out, reader="csv")]


def test_the_name_of_a_file_says_the_split_of_its_columns() -> None:
    files = of_splits(column("loss", falling(30)), column("acc", falling(30)))
    view = assemble("r", files)
    assert [(one.tag, one.split) for one in view.series] == [
        ("loss", Split.TRAIN),
        ("val/loss", Split.EVAL),
        ("val/acc", Split.EVAL),
    ]
    assert len(view.attempts) == 1
    assert strangers("r", files) == ()


@pytest.mark.parametrize(
    "steps", [range(1, 31), range(0, 30), range(5, 31, 5), range(5, 26, 5), [30], [9]]
)
def test_evaluations_that_end_with_the_training_are_its_own(steps: Sequence[int]) -> None:
    assert strangers("r", of_splits(column("loss", falling(len(steps)), steps))) == ()


@pytest.mark.parametrize(
    "steps", [range(1, 13), range(1, 61), range(10, 600, 10), [90], [1, 2, 3, 1, 2, 3], [0, 2**62]]
)
def test_evaluations_of_which_that_is_not_known_are_a_run_of_their_own(
    steps: Sequence[int],
) -> None:
    files = of_splits(column("loss", falling(len(steps)), steps))
    assert strangers("r", files) == ("r/val.csv",)


@pytest.mark.parametrize("tag", ["lr", "grad_norm", "train_acc"])
def test_a_file_with_what_only_a_training_logs_is_a_run_of_its_own(tag: str) -> None:
    files = of_splits(column("loss", falling(30)), column(tag, [0.1] * 30), path="r/test.csv")
    assert strangers("r", files) == ("r/test.csv",)


def test_a_training_that_logs_the_split_itself_needs_no_file_for_it() -> None:
    files = of_splits(column("loss", falling(30)))
    both = replace(files[0], columns=(*files[0].columns, column("val_loss", falling(30))))
    assert strangers("r", [both, files[1]]) == ("r/val.csv",)


def test_epochs_go_together_where_one_file_counts_steps_too() -> None:
    epochs = column("epoch", [i // 10 for i in range(300)], range(300))
    train = reading("r/train.csv", column("loss", falling(300), range(300)), epochs, reader="csv")
    theirs = replace(column("loss", falling(30), range(30)), axis=Axis.EPOCH)
    assert strangers("r", [train, reading("r/val.csv", theirs, reader="csv")]) == ()
    vast = replace(epochs, values=np.full(300, 1e300))
    train = replace(train, columns=(train.columns[0], vast))
    held_out = reading("r/val.csv", theirs, reader="csv")
    assert strangers("r", [train, held_out]) == ("r/val.csv",)


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("r/val_loss.csv", "val/loss"),
        ("r/val.csv", "val/loss"),
        ("r/dev.csv", "loss"),
        ("r/test.csv", "loss"),
        ("r/val_resnet.csv", "loss"),
    ],
)
def test_alone_only_a_name_that_means_nothing_else_says_the_split(path: str, tag: str) -> None:
    view = assemble("r", [reading(path, column("loss", [2, 1]), reader="csv")])
    assert [one.tag for one in view.series] == [tag]


def test_a_role_given_to_a_column_is_that_of_each_file() -> None:
    files = of_splits(column("q", falling(30)), ours=column("q", falling(30)))
    view = assemble("r", files, tags={"q": "loss"})
    assert [(one.tag, one.role, one.split) for one in view.series] == [
        ("q", Role.LOSS, Split.TRAIN),
        ("val/q", Role.LOSS, Split.EVAL),
    ]


# --- logs of several ranks ------------------------------------------------------------------------


def of_ranks(*losses: Sequence[float], name: str = "rank") -> list[Reading]:
    return [
        reading(
            f"r/{name}{rank}.log",
            column("loss", loss, range(0, 10 * len(loss), 10)),
            column("tokens_per_second", [100.0 + rank] * len(loss), range(0, 10 * len(loss), 10)),
            reader="text",
        )
        for rank, loss in enumerate(losses)
    ]


def noisy(seed: int, rows: int = 60) -> list[float]:
    return (falling(rows) + np.random.default_rng(seed).normal(0, 0.05, rows)).tolist()


def test_ranks_that_log_side_by_side_are_one_execution() -> None:
    view = assemble("r", of_ranks(noisy(0), noisy(1), noisy(2, 59)))
    assert shape(view) == [
        [
            (tag, rows, 0, 10 * rows - 10)
            for rows in (60, 60, 59)
            for tag in ("loss", "tokens_per_second")
        ]
    ]
    assert view.rewinds == ()
    assert [one.artifact for one in view.series[::2]] == [
        "r/rank0.log",
        "r/rank1.log",
        "r/rank2.log",
    ]


def test_a_loss_that_all_ranks_log_alike_is_there_once() -> None:
    view = assemble("r", of_ranks(noisy(0), noisy(0)))
    assert [(one.tag, one.artifact, one.also_in) for one in view.series] == [
        ("loss", "r/rank0.log", ("r/rank1.log",)),
        ("tokens_per_second", "r/rank0.log", ()),
        ("tokens_per_second", "r/rank1.log", ()),
    ]
    assert (len(view.attempts), view.rewinds) == (1, ())


def test_a_rank_whose_loss_is_not_finite_stays_with_the_others() -> None:
    view = assemble("r", of_ranks(noisy(0), [*noisy(1)[:50], *[np.nan] * 10]))
    assert len(view.attempts) == 1


@pytest.mark.parametrize(
    "files",
    [
        of_ranks(noisy(0), [3 * value for value in noisy(1)]),
        of_ranks(noisy(0), noisy(1, 40)),
        of_ranks(noisy(0), noisy(1), name="worker"),
        of_ranks(noisy(0), noisy(1), name="rank0_run"),
    ],
)
def test_others_are_executions_apart(files: list[Reading]) -> None:
    view = assemble("r", files)
    assert len(view.attempts) == 2
    assert [one.artifact for one in view.rewinds] == [files[1].artifact.path]


def test_a_rank_that_goes_on_in_another_file_goes_on() -> None:
    first, second = noisy(0), noisy(1)
    parts = [
        reading(
            f"r/rank{rank}.log{part}",
            column("loss", loss[begin : begin + 30], range(begin, begin + 30)),
            reader="text",
        )
        for part, begin in (("", 0), (".1", 30))
        for rank, loss in enumerate((first, second))
    ]
    view = assemble("r", parts)
    assert [(len(one), one.artifact) for one in view.series] == [
        (60, "r/rank0.log"),
        (60, "r/rank1.log"),
    ]
