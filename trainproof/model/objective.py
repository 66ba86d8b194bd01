"""What was counted of the targets that a loss is given, beside what the loss and the output layer
are declared to be. Counts only: no target is kept."""

from __future__ import annotations

import msgspec

TORCH_IGNORES = -100
"""``ignore_index`` of torch's cross entropy where nobody says otherwise."""


class Targets(msgspec.Struct, frozen=True):
    """A sample of targets. ``classes``: targets that are a class and that the loss sees;
    ``seen``: different classes among them; ``rarest``: targets of the rarest class seen.

    ``unseen``: the first classes that are no target (ignored ones left out), ``missing`` how many.
    ``masked``: targets equal to ``ignore_index``; ``inside``: those of them that stand between
    other targets of their row, where no padding stands. ``outside``: targets that are
    neither a class nor ``ignore_index``, ``torch_ignored`` of them -100; ``first_outside`` is
    the first of the others.
    """

    total: int
    classes: int
    seen: int
    rarest: int
    missing: int
    unseen: tuple[int, ...]
    masked: int
    inside: int
    outside: int
    torch_ignored: int
    first_outside: int | None


class Alignment(msgspec.Struct, frozen=True):
    """Labels beside the inputs of the same rows, at positions where the two hypotheses differ:
    the label is not ignored, and the next input differs from this one.

    ``positions`` were compared in ``rows`` rows that had enough of them: in ``aligned`` rows
    the labels are the inputs, in ``shifted`` rows the inputs one position later.
    """

    positions: int
    rows: int
    aligned: int
    shifted: int


class Objective(msgspec.Struct, frozen=True):
    """``classes``: of the output layer. ``ignore_index``: the target that the loss leaves out,
    None where nobody said. ``padding``: the class that is left out on purpose. ``complete``:
    the targets are all of the training data. ``loss_shifts``: whether the loss scores position
    i against label i + 1; None where that is not known.
    """

    classes: int
    ignore_index: int | None = None
    padding: int | None = None
    complete: bool = False
    loss_shifts: bool | None = None
    targets: Targets | None = None
    alignment: Alignment | None = None
