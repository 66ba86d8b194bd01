"""Reference pages written from declarations: rules, schema, tables of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec
import orjson

from .emit.json import report_schema
from .model.outcome import SKIPS, Level
from .model.report import ExitCode
from .model.rule import RuleInfo
from .rules import REGISTRY, Rule


def explain(rule: Rule) -> str:
    """The page of one rule, as RULES.md and ``trainproof rules explain`` show it."""
    info = rule.info
    parts = [
        f"## {info.id}\n\n**{info.title}.** Level {_levels(info)}. Since {info.since}.",
        f"**Measures.** {info.doc.measures}",
        f"**Means.** {info.doc.means}",
        f"**Does not mean.** {info.doc.does_not_mean}",
        "**Guards against false alarms.**\n\n" + "\n".join(f"- {g}" for g in info.doc.guards),
        "**Needs.** " + "; ".join(info.needs.values()) + "." + _regimes(info),
        f"**Fires, for example, when** {rule.fires.text}. **Silent when** {rule.silent.text}.",
        _thresholds(info),
        "**Cites.** " + "; ".join(f"`{name}`: {doc}" for name, doc in info.measures.items()) + ".",
        _measured(rule),
        "**References.** " + "; ".join(info.doc.references) + ".",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _levels(info: RuleInfo) -> str:
    lower = [f"{form.level} ({name})" for name, form in info.variants.items()]
    return ", ".join([str(info.level), *lower])


def _regimes(info: RuleInfo) -> str:
    return f" Not for: {', '.join(info.regimes)} training." if info.regimes else ""


def _thresholds(info: RuleInfo) -> str:
    if not info.thresholds:
        return ""
    head = "| threshold | default | unit | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(
        f"| `{t.name}` | {t.default} | {t.unit} | {t.doc} |" for t in info.thresholds
    )


# --- measured rates -----------------------------------------------------------------------------


class Alarms(msgspec.Struct, frozen=True):
    """Of one rule on healthy trainings: how many ``runs`` it judged, how many it called FAIL and
    WARN, and the upper ends of the exact 95 % intervals of those shares."""

    runs: int
    fail: int
    fail_upper: float
    warn: int
    warn_upper: float


class MeasuredRule(msgspec.Struct, frozen=True):
    """``held_out``: on the kinds of training that were set aside before any result was seen.
    ``thresholds``: the fingerprint of the rule when it was measured."""

    all: Alarms
    held_out: Alarms
    thresholds: str


class Calibration(msgspec.Struct, frozen=True):
    """What ``benchmarks.calibration`` measured, on ``date``; rules by id."""

    date: str
    rules: Mapping[str, MeasuredRule]


@cache
def calibration() -> Calibration:
    """The packaged measurement, read when it is first asked for."""
    from importlib.resources import files  # noqa: PLC0415 - 15 ms, needed for pages only

    import msgspec  # noqa: PLC0415

    content = (files(__package__) / "data" / "calibration.json").read_bytes()
    return msgspec.json.decode(content, type=Calibration)


def fingerprint(rules: Mapping[str, Rule]) -> str:
    """A hash of the ids and of the defaults of all thresholds, whatever the order."""
    from hashlib import sha256  # noqa: PLC0415

    lines = sorted(
        f"{id} {threshold.name}={threshold.default!r}"
        for id, rule in rules.items()
        for threshold in rule.info.thresholds
    )
    return sha256("\n".join([*sorted(rules), *lines]).encode()).hexdigest()[:16]


def _measured(rule: Rule) -> str:
    found = calibration().rules.get(rule.info.id)
    if found is None:
        return ""
    if not found.all.runs:
        return "**Measured.** Not yet: no training of the calibration logs what it needs."
    known = found.thresholds == fingerprint({rule.info.id: rule})
    earlier = "" if known else ", with other thresholds than these"
    aside = found.held_out
    apart = f"; on kinds of training set aside {_alarms(rule, aside)}" if aside.runs else ""
    return (
        f"**Measured.** On healthy trainings ({calibration().date}{earlier}):"
        f" {_alarms(rule, found.all)}{apart}. A bound is the upper end of the 95 % interval."
    )


def _alarms(rule: Rule, alarms: Alarms) -> str:
    """False alarms at the levels that the rule has."""
    levels = {rule.info.level, *(form.level for form in rule.info.variants.values())}
    shares = {
        Level.FAIL: (alarms.fail, alarms.fail_upper),
        Level.WARN: (alarms.warn, alarms.warn_upper),
    }
    parts = [
        f"{count} {level} (at most {upper:.2%})"
        for level, (count, upper) in shares.items()
        if level in levels
    ]
    return f"{' and '.join(parts) or 'notes only'} of {alarms.runs} judged"


# --- pages and tables ---------------------------------------------------------------------------


def rules_md() -> str:
    table = "\n".join(
        f"| [{id}](#{id.lower()}) | {r.info.level} | {r.info.title} |" for id, r in REGISTRY.items()
    )
    pages = "\n".join(explain(rule) for rule in REGISTRY.values())
    return (
        "<!-- Generated by trainproof.docgen. Do not edit. -->\n\n# Rules\n\n"
        f"| id | level | title |\n|---|---|---|\n{table}\n\n{pages}"
    )


def report_schema_text() -> str:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(report_schema(), option=options).decode()


def exit_codes_table() -> str:
    meanings = {
        ExitCode.OK: "judged, no FAIL (warnings are possible)",
        ExitCode.FAIL: "at least one FAIL about what was judged, or what `--fail-on` names",
        ExitCode.CANNOT_JUDGE: "could not judge: nothing was judged, or something recognised could"
        " not be read or finished; also usage and internal errors. Never a statement about what was"
        " to be judged",
    }
    rows = "\n".join(f"| {int(code)} | {text} |" for code, text in meanings.items())
    return f"| code | meaning |\n|---|---|\n{rows}\n"


def skips_table() -> str:
    rows = "\n".join(
        f"| `{skip}` | `{info.public}` | {info.owner} | {info.reason} |"
        for skip, info in SKIPS.items()
    )
    return f"| skip | public state | owner | reason |\n|---|---|---|---|\n{rows}\n"
