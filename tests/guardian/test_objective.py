"""Counting of targets, from arrays as people have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trainproof.guardian.objective import MAX_CLASSES, align, batches_of, check_objective, count
from trainproof.model.objective import Alignment
from trainproof.model.report import Report, Verdict

RNG = np.random.default_rng(7)


def fired(report: Report) -> list[tuple[str, str]]:
    return [(str(finding.level), finding.id) for _, finding in report.findings()]


class Tensor:
    """What torch's tensors have in common with this is all that is asked of them."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.values


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 2],
        np.array([0, 1, 2], np.uint8),
        Tensor([0, 1, 2]),
        [np.array([0, 1]), np.array([2])],
        [[0, 1], [2]],
        [Tensor([0]), Tensor([1, 2])],
        iter([np.array([0]), np.array([1, 2])]),
    ],
)
def test_targets_may_be_arrays_tensors_lists_and_batches_of_them(values: Any) -> None:
    assert count(batches_of(values), 3, None).seen == 3


def test_targets_that_are_no_whole_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="float64, not whole numbers"):
        check_objective(3, -100, np.array([0.5]))


@pytest.mark.parametrize("classes", [0, -1, MAX_CLASSES + 1])
def test_a_number_of_classes_that_cannot_be_is_refused(classes: int) -> None:
    with pytest.raises(ValueError, match="num_classes"):
        check_objective(classes)


def test_counts_are_of_what_the_loss_sees() -> None:
    found = count(batches_of([np.array([[0, 1, 1, -100], [3, 9, -100, -100]])]), 5, -100)
    assert (found.total, found.classes, found.masked) == (8, 4, 3)
    assert (found.seen, found.rarest, found.unseen, found.missing) == (3, 1, (2, 4), 2)
    assert (found.outside, found.first_outside, found.torch_ignored) == (1, 9, 0)


def test_the_ignored_class_and_padding_are_not_missed() -> None:
    assert count(batches_of([0, 1]), 4, 2, 3).unseen == ()


def test_what_torch_ignores_is_told_apart_where_the_index_is_unknown() -> None:
    found = count(batches_of([0, -100, -100, 8]), 4, None)
    assert (found.outside, found.torch_ignored, found.first_outside) == (3, 2, 8)


def test_padding_at_the_ends_of_rows_is_not_inside() -> None:
    padded = np.array([[0, 5, 6, 0, 0], [0, 0, 7, 8, 9]])
    assert count(batches_of(padded), 10, 0).inside == 0
    assert count(batches_of(np.array([[5, 0, 6, 0, 0]])), 10, 0).inside == 1


def test_a_classifier_that_ignores_one_of_its_classes_fails() -> None:
    report = check_objective(4, 0, RNG.integers(0, 4, 400))
    assert fired(report) == [("FAIL", "TP-OBJ-IGNORE-INDEX-COLLISION")]
    assert report.reports[0].kind == "objective"


def test_a_healthy_objective_passes() -> None:
    report = check_objective(4, -100, RNG.integers(0, 4, 400))
    assert report.worst_verdict is Verdict.PASS
    assert fired(report) == []


def test_a_generator_of_batches_is_read_once_for_targets_and_labels() -> None:
    def batches(shift: int) -> Iterator[Tensor]:
        rows = np.random.default_rng(0).integers(0, 50, (3, 2, 60))
        yield from (Tensor(np.roll(batch, -shift, axis=1)) for batch in rows)

    report = check_objective(50, -100, batches(1), batches(0), loss_shifts=True)
    assert ("FAIL", "TP-OBJ-LABEL-SHIFT-DOUBLE") in fired(report)
    report = check_objective(50, -100, batches(0), batches(0), loss_shifts=True)
    assert report.worst_verdict is Verdict.PASS


IDS = RNG.integers(0, 1000, (4, 80))


def test_aligned_and_shifted_labels_are_told_apart() -> None:
    shifted = np.concatenate([IDS[:, 1:], np.full((4, 1), -100)], axis=1)
    assert align([IDS], [IDS], None).aligned == 4
    assert align([IDS], [shifted], -100).shifted == 4


def test_masked_prompts_do_not_hide_the_arrangement() -> None:
    labels = IDS.copy()
    labels[:, :40] = -100
    assert align([IDS], [labels], -100) == Alignment(
        align([IDS], [labels], -100).positions, 4, 4, 0
    )


def test_rows_of_one_repeated_token_and_short_rows_are_not_compared() -> None:
    same = np.full((2, 80), 7)
    assert align([same, IDS[:, :20]], [same, IDS[:, :20]], None) == Alignment(0, 0, 0, 0)


def test_labels_that_are_no_copy_speak_for_nothing() -> None:
    other = RNG.integers(0, 1000, (4, 80))
    found = align([IDS], [other], None)
    assert (found.rows, found.aligned, found.shifted) == (4, 0, 0)


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="inputs are"):
        align([IDS], [IDS[:, 1:]], None)
