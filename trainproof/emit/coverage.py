"""Entries that stand beside the rules in formats which have no place for coverage.

GitHub shows results and nothing else, so that what was not checked, and results that were left
out, must be results themselves.
"""

from __future__ import annotations

from trainproof.model.outcome import Level
from trainproof.model.report import RuleEntry

NOT_CHECKED = RuleEntry(
    id="TP-NOT-CHECKED",
    family="coverage",
    title="Something that should have been checked was not",
    level=Level.WARN,
    measures="Lists files that could not be read and rules that did not finish.",
    means="Nothing is known about what these rules would have found.",
    does_not_mean="That the run is broken. It says nothing about the run at all.",
    guards=("Rules that have no input in a run, or that the caller left out, are not listed.",),
    references=("The coverage block of the JSON report.",),
)
TRUNCATED = RuleEntry(
    id="TP-TRUNCATED-RESULTS",
    family="coverage",
    title="More results than are shown here",
    level=Level.WARN,
    measures="Counts the results of this audit that are left out of this file.",
    means="The least severe results are missing here.",
    does_not_mean="That they are missing in the JSON report: it holds all of them.",
    guards=("Results are left out from the least severe upwards, in a fixed order.",),
    references=("The limits of GitHub code scanning for SARIF files.",),
)
AUDIT_ERROR = RuleEntry(
    id="TP-AUDIT-ERROR",
    family="coverage",
    title="The audit itself failed",
    level=Level.FAIL,
    measures="Reports an error of the audit as a whole.",
    means="What is not in this file was not looked at.",
    does_not_mean="That a run failed.",
    guards=("An error in one file or one check is never an error of the audit.",),
    references=("The field error of the JSON report.",),
)
