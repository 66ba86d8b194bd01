"""The full report of a run, and what a pass cannot tell."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tests.support.report import LOG, finding, report, series, subject, unreadable
from trainproof.emit.doctor import LIMITS, PASSED_IN_FULL, doctor
from trainproof.model.outcome import Skip
from trainproof.model.report import Application, FailOn, Problem, Report, RewindEntry, Segment


def text(made: Report) -> str:
    return doctor(made, width=100).decode()


def test_a_run_as_a_whole() -> None:
    made = subject(
        "a",
        findings=[finding()],
        skips={"TP-SPIKE": Skip.NEED_ABSENT, "TP-LR-ZERO": Skip.NEED_ABSENT},
        root="runs",
        segments=(Segment(0, 10, 60, superseded=True), Segment(1, 10, 100)),
        rewinds=(
            RewindEntry(LOG.path, 60, 10, resume=False, line=7),
            RewindEntry(LOG.path, 100, 10, resume=False, line=17, counted_as=110),
        ),
        series=(
            series(),
            series("val_loss", split="eval", segment=1, nonfinite=2, also_in=("a/tb",)),
        ),
        facts={"seed": 42, "framework": "hf"},
        unknown_columns=("foo",),
        problems=[Problem("truncated", LOG.path, "last line is cut", fatal=False, line=12)],
    )
    head, rest = text(report(made)).split("What a PASS cannot tell", 1)
    assert (
        head
        == """\
trainproof 1.0.0: 1 run: 1 FAIL.

────────────────────────────────────────────────────────────────────────────────────────────────────
FAIL  runs/a

Files
  a/log.jsonl: jsonl, log, 1,234 bytes, read
  ! a/log.jsonl:12: blemish: truncated: last line is cut

Attempts
  1: steps 10 to 60, replaced by a later one
  2: steps 10 to 100
  a/log.jsonl:7: started over at step 10 after step 60
  a/log.jsonl:17: counted from step 10 again (taken for 110) after step 100

Declared by the run
  framework=hf, seed=42

Logged names of unknown meaning, not judged
  foo

Series
  name      role        split  points      first       last      least   greatest  curve
  loss      loss        train      10          3       1.25       1.25          3  █▆▅▄▃▂▁×▁▁
            steps 10 to 100; a/log.jsonl
  val_loss  loss        eval       10          3       1.25       1.25          3  █▆▅▄▃▂▁×▁▁
            steps 10 to 100; attempt 2; 2 not finite; also in a/tb; a/log.jsonl

Findings
  FAIL TP-NAN  loss is NaN or infinite from step 40 on.
       6 of 10 logged values are not finite.
       runs/a/log.jsonl:5  steps 40 to 100

Rules: 2 of 4 checked
  fired  TP-NAN  What TP-NAN finds
      loss: points=10
  clean  TP-THROUGHPUT  What TP-THROUGHPUT finds
      loss: points=10
  not checked, what it needs is not there: TP-SPIKE, TP-LR-ZERO

"""
    )
    assert rest.endswith("\n\nexit code 1: at least one run is FAIL\n")


def test_it_ends_with_what_a_pass_cannot_tell() -> None:
    told = " ".join(text(report(subject())).split())
    assert told.endswith(f"{LIMITS} exit code 0: no run that was judged is FAIL")


def test_the_worst_run_is_first_and_an_unreadable_one_is_told_in_full() -> None:
    told = text(report(subject("ok"), unreadable(), subject("bad", findings=[finding()])))
    assert told.index("FAIL  bad") < told.index("NOT-CHECKED  broken") < told.index("PASS  ok")
    assert "  ! a/log.jsonl: could not be read: corrupt: checksum differs at byte 7\n" in told
    assert "Rules: 0 of 4 checked\n" in told


def test_of_many_runs_that_passed_most_are_a_line_each() -> None:
    told = text(report(*(subject(f"r{n:03}") for n in range(300))))
    assert told.count("\nFiles\n") == PASSED_IN_FULL
    assert "280 more runs with the verdict PASS\n" in told
    assert "  r020: 4 of 4 rules checked, none fired above INFO\n" in told
    assert told.count(": 4 of 4 rules checked") == 200
    assert "  and 80 more\n" in told


def test_many_applications_of_a_rule_are_counted() -> None:
    made = subject()
    detail = made.checks.details["TP-NAN"]
    clean = detail.applications[0]
    absent = Application("not-checked", "x", 0, "need-too-short", {"points": 1})
    again = msgspec.structs.replace(clean, segment=1)
    several = msgspec.structs.replace(detail, applications=(*[again] * 8, absent))
    checks = replace(made.checks, details={**made.checks.details, "TP-NAN": several})
    told = text(report(replace(made, checks=checks)))
    assert "      loss (attempt 2): points=10\n" in told
    assert "      and 2 more\n      not applicable to 1 more\n" in told


def test_an_error_of_the_audit_is_told_first() -> None:
    lines = text(report(error="no such directory: runs")).splitlines()
    assert lines[:2] == [
        "trainproof 1.0.0: 0 runs.",
        "The audit itself failed: no such directory: runs",
    ]


def test_the_gate_is_that_of_the_caller() -> None:
    made = doctor(report(subject(findings=[finding()])), fail_on=FailOn.NEVER)
    assert made.endswith(b"exit code 0: verdicts do not count, by the caller's choice\n")
