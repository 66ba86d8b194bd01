"""The public report of a subject, made where it was judged, and checked where it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cache

import msgspec

from trainproof.model.artifact import Kind, Run
from trainproof.model.encoding import encoded
from trainproof.model.report import EncodedSubject, head_of
from trainproof.model.rule import RuleInfo, SubjectKind
from trainproof.model.text import printable
from trainproof.model.wire import FrameError, RunResult, Settings, Task
from trainproof.rules import REGISTRY

from .publish import has_subject, subject_report

_ROWS = {
    SubjectKind.RUN: frozenset({SubjectKind.RUN, SubjectKind.PAIR, SubjectKind.WATCH}),
    SubjectKind.CHECKPOINT: frozenset({SubjectKind.CHECKPOINT, SubjectKind.CHECKPOINT_PAIR}),
    SubjectKind.DATASET: frozenset({SubjectKind.DATASET, SubjectKind.TOKENIZER}),
}
"""Subjects that rules about several kinds are applied to."""


def of_kinds(kinds: Set[SubjectKind]) -> dict[str, RuleInfo]:
    """The rules about subjects of these kinds, by id."""
    return {id: rule.info for id, rule in REGISTRY.items() if rule.info.subject in kinds}


@cache
def matrix(
    subject: SubjectKind, kinds: frozenset[SubjectKind], keeps: bool = False
) -> Mapping[str, RuleInfo]:
    """The rules that a subject gets a cell of in an audit with rules of ``kinds``. ``keeps``: it
    is a run that keeps checkpoints."""
    rows = _ROWS.get(subject, frozenset({subject})) & kinds
    return of_kinds(rows | {SubjectKind.KEPT} if keeps else rows)


def told(task: Task, result: RunResult, settings: Settings) -> RunResult:
    """The result as it is told to who asked: with its report, where reports are made of it."""
    if not settings.kinds:
        return result
    report = None
    if has_subject(result):
        subject = subject_report(task.run, result, _rules(task, settings), task.listed)
        report = encoded(subject, published=True)
    return RunResult(
        cells=(),
        unjudged=result.unjudged,
        baseline_faults=result.baseline_faults,
        kept=result.kept,
        report=report,
        parts=result.parts,
        strangers=result.strangers,
    )


def checked(task: Task, result: RunResult, settings: Settings) -> RunResult:
    """A result from another process: one cell for each rule asked for, or a report that is JSON
    and what its head says; without one, all files are named as not judged. Raises FrameError."""
    if not settings.kinds:
        if tuple([cell.rule for cell in result.cells]) != settings.rules_of(task):
            raise FrameError("cells are not those asked for")
    elif result.report is not None:
        _check(result.report, task.run, len(_rules(task, settings)))
    elif not _is_accounted_for(task.run, result):
        raise FrameError("neither a report nor why there is none")
    return result


def _is_accounted_for(run: Run, result: RunResult) -> bool:
    logs = {one.path for one in run.artifacts if one.kind is not Kind.CONFIG}
    return bool(run.artifacts) and logs <= {file.path for file in result.unjudged}


def _check(report: EncodedSubject, run: Run, cells: int) -> None:
    try:
        head = head_of(report.text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(str(error)) from None
    about = head.id, head.kind, head.root, head.checks.coverage.total
    due = printable(run.id), str(run.subject), printable(run.root), cells
    if head != report.head or about != due:
        raise FrameError("the report is not that of the task")


def _rules(task: Task, settings: Settings) -> Mapping[str, RuleInfo]:
    return matrix(task.run.subject, settings.kinds, bool(task.listed))
