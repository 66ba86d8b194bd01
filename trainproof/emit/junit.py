"""JUnit XML that Jenkins xUnit's schema accepts and that GitLab and Azure show whole.

One suite for each run, one case for each cell of its matrix. What was not checked is never a
passed case: it is an error where the run was owed the check, and skipped otherwise.

junit_xml holds the cases; the text is written here, because its writer drops what is not
printable, writes attributes that the schema forbids, and takes a failure without a message for
a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec
from junit_xml import TestCase

from trainproof.model.outcome import Level, State
from trainproof.model.report import (
    CheckDetail,
    ExitCode,
    FailOn,
    Finding,
    NotJudged,
    Problem,
    Report,
    RuleEntry,
    SubjectReport,
    Verdict,
    exit_code,
)
from trainproof.model.text import printable, safe

from .view import (
    by_severity,
    cause,
    distinct,
    full_path,
    headline,
    meaning,
    name,
    owed,
    plural,
    shorten,
)

BODY_CHARS = 8_192
NAME_CHARS = 1_024
_GATED = frozenset({FailOn.WARN, FailOn.NOT_CHECKED})
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def report_junit(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    """Strict junit-10.xsd. WARN findings are failures where the gate counts them."""
    rules = {rule.id: rule for rule in report.rules}
    suites = [_audit_suite(report, fail_on)]
    suites += [_Suite(name(s), tuple(_cases(s, rules, fail_on))) for s in report.reports]
    if report.not_judged.counts:
        suites.append(_Suite("trainproof.not-judged", tuple(_unjudged(report.not_judged))))
    invocation = report.invocation
    stamp = _STAMP.match(invocation.started) if invocation else None
    seconds = invocation.seconds if invocation else 0.0
    return "".join(_document(suites, seconds, stamp[0] if stamp else "")).encode()


class _Suite(msgspec.Struct, frozen=True):
    name: str
    cases: tuple[TestCase, ...]

    def counts(self) -> dict[str, int]:
        """Of the elements that are written, so that they cannot differ from them."""
        return {
            "tests": len(self.cases),
            "failures": sum(bool(case.failures) for case in self.cases),
            "errors": sum(bool(case.errors) for case in self.cases),
            "skipped": sum(bool(case.skipped) for case in self.cases),
        }


def _audit_suite(report: Report, fail_on: FailOn) -> _Suite:
    """The audit as a whole: red exactly where nothing else in the file would tell of exit 2."""
    case = TestCase("the audit", "trainproof.audit")
    judged = any(one.verdict is not Verdict.NOT_CHECKED for one in report.heads)
    text = meaning(report, fail_on)
    if report.error is not None:
        case.add_error_info(
            f"the audit itself failed: {report.error}", text, "trainproof.AuditError"
        )
    elif not judged and exit_code(report, fail_on) is ExitCode.CANNOT_JUDGE:
        case.add_error_info("no run was judged", text, "trainproof.NotChecked")
    else:
        case.stdout = text
    return _Suite("trainproof", (case, *_problem_cases("", report.problems)))


def _cases(
    subject: SubjectReport, rules: Mapping[str, RuleEntry], fail_on: FailOn
) -> Iterator[TestCase]:
    fired: dict[str, list[Finding]] = {}
    for finding in by_severity(subject.findings):
        fired.setdefault(finding.id, []).append(finding)
    subject_name = name(subject)
    for id, detail in subject.checks.details.items():
        rule = rules.get(id)
        title, family = (rule.title, rule.family) if rule else ("", "rule")
        case = TestCase(f"{id} {title} [{subject_name}]", f"trainproof.{family}")
        if id in fired:
            _tell(case, subject, fired[id], fail_on)
        elif detail.state == State.NOT_CHECKED:
            _tell_not_checked(case, detail, subject.checks.skipped.get(id, ""))
        yield case
    yield from _problem_cases(subject.root, subject.problems)
    if subject.verdict is Verdict.NOT_CHECKED:
        yield _verdict_case(subject, fail_on)


def _tell(
    case: TestCase, subject: SubjectReport, findings: Sequence[Finding], fail_on: FailOn
) -> None:
    body = "\n\n".join(_block(subject, finding) for finding in findings)
    worst = findings[0]
    if worst.level is Level.FAIL or (worst.level is Level.WARN and fail_on in _GATED):
        case.add_failure_info(worst.message or worst.id, body, worst.id)
    else:
        case.stdout = body


def _block(subject: SubjectReport, finding: Finding) -> str:
    place = full_path(subject.root, finding.location.path)
    if finding.location.line is not None:
        place += f":{finding.location.line}"
    superseded = " (replaced by a later attempt)" if finding.superseded else ""
    lines = (f"{finding.level} {finding.message}{superseded}", finding.evidence, place)
    return "\n".join(map(printable, lines))


def _tell_not_checked(case: TestCase, detail: CheckDetail, reason: str) -> None:
    text = f"not checked: {reason or detail.skip}"
    if owed(detail):
        path = cause(detail)
        case.add_error_info(text, f"{text} ({path})" if path else text, "trainproof.NotChecked")
    else:
        case.add_skipped_info(text, text)


def _problem_cases(root: str, problems: Iterable[Problem]) -> Iterator[TestCase]:
    for number, problem in enumerate(problems, 1):
        path = full_path(root, problem.path)
        case = TestCase(f"reading {number} [{path}]", "trainproof.artifacts")
        text = f"{problem.code}: {problem.detail}" if problem.detail else problem.code
        at = "" if problem.line is None else f":{problem.line}"
        if problem.fatal:
            case.add_error_info(text, f"{text}\n{path}{at}", "trainproof.Unreadable")
        else:
            case.stdout = f"{text}\n{path}{at}"
        yield case


def _verdict_case(subject: SubjectReport, fail_on: FailOn) -> TestCase:
    case = TestCase(f"verdict [{name(subject)}]", "trainproof.audit")
    text = headline(subject)
    if fail_on is FailOn.NOT_CHECKED:
        case.add_failure_info(text, text, str(Verdict.NOT_CHECKED))
    else:
        case.add_skipped_info(text, text)
    return case


def _unjudged(files: NotJudged) -> Iterator[TestCase]:
    named = dict.fromkeys(files.counts, 0)
    for number, file in enumerate(files.files, 1):
        case = TestCase(f"file {number} [{file.path}]", "trainproof.files")
        text = f"not judged: {file.content}" + (f" ({file.detail})" if file.detail else "")
        case.add_skipped_info(text, text)
        named[file.content] = named.get(file.content, 0) + 1
        yield case
    for content, count in sorted(files.counts.items()):
        if count > named[content]:
            case = TestCase(f"more {content}", "trainproof.files")
            text = f"not judged: {plural(count - named[content], 'file')} not named here"
            case.add_skipped_info(text, text)
            yield case


# Writing -----------------------------------------------------------------------------------


def _document(suites: Sequence[_Suite], seconds: float, stamp: str) -> Iterator[str]:
    counts = [suite.counts() for suite in suites]
    total = {key: sum(one[key] for one in counts) for key in ("tests", "failures", "errors")}
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f"<testsuites{_attributes({'name': 'trainproof', **total, 'time': _time(seconds)})}>\n"
    for suite, counted in zip(suites, counts, strict=True):
        attributes: dict[str, str | int] = {
            "name": distinct(suite.name, NAME_CHARS),
            **counted,
            "time": _time(0),
        }
        if stamp:
            attributes["timestamp"] = stamp
        yield f"  <testsuite{_attributes(attributes)}>\n"
        for case in suite.cases:
            yield from _case(case)
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


def _case(case: TestCase) -> Iterator[str]:
    attributes = {
        "name": distinct(case.name, NAME_CHARS),
        "classname": case.classname,
        "time": _time(0),
    }
    inner = [*_told("failure", case.failures), *_told("error", case.errors)]
    inner += _told("skipped", case.skipped)
    if case.stdout:
        inner.append(f"<system-out>{_body(case.stdout)}</system-out>")
    if not inner:
        yield f"    <testcase{_attributes(attributes)}/>\n"
        return
    yield f"    <testcase{_attributes(attributes)}>\n"
    for element in inner:
        yield f"      {element}\n"
    yield "    </testcase>\n"


def _told(tag: str, infos: Iterable[Mapping[str, str | None]]) -> Iterator[str]:
    for info in infos:
        attributes: dict[str, str | int] = {}
        if info.get("type"):
            attributes["type"] = info["type"] or ""
        attributes["message"] = shorten(info["message"] or "", NAME_CHARS)
        yield f"<{tag}{_attributes(attributes)}>{_body(info['output'] or '')}</{tag}>"


def _time(seconds: float) -> str:
    return f"{max(0.0, seconds):.3f}"


def _attributes(values: Mapping[str, str | int]) -> str:
    return "".join(f' {key}="{_attribute(str(value))}"' for key, value in values.items())


_QUOTE = {'"': "&quot;"}


def _attribute(text: str) -> str:
    return escape(printable(text), _QUOTE)


def _body(text: str) -> str:
    """Element text: all that is told, because GitLab shows it and no attribute.

    ``safe`` spells out what XML 1.0 cannot hold; a terminal colour is evidence too."""
    return escape(safe(shorten(text, BODY_CHARS)))
