"""Rules about the checkpoints of a run beside its log."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from tests.rules.judging import is_clean, judge, level, measured, skipped
from trainproof.model.checkpoint import Kept
from trainproof.model.data import Axis, Facts, RunView
from trainproof.model.outcome import Level, Skip, State
from trainproof.model.rule import SubjectKind
from trainproof.rules import REGISTRY
from trainproof.rules.examples import falling, series, view
from trainproof.rules.kept import keeping

NAN = math.nan
RULES = [id for id, rule in REGISTRY.items() if rule.info.subject is SubjectKind.KEPT]


def lost(good: int = 30, bad: int = 30, axis: Axis = Axis.STEP) -> RunView:
    one = series("loss", [*falling(good), *[NAN] * bad])
    return view(replace(one, column=replace(one.column, axis=axis)))


def at(step: int | None, **fields: object) -> Kept:
    return Kept(f"checkpoint-{step}", step, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("id", RULES)
def test_a_run_without_checkpoints_is_not_judged_by_them(id: str) -> None:
    run = view(series("loss", falling(60)), facts=Facts(best_checkpoint="checkpoint-1"))
    assert skipped(judge(id, run)) is Skip.NEED_ABSENT


def test_none_of_them_gives_grounds_for_a_pass() -> None:
    assert len(RULES) == 5
    assert not any(REGISTRY[id].info.grounds for id in RULES)


# --- steps


def test_a_checkpoint_from_beyond_the_log_is_told() -> None:
    cell = judge("TP-KEPT-STEP", keeping(at(40), at(70), at(900), at(901)))
    assert level(cell) == (Level.WARN, "")
    assert measured(cell) == {
        "kept": 4,
        "told": 4,
        "checkpoint": "checkpoint-901",
        "step": 901,
        "last_logged": 60,
        "cadence": 1,
        "beyond": 3,
        "inside": 1,
    }


def test_the_last_rows_may_not_have_been_logged() -> None:
    assert is_clean(judge("TP-KEPT-STEP", keeping(at(40), at(66))))
    rare = view(series("loss", falling(6), [10, 20, 30, 40, 50, 60]))
    assert is_clean(judge("TP-KEPT-STEP", keeping(at(40), at(80), run=rare)))


def test_where_no_other_lies_in_the_log_they_may_count_something_else() -> None:
    cell = judge("TP-KEPT-STEP", keeping(at(5), at(900)))
    assert skipped(cell) is Skip.UNDECIDED


@pytest.mark.parametrize(
    ("newest", "fires"), [(120, False), (180, False), (150, True), (300, True)]
)
def test_a_checkpoint_may_count_the_steps_of_several_optimizers(newest: int, fires: bool) -> None:
    cell = judge("TP-KEPT-STEP", keeping(at(40), at(80), at(newest)))
    assert cell.state is (State.FIRED if fires else State.NOT_CHECKED)


def test_a_log_of_epochs_has_no_step_to_compare_with() -> None:
    cell = judge("TP-KEPT-STEP", keeping(at(40), at(900), run=lost(bad=0, axis=Axis.EPOCH)))
    assert skipped(cell) is Skip.NOT_SAVED


# --- after the damage


def test_every_checkpoint_after_the_damage_fails() -> None:
    kept = (at(31, nonfinite=7), at(60))
    cell = judge("TP-KEPT-AFTER-DAMAGE", keeping(*kept, run=lost()))
    assert level(cell) == (Level.FAIL, "")
    assert measured(cell) == {
        "kept": 2,
        "points": 60,
        "nonfinite": 30,
        "earliest": 31,
        "last_logged": 60,
        "onset": 31,
        "broken": 1,
        "sound": 0,
    }


def test_finite_weights_make_it_a_warning() -> None:
    cell = judge("TP-KEPT-AFTER-DAMAGE", keeping(at(40, nonfinite=0), run=lost()))
    assert level(cell) == (Level.WARN, "sound")


@pytest.mark.parametrize(
    ("kept", "run"),
    [
        ((at(30), at(60)), lost()),
        ((at(60),), lost(30, 2)),
        ((at(60),), view(series("loss", [*falling(20), NAN, NAN, NAN, *falling(20)]))),
    ],
    ids=["one from before", "too few at the end", "recovered"],
)
def test_what_is_no_loss_of_every_state(kept: tuple[Kept, ...], run: RunView) -> None:
    assert is_clean(judge("TP-KEPT-AFTER-DAMAGE", keeping(*kept, run=run)))


@pytest.mark.parametrize(
    ("kept", "run"),
    [
        ((at(60), Kept("best.pt")), lost()),
        ((at(5000),), lost()),
        ((at(40),), lost(axis=Axis.EPOCH)),
    ],
    ids=["one of unknown step", "the log counts something else", "the log counts epochs"],
)
def test_steps_that_cannot_be_compared_leave_it_open(kept: tuple[Kept, ...], run: RunView) -> None:
    assert skipped(judge("TP-KEPT-AFTER-DAMAGE", keeping(*kept, run=run))) is Skip.NOT_SAVED


# --- after the rise

RISEN = view(series("loss", [*falling(90, 4, 1), *([4.0] * 30)]))


def test_every_checkpoint_after_the_loss_rose_is_a_warning() -> None:
    cell = judge("TP-KEPT-AFTER-RISE", keeping(at(100), at(120), run=RISEN))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["onset"], measured(cell)["earliest"]) == (91, 100)


@pytest.mark.parametrize(
    ("kept", "run"),
    [((at(80), at(120)), RISEN), ((at(60),), view(series("loss", falling(60))))],
    ids=["one from before", "no rise"],
)
def test_a_state_from_before_the_rise_is_enough(kept: tuple[Kept, ...], run: RunView) -> None:
    assert is_clean(judge("TP-KEPT-AFTER-RISE", keeping(*kept, run=run)))


def test_a_rise_takes_steps_to_compare_with() -> None:
    cell = judge("TP-KEPT-AFTER-RISE", keeping(at(100), Kept("best.pt"), run=RISEN))
    assert skipped(cell) is Skip.NOT_SAVED


# --- the best


def said(*kept: Kept, best: str = "/home/x/out/checkpoint-30") -> RunView:
    return keeping(*kept, run=view(facts=Facts(best_checkpoint=best)))


def test_a_best_checkpoint_that_is_gone_is_told() -> None:
    cell = judge("TP-KEPT-BEST", said(at(40), at(50)))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["best"], measured(cell)["kept"]) == ("checkpoint-30", 2)


def test_a_best_checkpoint_that_cannot_be_used_fails() -> None:
    cell = judge("TP-KEPT-BEST", said(at(30, damaged=("TP-CKPT-TRUNCATED",)), at(40)))
    assert level(cell) == (Level.FAIL, "damaged")


@pytest.mark.parametrize("best", ["o/checkpoint-30", "C:\\o\\checkpoint-30", "checkpoint-30/"])
def test_the_best_is_found_by_its_last_name(best: str) -> None:
    kept = Kept("sub/checkpoint-30/model.pt", 30)
    assert is_clean(judge("TP-KEPT-BEST", said(kept, best=best)))


def test_checkpoints_of_other_names_do_not_say_that_the_best_is_gone() -> None:
    assert skipped(judge("TP-KEPT-BEST", said(Kept("final/model.pt", 40)))) is Skip.NOT_SAVED


def test_a_run_that_names_no_best_is_not_judged() -> None:
    assert skipped(judge("TP-KEPT-BEST", keeping(at(40)))) is Skip.NEED_ABSENT


# --- the newest

CUT = ("TP-CKPT-TRUNCATED",)


def test_the_last_good_one_is_named_where_the_newest_is_cut() -> None:
    kept = (at(10), at(20), at(30, damaged=CUT), at(40, damaged=CUT))
    cell = judge("TP-KEPT-NEWEST", keeping(*kept))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["newest"], measured(cell)["whole"]) == ("checkpoint-40", "checkpoint-20")


def test_an_older_one_that_is_cut_is_no_matter() -> None:
    assert is_clean(judge("TP-KEPT-NEWEST", keeping(at(10, damaged=CUT), at(20))))


def test_where_none_is_whole_there_is_none_to_name() -> None:
    kept = (at(10, damaged=CUT), at(20, damaged=CUT))
    assert skipped(judge("TP-KEPT-NEWEST", keeping(*kept))) is Skip.UNDECIDED


def test_files_that_all_others_have_are_missed() -> None:
    files = ("model.safetensors", "optimizer.pt", "rng_state_0.pth")
    kept = (at(10, files=files), at(20, files=files), at(30, files=files[:1]))
    cell = judge("TP-KEPT-NEWEST", keeping(*kept))
    assert level(cell) == (Level.WARN, "lacking")
    assert measured(cell)["lacking"] == "optimizer.pt, rng_state_0.pth"


def test_a_file_that_only_one_other_has_is_not_missed() -> None:
    files = ("model.safetensors", "optimizer.pt")
    two = (at(10, files=files[:1]), at(20, files=files), at(30, files=files[:1]))
    assert is_clean(judge("TP-KEPT-NEWEST", keeping(*two)))
    assert is_clean(judge("TP-KEPT-NEWEST", keeping(two[1], two[2])))


def test_numbers_in_names_of_files_do_not_count() -> None:
    kept = [at(n, files=(f"model_{n}.pt",)) for n in (10, 20, 30)]
    assert is_clean(judge("TP-KEPT-NEWEST", keeping(*kept)))


def test_which_is_the_newest_takes_two_that_tell_their_step() -> None:
    cell = judge("TP-KEPT-NEWEST", keeping(at(10), Kept("best.pt", damaged=CUT)))
    assert skipped(cell) is Skip.NEED_TOO_SHORT
