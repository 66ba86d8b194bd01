"""The summary after a bad night: the worst first, nothing hidden, nothing endless."""

from __future__ import annotations

import re

import pytest

from tests.support.report import HOSTILE, finding, hostile, report, series, subject, unreadable
from trainproof.emit.console import LISTED, summary
from trainproof.emit.terminal import cells
from trainproof.model.outcome import Level, Skip
from trainproof.model.report import (
    FailOn,
    NotJudged,
    NotJudgedFile,
    Problem,
    Report,
    Verdict,
)

INFO = finding("TP-THROUGHPUT", Level.INFO, message="2 steps per second.", evidence="20 in 10 s.")
NIGHT = report(
    subject("ok/1"),
    subject("runs/lr_hot", findings=[INFO, finding()], skips={"TP-LR-ZERO": Skip.NEED_ABSENT}),
    unreadable(),
    not_judged=NotJudged({"empty": 1, "not-a-log": 12}, (NotJudgedFile("x.csv", "empty"),)),
)


def text(made: Report, **options: bool | int | FailOn) -> str:
    return summary(made, **options).decode()  # type: ignore[arg-type]


WHOLE = """\
trainproof 1.0.0: FAIL. 3 runs: 1 FAIL, 1 NOT-CHECKED, 1 PASS.

FAIL         runs/lr_hot  █▆▅▄▃▂▁×▁▁        10  TP-NAN: loss is NaN or infinite from step 40 on.
NOT-CHECKED  broken                             not judged: a/log.jsonl could not be read (corrup…
PASS         ok/1         █▆▅▄▃▂▁×▁▁        10  4 of 4 rules checked, none fired above INFO

Findings

runs/lr_hot
  FAIL TP-NAN  loss is NaN or infinite from step 40 on.
       6 of 10 logged values are not finite.
       a/log.jsonl:5  steps 40 to 100

1 INFO finding more: -v tells them.

Not checked: 5 of 12 checks
  ! broken: 'a/log.jsonl' could not be read: corrupt (checksum differs at byte 7); 4 rules
    (TP-NAN, TP-SPIKE, TP-THROUGHPUT, TP-LR-ZERO) were not checked because of it.
        4  a file that may hold what it needs could not be read (4 rules in 1 run)
        1  what it needs is not there (1 rule in 1 run)

Seen and not judged: 13 files
  1 empty, 12 not-a-log
  x.csv: empty

exit code 1: at least one run is FAIL
"""
QUIET = """\
trainproof 1.0.0: FAIL. 3 runs: 1 FAIL, 1 NOT-CHECKED, 1 PASS.

FAIL         runs/lr_hot  █▆▅▄▃▂▁×▁▁        10  TP-NAN: loss is NaN o…
NOT-CHECKED  broken                             not judged: a/log.jso…

exit code 1: at least one run is FAIL
"""


def test_a_small_report_as_a_whole() -> None:
    assert text(NIGHT, width=98) == WHOLE


def test_quiet_is_the_runs_that_did_not_pass_and_the_exit_code() -> None:
    assert text(NIGHT, width=70, quiet=True) == QUIET


def test_quiet_names_what_could_not_be_read() -> None:
    missing = Problem("io", "nowhere", "No such file or directory", fatal=True)
    assert text(report(problems=(missing,)), quiet=True).splitlines()[1:3] == [
        "",
        "  ! 'nowhere' could not be read: io (No such file or directory).",
    ]


def test_verbose_tells_info_findings_too() -> None:
    told = text(NIGHT, verbose=True)
    assert "  INFO TP-THROUGHPUT  2 steps per second.\n       20 in 10 s.\n" in told
    assert "-v tells" not in told


def test_an_empty_report_says_that_nothing_was_judged() -> None:
    assert text(report()) == (
        "trainproof 1.0.0: NOT-CHECKED. 0 runs.\n\n"
        "exit code 2: could not judge: nothing was found that could be judged\n"
    )


def test_an_error_of_the_audit_is_told_first() -> None:
    lines = text(report(error="no such directory: runs")).splitlines()
    assert lines[1] == "The audit itself failed: no such directory: runs"
    assert lines[-1].startswith("exit code 2: could not judge: the audit itself failed")


