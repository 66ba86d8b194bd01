"""A job summary in which nothing from a log or a file name is markup."""

from __future__ import annotations

import html
import re

import pytest

from tests.support.report import HOSTILE, RULES, finding, hostile, report, subject, unreadable
from trainproof.emit.markdown import MAX_BYTES, report_markdown
from trainproof.emit.view import shorten
from trainproof.model.outcome import Level, Skip
from trainproof.model.report import FailOn, NotJudged
from trainproof.model.text import printable


def test_a_small_report_as_a_whole() -> None:
    made = report(
        subject("ok"),
        subject(
            "runs/lr_hot",
            findings=[finding(), finding("TP-SPIKE", Level.WARN, superseded=True)],
            skips={"TP-LR-ZERO": Skip.NEED_ABSENT},
        ),
        unreadable(),
        not_judged=NotJudged({"empty": 1, "not-a-log": 12}),
    )
    assert (
        report_markdown(made).decode()
        == """\
## trainproof: FAIL

3 runs: 1 FAIL, 1 NOT-CHECKED, 1 PASS.

| Verdict | Run | Curve | Points | Headline |
|---|---|---|--:|---|
| **FAIL** | <code>runs/lr&#95;hot</code> | <code>loss</code> █▆▅▄▃▂▁×▁▁ | 10 | TP-NAN: loss is \
NaN or infinite from step 40 on. |
| **NOT-CHECKED** | <code>broken</code> |  |  | not judged: a/log.jsonl could not be \
read (corrupt) |
| **PASS** | <code>ok</code> | <code>loss</code> █▆▅▄▃▂▁×▁▁ | 10 | 4 of 4 rules checked, none \
fired above INFO |

### Findings

#### <code>runs/lr&#95;hot</code>

- **FAIL** <code>TP-NAN</code> loss is NaN or infinite from step 40 on.
  <br>6 of 10 logged values are not finite.
  <br><code>a/log.jsonl:5</code>
- **WARN** <code>TP-SPIKE</code> loss is NaN or infinite from step 40 on. *(replaced by a later \
attempt)*
  <br>6 of 10 logged values are not finite.
  <br><code>a/log.jsonl:5</code>

### Should have been checked and was not

- broken: 'a/log.jsonl' could not be read: corrupt (checksum differs at byte 7); 4 rules (TP-NAN, \
TP-SPIKE, TP-THROUGHPUT, TP-LR-ZERO) were not checked because of it.

### Coverage

7 of 12 checks made (58%).
- 4 not made: a file that may hold what it needs could not be read
- 1 not made: what it needs is not there

13 files seen and not judged: 1 empty, 12 not-a-log.

Exit code 1: at least one run is FAIL.
"""
    )


def test_an_empty_report_says_that_nothing_was_judged() -> None:
    assert report_markdown(report()).decode() == (
        "## trainproof: NOT-CHECKED\n\n0 runs.\n\n### Coverage\n\n0 of 0 checks made.\n\n"
        "Exit code 2: could not judge: nothing was found that could be judged.\n"
    )


def test_an_error_of_the_audit_is_the_headline() -> None:
    made = report_markdown(report(error="no such directory: *runs*")).decode()
    assert made.startswith("## trainproof: the audit itself failed\n\n")
    assert "**no such directory: &#42;runs&#42;**" in made


def test_the_meaning_of_the_exit_code_is_that_of_the_gate() -> None:
    made = report_markdown(report(subject(findings=[finding()])), FailOn.NEVER).decode()
    assert made.endswith("Exit code 0: verdicts do not count, by the caller's choice.\n")


def test_runs_that_passed_are_capped_and_counted() -> None:
    made = report(*(subject(f"r{n}") for n in range(5_000)), subject("bad", findings=[finding()]))
    text = report_markdown(made).decode()
    assert text.count("| **PASS** |") == 99
    assert text.count("| **FAIL** |") == 1
    assert "\n4,901 more runs with the verdict PASS.\n" in text


def test_it_keeps_within_what_github_takes_and_counts_what_is_cut() -> None:
    long = [finding(series=f"s{n}", evidence="漢" * 1_000) for n in range(20)]
    made = report(*(subject(f"r{n}", findings=long) for n in range(100)))
    data = report_markdown(made)
    assert MAX_BYTES - 8_192 < len(data) <= MAX_BYTES
    text = data.decode()
    assert re.search(r"\n[0-9,]+ lines cut here; the JSON report is complete\.\n", text)
    assert text.endswith("Exit code 1: at least one run is FAIL.\n")


TAGS = re.compile(r"</?code>|<br>")


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_no_name_is_markup(number: int) -> None:
    name = HOSTILE[number]
    made = report(
        subject(name, findings=[finding(message=name, evidence=name, series=name)]),
        rules=RULES,
        error=name,
    )
    text = report_markdown(made).decode()
    (row,) = (line for line in text.splitlines() if line.startswith("| **FAIL**"))
    assert row.count("|") == 6
    told = [line[6:] for line in text.splitlines() if line.startswith("  <br>")]
    assert len(told) == 2
    assert re.search(r"[\\`*_\[\]<>|~@$!{}]", told[0]) is None
    assert "://" not in told[0]
    assert "www." not in told[0]
    assert TAGS.sub("", text).count("<") == 0
    assert html.unescape(told[0]) == shorten(printable(name), 400)


def test_hostile_names_keep_the_shape_of_the_page() -> None:
    text = report_markdown(hostile()).decode()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == 4 + len(HOSTILE)
    assert "\n::error" not in text
