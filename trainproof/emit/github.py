"""Workflow commands: annotations for repositories that have no code scanning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from trainproof.model.outcome import Level
from trainproof.model.report import FailOn, Report
from trainproof.model.text import safe

from .coverage import AUDIT_ERROR, NOT_CHECKED
from .place import Place, place
from .view import by_severity, holes, meaning, name, plural, ranked, shorten

PER_LEVEL = 10
"""Annotations of one level that a runner takes from one step; it drops the rest."""
MESSAGE_CHARS = 1_000
TITLE_CHARS = 120

_COMMANDS = {Level.FAIL: "error", Level.WARN: "warning", Level.INFO: "notice"}


class _Annotation(msgspec.Struct, frozen=True):
    title: str
    message: str
    where: Place | None = None


def report_github(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    """The worst findings and holes as ``::error``, ``::warning`` and ``::notice`` commands.

    At most ``PER_LEVEL`` of each; where there are more, the last one says how many.
    """
    found = _annotations(report, fail_on)
    lines = [line for level in Level for line in _lines(_COMMANDS[level], found[level])]
    return "".join(f"{line}\n" for line in lines).encode()


def _annotations(report: Report, fail_on: FailOn) -> dict[Level, list[_Annotation]]:
    found: dict[Level, list[_Annotation]] = {level: [] for level in Level}
    if report.error is not None:
        found[Level.FAIL].append(_Annotation(AUDIT_ERROR.id, meaning(report, fail_on)))
    for subject in ranked(report):
        for finding in by_severity(subject.findings):
            spot = finding.location
            where = place(report, subject.root, spot.path, spot.line)
            message = f"{name(subject)}: {finding.message}\n{finding.evidence}"
            found[finding.level].append(_Annotation(finding.id, message, where))
    for hole in holes(report):
        root = hole.subject.root if hole.subject else ""
        where = place(report, root, hole.path, hole.line)
        found[Level.WARN].append(_Annotation(NOT_CHECKED.id, hole.sentence(), where))
    return found


def _lines(command: str, found: Sequence[_Annotation]) -> Iterator[str]:
    kept = found if len(found) <= PER_LEVEL else found[: PER_LEVEL - 1]
    for one in kept:
        yield _command(command, one)
    if len(kept) < len(found):
        more = plural(len(found) - len(kept), f"more {command}")
        yield _command(command, _Annotation("trainproof", f"{more} in the report."))


def _command(command: str, annotation: _Annotation) -> str:
    properties = {"title": shorten(annotation.title, TITLE_CHARS)}
    if annotation.where is not None:
        line = annotation.where.line
        placed = {"file": annotation.where.path, **({} if line is None else {"line": str(line)})}
        properties = placed | properties
    spelled = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{command} {spelled}::{_data(shorten(annotation.message, MESSAGE_CHARS))}"


def _data(text: str) -> str:
    """``text`` as the message of a command: a line break would start another command."""
    return safe(text).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
