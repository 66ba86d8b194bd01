"""Rows that are tokens already: what of them is a target of training."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trainproof.model.dataset import Issue, Spot, Targets

from .places import Issues
from .rows import Fields

IGNORED = -100
"""The target that cross entropy leaves out (PyTorch's ``ignore_index``)."""


class Supervision:
    """Counts targets, and rows that end one with the end of text."""

    def __init__(self, issues: Issues, ends: frozenset[int]) -> None:
        self._issues, self._ends = issues, ends
        self._rows = self._labelled = self._tokens = self._supervised = self._ended = 0
        self._copied = self._other = 0
        self._largest = -1
        self._first: Spot | None = None

    def add(self, row: Fields, spot: Spot) -> None:
        ids, labels = _numbers(row.get("input_ids")), _numbers(row.get("labels"))
        if not ids:
            return
        self._first = self._first or spot
        self._rows += 1
        self._largest = max(self._largest, *ids)
        if min(ids) < 0:
            self._issues.add(Issue.ID_RANGE, spot)
        if labels is not None:
            self._add(ids, labels, spot)

    def _add(self, ids: list[int], labels: list[int], spot: Spot) -> None:
        self._labelled += 1
        self._tokens += len(ids)
        targets = len(labels) - labels.count(IGNORED)
        self._supervised += targets
        if len(labels) != len(ids):
            self._issues.add(Issue.UNEQUAL_LENGTHS, spot)
        if not targets:
            self._issues.add(Issue.ALL_IGNORED, spot)
        elif _copies(ids, labels):
            self._copied += 1
        else:
            self._other += 1
        if not self._ends.isdisjoint(labels):
            self._ended += 1

    def found(self) -> Targets | None:
        """Labels that mostly are not their tokens are of another task: of translation, of tags,
        of classes. Neither their number nor how they end says anything."""
        if self._first is None:
            return None
        found = Targets(self._rows, 0, 0, 0, None, self._largest, self._first)
        if self._other > self._copied:
            return found
        return replace(
            found,
            labelled=self._labelled,
            tokens=self._tokens,
            supervised=self._supervised,
            ended=self._ended if self._ends else None,
        )


def _copies(ids: list[int], labels: list[int]) -> bool:
    """Whether each target is its token, or the next one where labels are shifted already."""
    return any(
        all(label in (IGNORED, token) for label, token in zip(labels, tokens, strict=False))
        for tokens in (ids, ids[1:])
    )


def _numbers(value: Any) -> list[int] | None:
    """A list of integers; None for anything else."""
    if isinstance(value, list) and all(type(one) is int for one in value):
        return value
    return None