def test_the_gate_is_that_of_the_caller() -> None:
    warned = report(subject(findings=[finding(level=Level.WARN)]))
    assert text(warned).endswith("exit code 0: no run that was judged is FAIL\n")
    assert text(warned, fail_on=FailOn.WARN).endswith(
        "exit code 1: at least one run is FAIL or WARN\n"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in text(hostile(), width=width, verbose=True).splitlines():
        assert cells(line) <= width or "漢" in line


def test_colours_only_where_they_are_asked_for() -> None:
    assert "\x1b" not in text(hostile())
    colored = text(NIGHT, color=True)
    assert colored.startswith("trainproof 1.0.0: \x1b[31mFAIL\x1b[0m. ")
    assert re.sub(r"\x1b\[\d+m", "", colored) == text(NIGHT)


def test_ascii_terminals_get_ascii() -> None:
    made = summary(NIGHT, ascii=True)
    assert made.isascii()
    assert b"FAIL         runs/lr_hot  #=~-,._x__" in made


def test_five_thousand_runs_are_a_page_and_none_is_uncounted() -> None:
    made = report(
        *(subject(f"ok{n}") for n in range(4_000)),
        *(subject(f"bad{n}", findings=[finding()]) for n in range(600)),
        *(unreadable(f"lost{n}") for n in range(400)),
    )
    told = text(made)
    assert len(told.splitlines()) < 900
    assert "             and 100 more FAIL\n" in told
    assert "             and 350 more NOT-CHECKED\n" in told
    assert "             and 3,980 more PASS\n" in told
    assert "550 more runs with findings: -v or the JSON report tells them." in told
    assert "  ! and 390 more that should have been checked\n" in told
    shown = [line for line in told.splitlines() if line.startswith("PASS ")]
    assert len(shown) == LISTED[Verdict.PASS]
    assert len(text(made, verbose=True).splitlines()) > 5_000


def test_blemishes_and_unknown_names_are_told() -> None:
    cut = Problem("truncated", "a/log.jsonl", "last line is cut", fatal=False, line=12)
    made = subject(problems=[cut], unknown_columns=("foo", "bar"), root="runs")
    told = text(report(made, subject("b", unknown_columns=("foo",))))
    assert (
        "Read with blemishes: 1 place\n  runs/a/log.jsonl:12: truncated: last line is cut\n" in told
    )
    assert "Logged names of unknown meaning, not judged: 2\n  foo, bar\n" in told


def test_long_lists_say_how_much_more_there_is() -> None:
    files = tuple(NotJudgedFile(f"{n}.csv", "empty") for n in range(30))
    made = subject(unknown_columns=tuple(f"c{n:02}" for n in range(30)))
    told = text(report(made, not_judged=NotJudged({"empty": 35}, files, 5)))
    assert told.count(".csv: empty") == 10
    assert "\n  and 25 more\n" in told
    assert "\n  and 20 more\n" in told
    verbose = text(report(made, not_judged=NotJudged({"empty": 35}, files, 5)), verbose=True)
    assert verbose.count(".csv: empty") == 30
    assert "\n  and 5 more\n" in verbose


def test_a_replaced_attempt_is_said_to_be_one() -> None:
    told = text(report(subject(findings=[finding(superseded=True)])))
    assert "step 40 on. (replaced by a later attempt)\n" in told


def test_a_run_without_a_curve_has_a_line_all_the_same() -> None:
    told = text(report(subject(series=(series("lr", role="lr"),))), width=110)
    assert re.search(r"^PASS         a {36}4 of 4 rules checked", told, re.MULTILINE)


def test_where_nothing_has_a_curve_there_is_more_room_for_words() -> None:
    lines = text(report(subject("a/model.pt", series=())), width=100).splitlines()
    assert lines[2] == "PASS         a/model.pt  4 of 4 rules checked, none fired above INFO"


def test_hostile_names_drive_no_terminal() -> None:
    told = text(hostile(), verbose=True)
    assert all(char == "\n" or char.isprintable() for char in told)
    assert not any(line.startswith("::error") for line in told.splitlines())
    runs = [line for line in told.splitlines() if line.startswith("FAIL  ")]
    assert len(runs) == len(HOSTILE)
