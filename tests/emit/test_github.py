"""Workflow commands: no name can start one, and a runner drops none."""

from __future__ import annotations

import pytest

from tests.support.report import finding, hostile, many, report, subject, unreadable
from trainproof.emit.github import report_github
from trainproof.model.outcome import Level
from trainproof.model.report import Anchor, Location, Report


def lines(made: Report) -> list[str]:
    return report_github(made).decode().splitlines()


@pytest.mark.parametrize(
    ("level", "command"),
    [(Level.FAIL, "error"), (Level.WARN, "warning"), (Level.INFO, "notice")],
)
def test_a_finding_is_a_command_of_its_level(level: Level, command: str) -> None:
    assert lines(report(subject(findings=[finding(level=level)], root="runs"))) == [
        f"::{command} file=runs/a/log.jsonl,line=5,title=TP-NAN::runs/a: loss is NaN or infinite"
        " from step 40 on.%0A6 of 10 logged values are not finite."
    ]


def test_a_binary_file_has_no_line() -> None:
    made = report(subject(findings=[finding(location=Location("model.pt"))]))
    assert lines(made)[0].startswith("::error file=model.pt,title=TP-NAN::")


def test_a_remote_root_is_shown_at_its_anchor() -> None:
    made = report(
        subject(findings=[finding()], root="s3://b/runs"),
        anchors={"s3://b/runs": Anchor("audit.toml", 3)},
    )
    (line,) = lines(made)
    assert line.startswith("::error file=audit.toml,line=3,title=TP-NAN::s3://b/runs/a: ")


def test_what_should_have_been_checked_is_a_warning() -> None:
    (line,) = lines(report(unreadable()))
    assert line.startswith("::warning file=a/log.jsonl,title=TP-NOT-CHECKED::broken: ")


def test_an_audit_that_failed_is_an_error() -> None:
    assert lines(report(error="disk full")) == [
        "::error title=TP-AUDIT-ERROR::exit code 2: could not judge: the audit itself failed:"
        " disk full"
    ]


def test_nothing_to_say_is_nothing() -> None:
    assert report_github(report(subject())) == b""


def test_ten_of_each_level_and_the_last_counts_the_rest() -> None:
    made = lines(many(100))
    assert len(made) == 30
    assert made[9] == "::error title=trainproof::25 more errors in the report."
    assert made[19] == "::warning title=trainproof::24 more warnings in the report."
    assert made[29] == "::notice title=trainproof::24 more notices in the report."
    assert len(lines(many(30))) == 30
    assert "more" not in report_github(many(30)).decode()


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("50%", "50%25"),
        ("a,b:c", "a%2Cb%3Ac"),
        ("a\r\n::error::b", "a\\x0d%0A%3A%3Aerror%3A%3Ab"),
    ],
)
def test_properties_are_escaped(text: str, spelled: str) -> None:
    made = report(subject(findings=[finding(text, location=Location("x"))]))
    assert lines(made)[0].split("::")[1] == f"error file=x,title={spelled}"


def test_hostile_names_start_no_command() -> None:
    made = lines(hostile())
    assert len(made) == 20
    for line in made:
        assert line.startswith(("::error ", "::warning "))
        assert len(line) < 25_000
