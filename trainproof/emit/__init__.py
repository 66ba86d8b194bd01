"""Emitters: pure functions from the finished report to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from trainproof.model.report import FailOn, Report

__all__ = ["EMITTERS", "Emitter"]


class Emitter(Protocol):
    """Same report and same gate, same bytes: UTF-8, ended by a line feed."""

    def __call__(self, report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes: ...


# Each imports its library when it is called: a run that writes no SARIF does not wait for it.


def _json(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .json import report_json  # noqa: PLC0415

    return report_json(report)


def _sarif(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .sarif import report_sarif  # noqa: PLC0415

    return report_sarif(report, fail_on)


def _junit(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .junit import report_junit  # noqa: PLC0415

    return report_junit(report, fail_on)


def _markdown(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .markdown import report_markdown  # noqa: PLC0415

    return report_markdown(report, fail_on)


def _html(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .html import report_html  # noqa: PLC0415

    return report_html(report, fail_on)


def _github(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    from .github import report_github  # noqa: PLC0415

    return report_github(report, fail_on)


EMITTERS: Mapping[str, Emitter] = {
    "json": _json,
    "sarif": _sarif,
    "junit": _junit,
    "markdown": _markdown,
    "html": _html,
    "github": _github,
}
"""Format name to the function that writes it."""
