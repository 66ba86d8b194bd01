"""From runs and judgements to counts: what the report shows and the check compares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trainproof.rules import REGISTRY

from .catalogue import WORKLOADS, held_out
from .faults import FAULTS
from .judging import PEER_DECIDED, Judgement, Judgements
from .outcomes import Outcome
from .runs import CLEAN, Run
from .statistics import Rate

GROUNDS = {id for id, rule in REGISTRY.items() if rule.info.grounds} | {PEER_DECIDED}
"""What a run that nothing flagged needs one decision of to be called PASS."""


@dataclass(frozen=True, slots=True)
class RuleRates:
    """Of one rule on healthy runs. ``decided``: how many it judged, the rest is NOT-CHECKED."""

    rule: str
    runs: int
    decided: int
    fail: int
    warn: int
    info: int


@dataclass(frozen=True, slots=True)
class Detection:
    """Of one fault on harmed runs: how many got a FAIL, how many at least a WARN or a rule that
    states the fact, and how many of the others a PASS and not a NOT-CHECKED."""

    runs: int
    fail: int
    flagged: int
    passed: int

    @property
    def rate(self) -> Rate:
        return Rate(self.flagged, self.runs)


@dataclass(frozen=True, slots=True)
class Results:
    """Runs with what was said of them. ``peer``: what 0.22 said, where it was asked."""

    runs: Sequence[Run]
    judged: Judgements
    peer: Judgements | None = None

    def of(self, *, aside: bool) -> Results:
        """The runs of workloads set aside, or of the others."""
        return replace(self, runs=[r for r in self.runs if held_out(r.case.workload) is aside])

    def healthy(self) -> list[Run]:
        """Runs without a fault that the third split found healthy."""
        return [r for r in self.runs if r.case.fault == CLEAN and r.outcome is Outcome.HEALTHY]

    def harmed(
        self,
        fault: str,
        *,
        evaluated: bool,
        outcome: Outcome = Outcome.FAULTY,
        hidden: bool = False,
    ) -> list[Run]:
        """Runs with the fault whose log can show it, or with ``hidden`` those whose log cannot."""
        return [
            run
            for run in self.runs
            if run.case.fault == fault
            and run.outcome is outcome
            and run.evaluated == evaluated
            and FAULTS[fault].hides(run.case.setting()) is hidden
        ]

    def outcomes(self, fault: str) -> Counter[Outcome]:
        return Counter(run.outcome for run in self.runs if run.case.fault == fault)


def family(judged: Judgements, runs: Iterable[Run], *levels: str) -> Rate:
    """Runs with a finding of any rule at one of the levels."""
    return Rate.of([judged[run.case.path].at(*levels) for run in runs])


def by_workload(judged: Judgements, runs: Iterable[Run], *levels: str) -> dict[str, Rate]:
    groups: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.case.workload].append(run)
    return {name: family(judged, groups[name], *levels) for name in WORKLOADS if name in groups}


def worst(rates: dict[str, Rate]) -> tuple[str, Rate]:
    return max(rates.items(), key=lambda item: (item[1].share, item[0]))


def of_rule(judged: Judgements, runs: Sequence[Run], rule: str) -> RuleRates:
    mine = [judged[run.case.path] for run in runs]
    levels = Counter(one.fired[rule] for one in mine if rule in one.fired)
    decided = sum(rule in one.decided for one in mine)
    return RuleRates(rule, len(runs), decided, levels["FAIL"], levels["WARN"], levels["INFO"])


def detection(judged: Judgements, runs: Sequence[Run], fault: str) -> Detection:
    mine = [judged[run.case.path] for run in runs]
    fails = sum(one.at("FAIL") for one in mine)
    silent = [one for one in mine if not flagged(one, fault)]
    passed = sum(bool(one.decided & GROUNDS) for one in silent)
    return Detection(len(mine), fails, len(mine) - len(silent), passed)


def flagged(judgement: Judgement, fault: str) -> bool:
    """At least a WARN, or a rule that states this fact at any level."""
    return judgement.at("FAIL", "WARN") or bool(FAULTS[fault].named & judgement.fired.keys())


def overall(
    judged: Judgements,
    results: Results,
    *,
    evaluated: bool,
    outcome: Outcome = Outcome.FAULTY,
) -> Detection:
    """Over all runs whose log can show their fault."""
    parts = [
        detection(judged, results.harmed(name, evaluated=evaluated, outcome=outcome), name)
        for name in FAULTS
    ]
    return Detection(
        sum(p.runs for p in parts),
        sum(p.fail for p in parts),
        sum(p.flagged for p in parts),
        sum(p.passed for p in parts),
    )


def missed(results: Results, fault: str, *, evaluated: bool) -> list[Judgement]:
    return [
        results.judged[run.case.path]
        for run in results.harmed(fault, evaluated=evaluated)
        if not flagged(results.judged[run.case.path], fault)
    ]
