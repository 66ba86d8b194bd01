"""JUnit XML that is valid for the strictest consumer, and red exactly where the exit code is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lxml import etree

from tests.support.report import (
    HOSTILE,
    LOG,
    RULES,
    finding,
    hostile,
    many,
    report,
    subject,
    unreadable,
)
from trainproof.emit.junit import BODY_CHARS, report_junit
from trainproof.model.outcome import Level, Skip
from trainproof.model.report import (
    ExitCode,
    FailOn,
    Invocation,
    Location,
    NotJudged,
    NotJudgedFile,
    Problem,
    Report,
    Verdict,
    exit_code,
)

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "data" / "junit-10.xsd"))
SHORT = subject(
    "short",
    Verdict.NOT_CHECKED,
    skips={rule.id: Skip.NEED_TOO_SHORT for rule in RULES},
    because="too few points",
)
WARNED = subject("warned", findings=[finding("TP-SPIKE", Level.WARN)])
CRASHED = subject("crashed", skips={"TP-SPIKE": Skip.WORKER_CRASHED})
LOST = Problem("io", "locked", "Permission denied", fatal=True)


def tree_of(made: Report, fail_on: FailOn = FailOn.FAIL) -> etree._Element:
    """The document, which is valid and counts what is in it."""
    root = etree.fromstring(report_junit(made, fail_on))
    SCHEMA.assertValid(root)
    for element in (root, *root):
        counted = Counter(child.tag for child in element.iter("failure", "error", "skipped"))
        assert int(element.get("tests", "")) == len(list(element.iter("testcase")))
        assert int(element.get("failures", "")) == counted["failure"]
        assert int(element.get("errors", "")) == counted["error"]
        assert int(element.get("skipped", counted["skipped"])) == counted["skipped"]
    return root


def case_of(made: Report, name: str, fail_on: FailOn = FailOn.FAIL) -> etree._Element:
    (case,) = (c for c in tree_of(made, fail_on).iter("testcase") if c.get("name") == name)
    return case


def is_red(made: Report, fail_on: FailOn) -> bool:
    root = tree_of(made, fail_on)
    return int(root.get("failures", "")) + int(root.get("errors", "")) > 0


def test_one_suite_for_each_run_and_one_case_for_each_rule() -> None:
    root = tree_of(report(subject("b"), subject("a", root="runs")))
    assert [suite.get("name") for suite in root] == ["trainproof", "b", "runs/a"]
    assert [(case.get("classname"), case.get("name")) for case in root[1]] == [
        ("trainproof.finite", "TP-NAN What TP-NAN finds [b]"),
        ("trainproof.shape", "TP-SPIKE What TP-SPIKE finds [b]"),
        ("trainproof.speed", "TP-THROUGHPUT What TP-THROUGHPUT finds [b]"),
        ("trainproof.schedule", "TP-LR-ZERO What TP-LR-ZERO finds [b]"),
    ]
    assert all(len(case) == 0 and case.get("time") == "0.000" for case in root[1])


def test_a_fail_is_a_failure_with_its_evidence_and_its_place_as_text() -> None:
    made = report(subject(findings=[finding(), finding(series="val", superseded=True)]))
    (failure,) = case_of(made, "TP-NAN What TP-NAN finds [a]")
    assert failure.tag == "failure"
    assert failure.attrib == {
        "type": "TP-NAN",
        "message": "loss is NaN or infinite from step 40 on.",
    }
    assert failure.text == (
        "FAIL loss is NaN or infinite from step 40 on.\n"
        "6 of 10 logged values are not finite.\n"
        "a/log.jsonl:5\n\n"
        "FAIL loss is NaN or infinite from step 40 on. (replaced by a later attempt)\n"
        "6 of 10 logged values are not finite.\n"
        "a/log.jsonl:5"
    )


@pytest.mark.parametrize(
    ("fail_on", "tag"),
    [
        (FailOn.FAIL, "system-out"),
        (FailOn.NEVER, "system-out"),
        (FailOn.WARN, "failure"),
        (FailOn.NOT_CHECKED, "failure"),
    ],
)
def test_a_warning_fails_where_the_gate_counts_it(fail_on: FailOn, tag: str) -> None:
    (told,) = case_of(report(WARNED), "TP-SPIKE What TP-SPIKE finds [warned]", fail_on)
    assert told.tag == tag
    assert (told.text or "").startswith("WARN loss is NaN")


def test_an_info_never_fails() -> None:
    made = report(subject(findings=[finding("TP-THROUGHPUT", Level.INFO)]))
    (told,) = case_of(made, "TP-THROUGHPUT What TP-THROUGHPUT finds [a]", FailOn.NOT_CHECKED)
    assert told.tag == "system-out"


@pytest.mark.parametrize("skip", [Skip.NEED_ABSENT, Skip.DISABLED, Skip.UNDECIDED, Skip.REGIME])
def test_what_does_not_apply_is_skipped_with_the_reason(skip: Skip) -> None:
    made = report(subject(skips={"TP-NAN": skip}))
    (told,) = case_of(made, "TP-NAN What TP-NAN finds [a]")
    assert told.tag == "skipped"
    assert told.text == told.get("message")
    assert (told.text or "").startswith("not checked: ")


@pytest.mark.parametrize("skip", [Skip.WORKER_CRASHED, Skip.CHECKER_FAILED, Skip.NEED_UNREADABLE])
def test_what_should_have_been_checked_is_an_error(skip: Skip) -> None:
    made = report(subject(skips={"TP-NAN": skip}, cited={"TP-NAN": LOG.path}))
    (told,) = case_of(made, "TP-NAN What TP-NAN finds [a]")
    assert (told.tag, told.get("type")) == ("error", "trainproof.NotChecked")
    assert (told.text or "").endswith("(a/log.jsonl)")


def test_an_unreadable_file_is_an_error_of_its_own() -> None:
    (told,) = case_of(report(unreadable()), "reading 1 [a/log.jsonl]")
    assert (told.tag, told.get("type")) == ("error", "trainproof.Unreadable")
    assert told.text == "corrupt: checksum differs at byte 7\na/log.jsonl"


def test_a_blemish_is_told_and_passes() -> None:
    cut = Problem("truncated", LOG.path, "last line is cut", fatal=False, line=12)
    (told,) = case_of(report(subject(problems=[cut])), "reading 1 [a/log.jsonl]")
    assert (told.tag, told.text) == ("system-out", "truncated: last line is cut\na/log.jsonl:12")


def test_a_run_that_was_not_judged_is_no_pass() -> None:
    (told,) = case_of(report(SHORT), "verdict [short]")
    assert (told.tag, told.text) == ("skipped", "not judged: too few points")
    (told,) = case_of(report(SHORT), "verdict [short]", FailOn.NOT_CHECKED)
    assert told.tag == "failure"


def test_files_that_were_not_judged_are_skipped_and_counted() -> None:
    files = NotJudged(
        {"empty": 2, "not-a-log": 40}, (NotJudgedFile("x.csv", "empty", "0 bytes"),), 1
    )
    suite = tree_of(report(subject(), not_judged=files))[-1]
    assert [(case.get("name"), case[0].tag, case[0].text) for case in suite] == [
        ("file 1 [x.csv]", "skipped", "not judged: empty (0 bytes)"),
        ("more empty", "skipped", "not judged: 1 file not named here"),
        ("more not-a-log", "skipped", "not judged: 40 files not named here"),
    ]


def test_an_audit_that_failed_is_an_error() -> None:
    (told,) = case_of(report(subject(), error="disk full"), "the audit")
    assert (told.tag, told.get("type")) == ("error", "trainproof.AuditError")
    assert told.get("message") == "the audit itself failed: disk full"


@pytest.mark.parametrize("fail_on", [FailOn.FAIL, FailOn.WARN, FailOn.NOT_CHECKED])
@pytest.mark.parametrize(
    "made",
    [
        report(),
        report(subject()),
        report(subject(findings=[finding()])),
        report(WARNED),
        report(SHORT),
        report(SHORT, subject()),
        report(CRASHED),
        report(unreadable(), subject()),
        report(subject(), error="disk full"),
        report(subject(), problems=(LOST,)),
    ],
)
def test_it_is_red_exactly_where_the_exit_code_is_not_0(made: Report, fail_on: FailOn) -> None:
    assert is_red(made, fail_on) == (exit_code(made, fail_on) is not ExitCode.OK)


def test_times_have_three_decimals_and_the_stamp_no_zone() -> None:
    made = report(subject(), invocation=Invocation("2026-01-02T03:04:05.678Z", 12.34567))
    root = tree_of(made)
    assert root.get("time") == "12.346"
    assert root[0].get("timestamp") == "2026-01-02T03:04:05"
    assert tree_of(report(subject()))[0].get("timestamp") is None


def test_hostile_names_are_spelled_and_valid() -> None:
    text = report_junit(hostile()).decode()
    tree_of(hostile())
    assert "lone\\xffbyte and \\ud800half" in text
    assert "\\x1b[31mred" in text
    assert "cdata ]]&gt; end" in text
    assert "]]>" not in text


def test_the_cases_of_a_suite_have_different_names() -> None:
    for suite in tree_of(hostile()):
        names = [case.get("name") for case in suite]
        assert len(set(names)) == len(names)


def test_a_failure_without_words_is_a_failure() -> None:
    made = report(subject(findings=[finding(message="", evidence="")]))
    (told,) = case_of(made, "TP-NAN What TP-NAN finds [a]")
    assert (told.tag, told.get("message")) == ("failure", "TP-NAN")


def test_long_names_stay_different_and_long_bodies_are_cut() -> None:
    made = report(*(subject("l" * 10_000 + str(n), findings=[finding()]) for n in range(3)))
    names = [case.get("name") or "" for case in tree_of(made).iter("testcase")]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) == 1_024
    long = finding(evidence="e" * 100_000, location=Location("x"))
    (told,) = case_of(report(subject(findings=[long])), "TP-NAN What TP-NAN finds [a]")
    assert len(told.text or "") == BODY_CHARS
    assert (told.text or "").endswith("…")


def test_many_findings_of_a_rule_are_one_case() -> None:
    root = tree_of(many(5_001))
    assert root.get("tests") == str(1 + 50 * len(RULES))
    assert root.get("failures") == "50"


def test_every_hostile_name_is_there() -> None:
    assert len(tree_of(hostile())) == 1 + len(HOSTILE)
