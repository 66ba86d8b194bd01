"""Rules about targets, losses and output layers, from counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trainproof.model.data import RunView
from trainproof.model.objective import Alignment, Objective, Targets
from trainproof.model.outcome import Cell, Level, Skip

from .judging import is_clean, judge, level, prose, skipped

TARGETS = Targets(
    total=1000,
    classes=1000,
    seen=5,
    rarest=150,
    missing=0,
    unseen=(),
    masked=0,
    inside=0,
    outside=0,
    torch_ignored=0,
    first_outside=None,
)
HEALTHY = Objective(5, -100, targets=TARGETS)


def cell(rule: str, objective: Objective) -> Cell:
    return judge(f"TP-OBJ-{rule}", RunView("objective", inspected=objective))


COLLISION = "IGNORE-INDEX-COLLISION"


def test_a_class_that_the_loss_ignores_between_other_targets_fails() -> None:
    found = cell(COLLISION, replace(HEALTHY, ignore_index=2, targets=replace(TARGETS, inside=9)))
    assert level(found) == (Level.FAIL, "")


@pytest.mark.parametrize("targets", [None, replace(TARGETS, masked=300)])
def test_a_class_that_may_be_padding_is_a_warning(targets: Targets | None) -> None:
    assert level(cell(COLLISION, Objective(5, 2, targets=targets))) == (Level.WARN, "padding")


@pytest.mark.parametrize("index", [-100, -1, 5, 255])
def test_an_index_outside_of_the_classes_is_clean(index: int) -> None:
    assert is_clean(cell(COLLISION, Objective(5, index)))


def test_a_class_that_is_declared_as_padding_is_clean() -> None:
    told = Objective(5, 2, padding=2, targets=replace(TARGETS, inside=9))
    assert is_clean(cell(COLLISION, told))


def test_an_unknown_index_is_not_judged() -> None:
    assert skipped(cell(COLLISION, Objective(5))) is Skip.NEED_ABSENT


RANGE = "TARGET-OUT-OF-RANGE"


def test_one_target_that_is_no_class_fails() -> None:
    targets = replace(TARGETS, outside=1, first_outside=5)
    found = cell(RANGE, replace(HEALTHY, targets=targets))
    assert prose(found).message == (
        "1 of 1000 targets are neither one of the 5 classes of the output layer nor ignored by the"
        " loss."
    )
    assert prose(found).evidence == "The first of them is 5; classes are 0 to 4."


def test_what_torch_ignores_is_not_judged_where_the_index_is_unknown() -> None:
    targets = replace(TARGETS, outside=30, torch_ignored=30)
    assert skipped(cell(RANGE, Objective(5, targets=targets))) is Skip.UNDECIDED


@pytest.mark.parametrize("targets", [None, replace(TARGETS, total=0)])
def test_without_targets_no_range_is_judged(targets: Targets | None) -> None:
    assert skipped(cell(RANGE, Objective(5, -100, targets=targets))) is Skip.NEED_ABSENT


DEAD = "DEAD-CLASS"
MISSING = replace(TARGETS, seen=4, missing=1, unseen=(3,))


def test_a_class_that_is_no_target_of_all_data_fails() -> None:
    found = cell(DEAD, Objective(5, -100, complete=True, targets=MISSING))
    assert level(found) == (Level.FAIL, "")
    assert "1 of 5 classes" in prose(found).message
    assert prose(found).message.endswith("in the training data: 3.")


def test_an_output_layer_that_is_mostly_spare_is_a_warning() -> None:
    targets = replace(TARGETS, seen=2, missing=3, unseen=(2, 3, 4))
    told = Objective(5, -100, complete=True, targets=targets)
    assert level(cell(DEAD, told)) == (Level.WARN, "spare")


def test_a_class_unseen_in_a_sample_in_which_all_others_are_frequent_is_a_warning() -> None:
    assert level(cell(DEAD, Objective(5, -100, targets=MISSING))) == (Level.WARN, "sample")


def test_a_sample_with_rare_classes_cannot_show_a_dead_one() -> None:
    few = Objective(5, -100, targets=replace(MISSING, rarest=19))
    assert skipped(cell(DEAD, few)) is Skip.LOW_POWER
    assert level(cell("COVERAGE-INSUFFICIENT", few)) == (Level.INFO, "")


def test_only_the_first_classes_are_named() -> None:
    targets = replace(TARGETS, seen=900, missing=100, unseen=(1, 2, 3))
    found = cell(DEAD, Objective(1000, -100, complete=True, targets=targets))
    assert prose(found).message.endswith("training data: 1, 2, 3 and 97 more.")


def test_no_target_that_the_loss_sees_is_no_coverage() -> None:
    masked = Objective(5, -100, targets=replace(TARGETS, classes=0, seen=0, rarest=0, missing=5))
    assert skipped(cell(DEAD, masked)) is Skip.NEED_ABSENT
    assert skipped(cell("COVERAGE-INSUFFICIENT", masked)) is Skip.NEED_ABSENT


SHIFT = "LABEL-SHIFT-DOUBLE"
COPIED, MOVED = Alignment(600, 10, 10, 0), Alignment(600, 10, 0, 10)


@pytest.mark.parametrize(
    ("alignment", "shifts", "variant"), [(MOVED, True, ""), (COPIED, False, "copy")]
)
def test_labels_and_loss_that_disagree_fail(
    alignment: Alignment, shifts: bool, variant: str
) -> None:
    told = Objective(5, loss_shifts=shifts, alignment=alignment)
    assert level(cell(SHIFT, told)) == (Level.FAIL, variant)


@pytest.mark.parametrize(("alignment", "shifts"), [(COPIED, True), (MOVED, False)])
def test_labels_and_loss_that_agree_are_clean(alignment: Alignment, shifts: bool) -> None:
    assert is_clean(cell(SHIFT, Objective(5, loss_shifts=shifts, alignment=alignment)))


@pytest.mark.parametrize("alignment", [COPIED, MOVED])
def test_a_loss_of_unknown_convention_is_never_judged(alignment: Alignment) -> None:
    assert skipped(cell(SHIFT, Objective(5, alignment=alignment))) is Skip.UNDECIDED


def test_rows_that_disagree_are_not_judged() -> None:
    told = Objective(5, loss_shifts=True, alignment=Alignment(600, 10, 4, 6))
    assert skipped(cell(SHIFT, told)) is Skip.UNDECIDED


def test_too_few_positions_are_not_judged() -> None:
    told = Objective(5, loss_shifts=True, alignment=Alignment(3, 0, 0, 0))
    assert skipped(cell(SHIFT, told)) is Skip.NEED_TOO_SHORT
