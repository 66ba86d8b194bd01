"""A rule's public face: everything about it that is data, and the one place prose is made."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec

from .outcome import Evidence, Hit, Level, Value


class SubjectKind(StrEnum):
    """What a rule judges."""

    RUN = "run"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_PAIR = "checkpoint-pair"
    KEPT = "kept-checkpoints"
    PAIR = "pair"
    DATASET = "dataset"
    TOKENIZER = "tokenizer"
    SPEECH = "speech"
    ENVIRONMENT = "environment"
    OBJECTIVE = "objective"
    WATCH = "watch"


class Threshold(msgspec.Struct, frozen=True):
    name: str
    type: str
    default: Value
    unit: str
    doc: str
    ge: float | None = None
    le: float | None = None


class Doc(msgspec.Struct, frozen=True):
    """The five sections every rule must fill."""

    measures: str
    means: str
    does_not_mean: str
    guards: tuple[str, ...]
    references: tuple[str, ...]


class Variant(msgspec.Struct, frozen=True):
    """A declared circumstance in which the rule fires at another level, with its own words."""

    level: Level
    message: str
    evidence: str


class RuleInfo(msgspec.Struct, frozen=True):
    """``message`` says what was found, ``evidence`` cites the numbers; both are templates over
    the measures, the thresholds and ``PLACES``. ``grounds``: a clean outcome of this rule is
    enough to call the subject judged (a PASS needs one)."""

    id: str
    family: str
    title: str
    level: Level
    message: str
    evidence: str
    subject: SubjectKind
    needs: Mapping[str, str]
    measures: Mapping[str, str]
    thresholds: tuple[Threshold, ...]
    doc: Doc
    since: str
    grounds: bool = False
    variants: Mapping[str, Variant] = msgspec.field(default_factory=dict)
    regimes: tuple[str, ...] = ()

    def form(self, variant: str) -> Variant:
        """The level and templates for ``variant`` ("" is the main form)."""
        if not variant:
            return Variant(self.level, self.message, self.evidence)
        return self.variants[variant]


PLACES = frozenset({"artifact", "series", "tensor", "first_step", "last_step", "line"})


@lru_cache(None)
def fields_of(template: str) -> frozenset[str]:
    """Names of the fields a format template uses."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name)


class Prose(msgspec.Struct, frozen=True):
    message: str
    evidence: str


def render(info: RuleInfo, hit: Hit) -> Prose:
    """The only place where a finding becomes sentences."""
    form = info.form(hit.evidence.variant)
    values = _named(hit.evidence, hit.thresholds)
    return Prose(_fill(form.message, values), _fill(form.evidence, values))


def _named(evidence: Evidence, thresholds: Mapping[str, Value]) -> dict[str, Value | None]:
    where = evidence.where
    return {
        **thresholds,
        **evidence.measured,
        "artifact": where.artifact,
        "series": where.series,
        "tensor": where.tensor,
        "first_step": where.first_step,
        "last_step": where.last_step,
        "line": where.line,
    }


class _Formatter(string.Formatter):
    """str.format in which a number that is not finite or not there never breaks the sentence, and
    ``{files:file is|files are}`` says the first for one and the second for any other number."""

    def format_field(self, value: object, format_spec: str) -> str:
        one, choice, more = format_spec.partition("|")
        if choice:
            return one if value == 1 else more
        if value is None:
            return "?"
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
        formatted: str = super().format_field(value, format_spec)
        return formatted


def _fill(template: str, values: Mapping[str, Value | None]) -> str:
    return _Formatter().vformat(template, (), values)
