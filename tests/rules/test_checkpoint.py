"""Rules about checkpoints as files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level
from trainproof.model.checkpoint import Checkpoint
from trainproof.model.data import Fault, FaultCode, RunView
from trainproof.model.outcome import Level, Skip, State
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    DirectoryKind,
    Extent,
    GlobalUse,
    Integrity,
    Layout,
    Presence,
    Safety,
)
from trainproof.rules import REGISTRY
from trainproof.rules.checkpoint import _DAMAGE, _ODD
from trainproof.rules.saved_examples import clocked, defect, directory, divided, saved, tensor

CHECKPOINT_RULES = [id for id, rule in REGISTRY.items() if rule.info.subject == "checkpoint"]


def test_ids_begin_with_the_family_that_users_know() -> None:
    assert all(id.startswith("TP-CKPT-") for id in CHECKPOINT_RULES)


def test_a_pass_rests_on_every_value_and_never_on_checksums_alone() -> None:
    grounds = {id for id in CHECKPOINT_RULES if REGISTRY[id].info.grounds}
    assert grounds == {"TP-CKPT-NAN"}


@pytest.mark.parametrize("layout", [Layout.EMPTY, Layout.ZEROS, Layout.MARKUP, Layout.JSON])
def test_what_stands_in_the_place_of_a_checkpoint_is_named(layout: Layout) -> None:
    cell = judge(
        "TP-CKPT-HOLLOW", saved(layout=layout, extent=Extent.NOT_CHECKED, reason="no file")
    )
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["what"] == "no file"


def test_json_and_compressed_data_are_only_wrong_under_a_name_that_promises_more() -> None:
    for layout in (Layout.JSON, Layout.COMPRESSED):
        cell = judge(
            "TP-CKPT-HOLLOW",
            saved(artifact="m.joblib", layout=layout, extent=Extent.NOT_CHECKED),
        )
        assert cell.state is State.CLEAN


def test_a_cut_file_is_told_with_its_whole_cut_and_absent_tensors() -> None:
    view = saved(
        tensor("a"),
        tensor("b", presence=Presence.CUT, measured=False),
        *(tensor(f"c{i}", presence=Presence.ABSENT, measured=False) for i in range(5)),
        defects=(Defect(DefectCode.TRUNCATED, "it ends at byte 9"),),
    )
    cell = judge("TP-CKPT-TRUNCATED", view)
    measured = cell.hits[0].evidence.measured
    assert (measured["whole"], measured["cut"], measured["absent"]) == (1, 1, 5)
    assert measured["cut_names"] == "b"
    assert measured["absent_names"] == "c0, c1, c2 and 2 more"


def test_a_file_that_was_not_opened_is_never_clean() -> None:
    closed = saved(extent=Extent.NOT_CHECKED, safety=None, integrity=Integrity.NOT_CHECKED)
    for id in ("TP-CKPT-TRUNCATED", "TP-CKPT-CORRUPT", "TP-CKPT-UNSAFE", "TP-CKPT-NAN"):
        cell = judge(id, closed)
        assert cell.skip is Skip.NEED_UNREADABLE, id


def test_a_lost_file_beside_a_healthy_one_is_never_clean() -> None:
    view = saved(tensor("fc.weight"), lost=("other.pt",))
    for id in ("TP-CKPT-TRUNCATED", "TP-CKPT-CORRUPT", "TP-CKPT-UNSAFE", "TP-CKPT-NAN"):
        (check,) = judge(id, view).checks
        assert check.skip is Skip.NEED_UNREADABLE
        assert check.measured["first_unread"] == "other.pt"


def test_without_any_file_the_fault_says_why() -> None:
    fault = Fault(FaultCode.TIMEOUT, "m.pt", "no progress", fatal=True)
    view = RunView("m.pt", faults=(fault,), checkpoint=Checkpoint((), lost=("m.pt",)))
    assert judge("TP-CKPT-NAN", view).skip is Skip.WORKER_TIMEOUT


@pytest.mark.parametrize("code", sorted(_DAMAGE))
def test_damage_is_a_fail(code: DefectCode) -> None:
    assert level(judge("TP-CKPT-CORRUPT", defect(code, "it is so"))) == (Level.FAIL, "")


@pytest.mark.parametrize("code", sorted(_ODD))
def test_what_loads_as_it_was_meant_is_a_warning(code: DefectCode) -> None:
    assert level(judge("TP-CKPT-CORRUPT", defect(code, "it is so"))) == (Level.WARN, "odd")


def test_a_file_without_checksums_gives_no_grounds() -> None:
    cell = judge("TP-CKPT-CORRUPT", saved(tensor("w"), integrity=Integrity.ABSENT))
    assert cell.skip is Skip.NOT_SAVED


def test_a_depth_that_the_caller_chose_is_no_fault_of_the_file() -> None:
    view = saved(tensor("w"), depth=Depth.STRUCTURE, integrity=Integrity.NOT_CHECKED)
    assert judge("TP-CKPT-CORRUPT", view).skip is Skip.DISABLED
    assert judge("TP-CKPT-NAN", view).skip is Skip.DISABLED
    assert judge("TP-CKPT-UNSAFE", view).state is State.CLEAN


def test_a_name_that_runs_code_fails_and_says_whether_weights_only_would_load_it() -> None:
    evil = GlobalUse("posix.system", Safety.UNSAFE, "m/data.pkl")
    view = saved(tensor("w"), safety=Safety.UNSAFE, weights_only=False, globals=(evil,))
    cell = judge("TP-CKPT-UNSAFE", view)
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["why"] == "it calls posix.system"
    assert cell.hits[0].evidence.measured["loads"] == "refuse"


def test_a_name_on_no_list_is_a_warning() -> None:
    own = GlobalUse("mine.Net", Safety.UNKNOWN)
    view = saved(tensor("w"), safety=Safety.UNKNOWN, weights_only=False, globals=(own,))
    assert level(judge("TP-CKPT-UNSAFE", view)) == (Level.WARN, "unknown")


def test_a_pickle_that_could_not_be_followed_is_not_called_safe() -> None:
    view = saved(tensor("w"), safety=Safety.UNKNOWN, weights_only=False)
    assert judge("TP-CKPT-UNSAFE", view).skip is Skip.NEED_UNREADABLE


def test_a_format_without_pickles_is_safe() -> None:
    view = saved(tensor("w"), layout=Layout.SAFETENSORS, safety=None, weights_only=None)
    assert judge("TP-CKPT-UNSAFE", view).state is State.CLEAN


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (DefectCode.SHARD_MISSING, (Level.FAIL, "")),
        (DefectCode.INDEX_TENSOR_ABSENT, (Level.FAIL, "")),
        (DefectCode.UNCOMMITTED, (Level.FAIL, "uncommitted")),
        (DefectCode.TENSOR_TWICE, (Level.WARN, "index")),
        (DefectCode.INDEX_SIZE, (Level.WARN, "index")),
    ],
)
def test_a_set_that_is_not_complete(code: DefectCode, expected: tuple[Level, str]) -> None:
    view = directory(DirectoryKind.SHARDED, Defect(code, "it is so"))
    assert level(judge("TP-CKPT-INCOMPLETE", view)) == expected


def test_a_single_file_has_no_set_to_be_complete() -> None:
    for id in ("TP-CKPT-INCOMPLETE", "TP-CKPT-NOT-RESUMABLE"):
        assert judge(id, saved(tensor("w"))).skip is Skip.NOT_SAVED


def test_a_missing_optimizer_is_told_once_and_only_where_a_resume_is_claimed() -> None:
    lost = Defect(DefectCode.FILE_MISSING, "it is not in the directory", "optimizer.pt")
    trainer = directory(DirectoryKind.TRAINER, lost)
    assert level(judge("TP-CKPT-NOT-RESUMABLE", trainer)) == (Level.WARN, "")
    assert judge("TP-CKPT-INCOMPLETE", trainer).state is State.CLEAN
    adapter = directory(DirectoryKind.ADAPTER, lost)
    assert judge("TP-CKPT-NOT-RESUMABLE", adapter).state is State.CLEAN
    assert level(judge("TP-CKPT-INCOMPLETE", adapter)) == (Level.FAIL, "")


@pytest.mark.parametrize("clock", [1000, 901, 1000.0])
def test_a_loss_scaler_may_have_skipped_a_few_steps(clock: float) -> None:
    assert judge("TP-CKPT-CLOCK", clocked(clock, 1000)).state is State.CLEAN


@pytest.mark.parametrize("clock", [0, 1, 899, 1001])
def test_an_optimizer_that_counts_otherwise_is_told(clock: int) -> None:
    cell = judge("TP-CKPT-CLOCK", clocked(clock, 1000))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured["clock"] == clock


def test_a_loss_scaler_halves_itself_first() -> None:
    """Mixed precision in fp16: the first steps of a short run overflow, and are skipped."""
    assert judge("TP-CKPT-CLOCK", clocked(4, 10)).state is State.CLEAN
    assert judge("TP-CKPT-CLOCK", clocked(83, 100)).state is State.FIRED
    assert judge("TP-CKPT-CLOCK", clocked(11, 10)).state is State.FIRED


def test_a_count_beyond_all_bounds_is_no_clock() -> None:
    assert judge("TP-CKPT-CLOCK", clocked(10**300, 1000)).skip is Skip.NOT_SAVED


def test_ranks_over_which_the_optimizer_was_divided_must_be_there() -> None:
    cell = judge("TP-CKPT-INCOMPLETE", divided(over=4, ranks=3))
    assert level(cell) == (Level.FAIL, "")
    measured = cell.hits[0].evidence.measured
    assert measured["detail"] == "mp_rank_00 was divided over 4 ranks, files of 3 are there"
    assert (measured["kind"], measured["defects"]) == ("deepspeed", 1)
    assert judge("TP-CKPT-INCOMPLETE", divided(over=3, ranks=3)).state is State.CLEAN


def test_a_rank_that_could_not_be_read_is_there() -> None:
    view = divided(over=2, ranks=1)
    saved_ = view.checkpoint
    assert saved_ is not None
    lost = "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt"
    with_lost = replace(view, checkpoint=replace(saved_, lost=(lost,)))
    assert judge("TP-CKPT-INCOMPLETE", with_lost).state is State.NOT_CHECKED


def test_a_set_is_called_by_the_layout_of_its_list() -> None:
    lost = Defect(DefectCode.SHARD_MISSING, "no such file", "m.data")
    view = saved(tensor("w"), layout=Layout.ONNX, defects=(lost,))
    assert judge("TP-CKPT-INCOMPLETE", view).hits[0].evidence.measured["kind"] == "onnx"
