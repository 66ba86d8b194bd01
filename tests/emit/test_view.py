"""The questions that several formats ask of a report."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.report import LOG, RULES, finding, report, series, subject, unreadable
from trainproof.emit import view
from trainproof.model.outcome import Level, Skip
from trainproof.model.report import FailOn, Problem, Report, Verdict


def test_only_line_feeds_are_left_of_what_is_not_printable() -> None:
    assert view.safe("a\nb\tc\x1b[0m\udcff") == "a\nb\\x09c\\x1b[0m\\xff"


@pytest.mark.parametrize(("text", "cut"), [("abc", "abc"), ("abcd", "abcd"), ("abcde", "abc…")])
def test_a_cut_is_visible(text: str, cut: str) -> None:
    assert view.shorten(text, 4) == cut


def test_long_texts_that_differ_at_the_end_stay_different() -> None:
    one, other = (view.distinct("x" * 100 + end, 20) for end in "ab")
    assert len(one) == len(other) == 20
    assert one != other
    assert one.startswith("x" * 11 + "…")
    assert view.distinct("x" * 20, 20) == "x" * 20


@pytest.mark.parametrize(
    ("root", "path", "full"),
    [
        (".", "a/b", "a/b"),
        ("", "", "."),
        ("runs", "a/b", "runs/a/b"),
        ("runs/", ".", "runs"),
        ("/", "a", "/a"),
        ("s3://bucket/x/", "a", "s3://bucket/x/a"),
        ("runs/log.csv", "log.csv", "runs/log.csv"),
        ("log.csv", "log.csv", "log.csv"),
    ],
)
def test_paths_are_spelled_as_the_caller_would(root: str, path: str, full: str) -> None:
    assert view.full_path(root, path) == full


def test_the_worst_runs_come_first() -> None:
    made = report(
        subject("d"),
        unreadable("c"),
        subject("b", findings=[finding(level=Level.WARN)]),
        subject("z", findings=[finding()]),
        subject("a", findings=[finding()]),
    )
    assert [one.id for one in view.ranked(made)] == ["a", "z", "b", "c", "d"]
    assert view.tallied(made) == "5 runs: 2 FAIL, 1 WARN, 1 NOT-CHECKED, 1 PASS"


@pytest.mark.parametrize(
    ("kinds", "told", "noun"),
    [
        ([], "0 runs", "run"),
        (["dataset"], "1 dataset: 1 PASS", "dataset"),
        (["speech", "speech"], "2 speech corpora: 2 PASS", "speech corpus"),
        (["run", "checkpoint", "run"], "2 runs and 1 checkpoint: 3 PASS", "subject"),
    ],
)
def test_subjects_are_called_what_they_are(kinds: list[str], told: str, noun: str) -> None:
    made = report(*(replace(subject(str(n)), kind=kind) for n, kind in enumerate(kinds)))
    assert view.tallied(made) == told
    assert view.noun(made) == noun


def test_the_curve_of_a_run_is_that_of_its_latest_training_loss() -> None:
    kinds = (
        series("accuracy", role="metric"),
        series("loss_cls", component="cls", points=99),
        series("val_loss", split="eval", points=99),
        series("loss", segment=0, points=99),
        series("loss", segment=1, points=5),
    )
    assert view.principal(subject(series=kinds)) is kinds[4]
    assert view.principal(subject(series=kinds[:1])) is kinds[0]
    assert view.principal(subject(series=(series("lr", role="lr"),))) is None


def test_the_headline_is_the_worst_finding_that_stands() -> None:
    found = (
        finding("TP-SPIKE", Level.WARN, message="a spike."),
        finding(message="replaced.", superseded=True),
        finding(message="stands."),
    )
    assert view.headline(subject(findings=found)) == "TP-NAN: stands."


def test_the_headline_of_a_run_without_findings_says_what_it_rests_on() -> None:
    info = finding("TP-THROUGHPUT", Level.INFO)
    skips = {"TP-SPIKE": Skip.NEED_ABSENT}
    passed = subject(findings=[info], skips=skips)
    assert view.headline(passed) == "3 of 4 rules checked, none fired above INFO"
    absent = {rule.id: Skip.NEED_ABSENT for rule in RULES} | {"TP-NAN": Skip.NEED_TOO_SHORT}
    blank = subject(verdict=Verdict.NOT_CHECKED, skips=absent)
    assert view.headline(blank) == "not judged: no rule that could judge it was selected"
    noisy = replace(blank, because="too few points (TP-DIVERGE)")
    assert view.headline(noisy) == "not judged: too few points (TP-DIVERGE)"
    assert view.headline(unreadable()) == "not judged: a/log.jsonl could not be read (corrupt)"


def test_holes_are_grouped_by_what_caused_them() -> None:
    skips = {
        "TP-NAN": Skip.NEED_UNREADABLE,
        "TP-SPIKE": Skip.WORKER_TIMEOUT,
        "TP-LR-ZERO": Skip.WORKER_TIMEOUT,
        "TP-THROUGHPUT": Skip.NEED_ABSENT,
    }
    fatal = Problem("corrupt", LOG.path, "bad", fatal=True)
    made = subject(skips=skips, cited={"TP-NAN": LOG.path}, problems=[fatal])
    found = list(view.holes(report(made)))
    assert [(one.path, one.unreadable, one.rules) for one in found] == [
        (LOG.path, True, ("TP-NAN",)),
        (LOG.path, False, ("TP-SPIKE", "TP-LR-ZERO")),
    ]
    assert found[1].sentence() == (
        "a: 2 rules (TP-SPIKE, TP-LR-ZERO) were not checked: its time limit was reached."
    )


def test_a_sentence_about_many_rules_names_some_and_counts_the_rest() -> None:
    rules = tuple(replace(RULES[0], id=f"TP-{n}") for n in range(11))
    made = subject(rules=rules, skips={rule.id: Skip.WORKER_MEMORY for rule in rules})
    (hole,) = view.holes(report(made))
    assert hole.sentence() == (
        "a: 11 rules (TP-0, TP-1, TP-2, TP-3, TP-4, TP-5, TP-6, TP-7 and 3 more) were not checked:"
        " its memory limit was reached."
    )


FAILED = report(subject(findings=[finding()]))
PASSED = report(subject())


@pytest.mark.parametrize(
    ("made", "fail_on", "meaning"),
    [
        (FAILED, FailOn.FAIL, "exit code 1: at least one run is FAIL"),
        (FAILED, FailOn.WARN, "exit code 1: at least one run is FAIL or WARN"),
        (FAILED, FailOn.NEVER, "exit code 0: verdicts do not count, by the caller's choice"),
        (PASSED, FailOn.FAIL, "exit code 0: no run that was judged is FAIL"),
        (PASSED, FailOn.WARN, "exit code 0: no run that was judged is FAIL or WARN"),
        (PASSED, FailOn.NOT_CHECKED, "exit code 0: every run was judged and is PASS"),
        (
            report(),
            FailOn.FAIL,
            "exit code 2: could not judge: nothing was found that could be judged",
        ),
        (
            report(error="disk full"),
            FailOn.FAIL,
            "exit code 2: could not judge: the audit itself failed: disk full",
        ),
        (
            report(subject(), unreadable()),
            FailOn.FAIL,
            "exit code 2: could not judge: something recognised could not be read, or a check did"
            " not finish",
        ),
    ],
)
def test_the_exit_code_is_given_its_meaning(made: Report, fail_on: FailOn, meaning: str) -> None:
    assert view.meaning(made, fail_on) == meaning
