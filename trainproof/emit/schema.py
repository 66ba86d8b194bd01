"""The JSON Schema of the public report, derived from its types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from trainproof.model.artifact import Content, Kind
from trainproof.model.data import Direction, Role, Scope, Split
from trainproof.model.outcome import Level, Owner, Public, Skip, State
from trainproof.model.report import COVERAGE_SCHEMA, SCHEMA_VERSION, Report, Verdict
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import Extent, Group, Integrity, Layout, Safety

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = f"urn:trainproof:report:{SCHEMA_VERSION}"

DESCRIPTIONS: Mapping[str, str] = {
    "Report": "One audit: what was judged, what was not, and by which rules.",
    "Report.schema_version": "Version of this schema.",
    "Report.trainproof_version": "Version of the program that made the report.",
    "Report.reports": "The judged subjects.",
    "Report.worst_verdict": "The most severe verdict of all subjects; NOT-CHECKED without any.",
    "Report.error": "Why the audit as a whole failed; null where it did not.",
    "Report.not_judged": "Files that were seen and hold nothing that could be judged.",
    "Report.rules": "The rules of this audit; the keys of every coverage matrix are their ids.",
    "Report.problems": "What went wrong outside of any subject.",
    "Report.anchors": "For an audited root outside of the repository: the file that annotations"
    " point at instead.",
    "Report.invocation": "How this audit ran. All else in the report depends on the input only.",
    "SubjectReport.id": "Path of the subject below its root.",
    "SubjectReport.kind": "What the subject is.",
    "SubjectReport.root": "The audited root, as the caller gave it.",
    "SubjectReport.verdict": "The verdict on the subject.",
    "SubjectReport.findings": "Rules that fired, one entry for each place, worst first.",
    "SubjectReport.checks": "What was checked and what was not.",
    "SubjectReport.artifacts": "The files that the subject is made of.",
    "SubjectReport.segments": "The executions within the run, in order.",
    "SubjectReport.rewinds": "Places where the step count of a log falls back.",
    "SubjectReport.series": "The logged scalars.",
    "SubjectReport.comparisons": "Its losses beside those of each baseline.",
    "SubjectReport.drift": "What is between the checkpoint and an earlier one.",
    "SubjectReport.kept": "The checkpoints of the run; each has a report of its own.",
    "SubjectReport.unknown_columns": "Logged names whose meaning is not known: not judged.",
    "SubjectReport.measured": "Of a subject that is no run: what is known of it as a whole.",
    "SubjectReport.facts": "What the run declares about itself.",
    "SubjectReport.problems": "What went wrong while reading the subject's files.",
    "SubjectReport.because": "For NOT-CHECKED: what stood in the way of the rules that would have"
    " given grounds for a PASS. Null otherwise.",
    "Finding": "A rule that fired at one place.",
    "Finding.id": "Id of the rule.",
    "Finding.level": "How grave it is in this circumstance.",
    "Finding.message": "What was found.",
    "Finding.evidence": "The numbers that show it, in words.",
    "Finding.source": "What the rule looked at.",
    "Finding.measured": "The measured numbers, by the names that the rule declares.",
    "Finding.thresholds": "The thresholds that the rule was applied with.",
    "Finding.location": "The place to look at.",
    "Finding.variant": "The declared circumstance of the rule, empty for its main form.",
    "Finding.series": "The logged name it is about.",
    "Finding.tensor": "The tensor it is about.",
    "Finding.segment": "Index of the execution it is about.",
    "Finding.superseded": "Whether a later execution started over and went further.",
    "Finding.first_step": "First step it is about.",
    "Finding.last_step": "Last step it is about.",
    "Location.path": "Path of the file below the audited root.",
    "Location.line": "1-based line; null where the file has no lines.",
    "Checks.ran": "Ids of the rules that were applied.",
    "Checks.skipped": "Rule id to the reason why it was not applied.",
    "Checks.coverage": "The coverage by public state.",
    "Checks.details": "Rule id to its cell of the matrix; one entry for every rule.",
    "CoverageBlock.schema": "Name of the coverage vocabulary.",
    "CoverageBlock.states": "Rule id to its public state.",
    "CoverageBlock.counts": "Public state to the number of rules in it.",
    "CoverageBlock.total": "Number of rules.",
    "CoverageBlock.checked": "Number of rules that were applied.",
    "CoverageBlock.checked_pct": "Share of the rules that were applied, in percent.",
    "CheckDetail.state": "Clean, fired or not checked.",
    "CheckDetail.skip": "Why the rule was not applied; null where it was.",
    "CheckDetail.owner": "Who can change that it was not applied; null where it was.",
    "CheckDetail.applications": "The single applications of the rule.",
    "Application.state": "Clean, fired or not checked.",
    "Application.series": "The logged name it was applied to; null for the whole subject.",
    "Application.segment": "Index of the execution it was applied to.",
    "Application.skip": "Why it was not applied; null where it was.",
    "Application.measured": "The measured numbers.",
    "ArtifactEntry": "A file of the subject.",
    "ArtifactEntry.path": "Path below the audited root.",
    "ArtifactEntry.reader": "The reader that the file was given to.",
    "ArtifactEntry.kind": "What the file holds.",
    "ArtifactEntry.size": "Size in bytes.",
    "ArtifactEntry.status": "What became of reading it.",
    "Segment.index": "0 for the first execution.",
    "Segment.first_step": "First logged step.",
    "Segment.last_step": "Last logged step.",
    "Segment.superseded": "Whether a later execution started over and went further.",
    "SeriesSummary.name": "The logged name.",
    "SeriesSummary.artifact": "Path of the file it was read from.",
    "SeriesSummary.role": "What it measures.",
    "SeriesSummary.split": "On which data it was measured.",
    "SeriesSummary.scope": "Whether a point stands for a step or for an epoch.",
    "SeriesSummary.component": "Which part of the total it is; null for the total.",
    "SeriesSummary.direction": "Which way is better.",
    "SeriesSummary.segment": "Index of the execution.",
    "SeriesSummary.points": "Number of values.",
    "SeriesSummary.nonfinite": "Number of values that are NaN or infinite.",
    "SeriesSummary.first": "First value.",
    "SeriesSummary.last": "Last value.",
    "SeriesSummary.min": "Least value.",
    "SeriesSummary.max": "Greatest value.",
    "SeriesSummary.first_step": "First step.",
    "SeriesSummary.last_step": "Last step.",
    "SeriesSummary.curve": "A text picture of the values.",
    "SeriesSummary.also_in": "Other files of the run that hold the same series.",
    "Comparison.baseline": "Path of the baseline.",
    "Comparison.series": "The logged name in the run.",
    "Comparison.baseline_series": "The logged name in the baseline.",
    "Comparison.split": "On which data it was measured.",
    "Comparison.segment": "Index of the execution of the run.",
    "Comparison.first_step": "First step that both cover.",
    "Comparison.last_step": "Last step of the run that both cover.",
    "Comparison.points": "Values of the run within these steps.",
    "Comparison.baseline_points": "Values of the baseline within these steps.",
    "Comparison.start": "The run's level over the first block.",
    "Comparison.floor": "The run's lowest level.",
    "Comparison.end": "The run's level over the last block.",
    "Comparison.baseline_start": "The baseline's level over the first block.",
    "Comparison.baseline_floor": "The baseline's lowest level.",
    "Comparison.baseline_end": "The baseline's level over the last block.",
    "Comparison.curve": "A text picture of the run's levels.",
    "Comparison.baseline_curve": "The baseline's levels, on the same scale.",
    "Comparison.differences": "What the two declare about their set-up and declare differently.",
    "SubjectReport.checkpoints": "The files of a checkpoint, with what each holds.",
    "SubjectReport.tensors": "The tensors of a checkpoint, at most 5000 of them, those that are not"
    " finite first where there are more.",
    "CheckpointSummary.path": "Path below the audited root.",
    "CheckpointSummary.layout": "The format, decided by the content.",
    "CheckpointSummary.size": "Size in bytes.",
    "CheckpointSummary.extent": "How much of the file was read.",
    "CheckpointSummary.reason": "Why no more of it was read; empty where all of it was.",
    "CheckpointSummary.integrity": "What the checksums of the file say.",
    "CheckpointSummary.safety": "Whether the names that its pickles import are harmless; null where"
    " it holds none.",
    "CheckpointSummary.weights_only": "Whether torch.load with weights_only=True accepts it; null"
    " where it holds no pickle.",
    "CheckpointSummary.tensors": "Number of tensors.",
    "CheckpointSummary.parameters": "Elements of the weights; tied ones count once.",
    "CheckpointSummary.measured": "Elements whose values were read.",
    "CheckpointSummary.nonfinite": "Elements that are NaN or infinite.",
    "CheckpointSummary.zeros": "Elements that are zero.",
    "TensorSummary.name": "Path inside the saved object, at most 300 characters of it.",
    "TensorSummary.path": "Path of the file below the audited root.",
    "TensorSummary.group": "The part of the training it belongs to.",
    "TensorSummary.dtype": "Type of the elements.",
    "TensorSummary.shape": "Sizes of the dimensions; null where it has not one shape.",
    "TensorSummary.elements": "Number of elements.",
    "TensorSummary.nan": "Elements that are NaN.",
    "TensorSummary.inf": "Elements that are infinite.",
    "TensorSummary.zeros": "Elements that are zero.",
    "TensorSummary.min": "Least finite value; null where it is not known.",
    "TensorSummary.max": "Greatest finite value; null where it is not known.",
    "TensorSummary.absmax": "Largest finite magnitude; null where it is not known.",
    "TensorSummary.unread": "Why its values are not known; empty where they are.",
    "CheckpointDrift.reference": "The checkpoint compared with.",
    "CheckpointDrift.step": "How far the training had come, as the checkpoint tells; null where it"
    " does not.",
    "CheckpointDrift.step_before": "The same of the reference.",
    "CheckpointDrift.changes": "Kind of change to the number of tensors.",
    "CheckpointDrift.tensors": "The tensors, those that changed most first.",
    "CheckpointDrift.prefix": "What names begin with in the checkpoint alone.",
    "CheckpointDrift.prefix_before": "What names begin with in the reference alone.",
    "TensorDifference.name": "Path inside the saved object, at most 300 characters of it.",
    "TensorDifference.path": "Path of the file below the root of what it is in.",
    "TensorDifference.group": "The part of the training it belongs to.",
    "TensorDifference.change": "same, moved, retyped, reshaped, unknown, added or gone.",
    "TensorDifference.dtype": "Type of the elements; null where it is gone.",
    "TensorDifference.dtype_before": "Type in the reference; null where it is new.",
    "TensorDifference.shape": "Sizes of the dimensions; null where there are none.",
    "TensorDifference.shape_before": "Sizes of the dimensions in the reference.",
    "TensorDifference.compared": "Elements that were compared.",
    "TensorDifference.identical": "Elements of these that are bit by bit the same.",
    "TensorDifference.norm": "Norm over the elements compared; null where it was not computed.",
    "TensorDifference.norm_before": "The same of the reference.",
    "TensorDifference.distance": "Norm of the difference over the elements compared.",
    "TensorDifference.unread": "Why values were not compared; empty where they need not be.",
    "KeptCheckpoint.id": "Id of its own report.",
    "KeptCheckpoint.step": "How far the training had come, as it tells; null where it does not.",
    "KeptCheckpoint.verdict": "The verdict on it.",
    "KeptCheckpoint.files": "Number of its files.",
    "KeptCheckpoint.size": "Bytes of all of them.",
    "Problem.code": "What kind of problem it is.",
    "Problem.path": "Path of the file below the audited root.",
    "Problem.detail": "What happened.",
    "Problem.fatal": "Whether something of the file could not be read because of it.",
    "Problem.line": "1-based line; null where the file has no lines.",
    "RewindEntry": "A place where the step count of a log falls back.",
    "RewindEntry.path": "Path of the log below the audited root.",
    "RewindEntry.from_step": "The step before it.",
    "RewindEntry.to_step": "The step after it.",
    "RewindEntry.resume": "Whether training went on from an earlier saved step.",
    "RewindEntry.line": "1-based line; null where the file has no lines.",
    "RewindEntry.counted_as": "The step that to_step is taken for where the count starts over and"
    " training goes on; null elsewhere.",
    "RuleEntry.id": "Its stable id.",
    "RuleEntry.family": "Rules about the same matter share a family.",
    "RuleEntry.title": "What it finds.",
    "RuleEntry.level": "Its main level.",
    "RuleEntry.measures": "What it measures.",
    "RuleEntry.means": "What a finding means.",
    "RuleEntry.does_not_mean": "What a finding does not mean.",
    "RuleEntry.guards": "What keeps it from firing without grounds.",
    "RuleEntry.references": "What it rests on.",
    "NotJudgedFile": "A file that somebody may have expected to be judged.",
    "NotJudgedFile.path": "Path below the audited root.",
    "NotJudgedFile.content": "What the file turned out to be.",
    "NotJudgedFile.detail": "More about it.",
    "NotJudged.counts": "Content to the number of such files.",
    "NotJudged.files": "The files worth naming.",
    "NotJudged.unlisted": "Number of files worth naming that are left out here.",
    "Anchor.path": "Path of the file in the repository.",
    "Anchor.line": "1-based line.",
    "Invocation.started": "When it started, in UTC, as in RFC 3339.",
    "Invocation.seconds": "How long it took.",
    "Invocation.jobs": "Number of worker processes.",
    "Invocation.isolated": "Whether files were read in worker processes.",
    "Invocation.memory_limit_enforced": "Whether the system could limit their memory.",
    "Level": "How grave a finding is.",
}
"""Type, or type and field, to its description. Types that are not here have it in their code."""

_ENUMS: Mapping[str, type[StrEnum]] = {
    "SubjectReport.kind": SubjectKind,
    "Application.state": State,
    "Application.skip": Skip,
    "CheckDetail.state": State,
    "CheckDetail.skip": Skip,
    "CheckDetail.owner": Owner,
    "ArtifactEntry.kind": Kind,
    "SeriesSummary.role": Role,
    "SeriesSummary.split": Split,
    "SeriesSummary.scope": Scope,
    "SeriesSummary.direction": Direction,
    "Comparison.split": Split,
    "CheckpointSummary.layout": Layout,
    "CheckpointSummary.extent": Extent,
    "CheckpointSummary.integrity": Integrity,
    "CheckpointSummary.safety": Safety,
    "TensorSummary.group": Group,
    "TensorDifference.group": Group,
    "NotJudgedFile.content": Content,
}
"""Text fields whose values are those of an enumeration of the model."""

_LEVELS = ("start", "floor", "end")
_NUMBERS = frozenset(
    {
        *(f"SeriesSummary.{which}" for which in ("first", "last", "min", "max")),
        *(f"Comparison.{which}" for which in _LEVELS),
        *(f"Comparison.baseline_{which}" for which in _LEVELS),
    }
)
_SPELLINGS = ["NaN", "Infinity", "-Infinity"]


def report_schema() -> Schema:
    """JSON Schema (draft 2020-12) of the report.

    Objects are open: within one schema version fields are added and never removed.
    """
    made: Schema = msgspec.json.schema(Report)
    definitions: Schema = made["$defs"]
    for type_name, definition in definitions.items():
        _describe(type_name, definition)
    _constrain(definitions)
    head = {"$schema": DIALECT, "$id": ID, "title": "trainproof report"}
    return {**head, "description": DESCRIPTIONS["Report"], **made}


def _describe(type_name: str, definition: Schema) -> None:
    if type_name in DESCRIPTIONS:
        definition["description"] = DESCRIPTIONS[type_name]
    if "description" in definition:
        definition["description"] = " ".join(definition["description"].replace("``", "'").split())
    for field, schema in definition.get("properties", {}).items():
        path = f"{type_name}.{field}"
        schema["title"] = field.replace("_", " ")
        schema["description"] = DESCRIPTIONS[path]
        if path in _ENUMS:
            _restrict(schema, _ENUMS[path])
        if path in _NUMBERS:
            schema["anyOf"] = [{"type": "number"}, {"enum": _SPELLINGS}]


def _restrict(schema: Schema, values: Iterable[str]) -> None:
    """Allow only ``values`` where the schema allows text; keep null where it allows that."""
    allowed = [str(value) for value in values]
    for option in schema.get("anyOf", [schema]):
        if option.get("type") == "string":
            option["enum"] = allowed


def _constrain(definitions: Schema) -> None:
    def field(type_name: str, name: str) -> Schema:
        found: Schema = definitions[type_name]["properties"][name]
        return found

    field("Report", "schema_version")["const"] = SCHEMA_VERSION
    coverage = definitions["CoverageBlock"]["properties"]
    coverage["schema"]["const"] = COVERAGE_SCHEMA
    _restrict(coverage["states"]["additionalProperties"], Public)
    coverage["counts"]["propertyNames"] = {"enum": [str(state) for state in Public]}
    coverage["checked_pct"] |= {"minimum": 0, "maximum": 100}
    field("NotJudged", "counts")["propertyNames"] = {"enum": [str(content) for content in Content]}
    for type_name in ("Location", "Problem", "RewindEntry"):
        _restrict_line(field(type_name, "line"))
    _restrict_line(field("Anchor", "line"))
    for verdicts in (Verdict, Level):
        definitions[verdicts.__name__]["enum"] = [str(value) for value in verdicts]


def _restrict_line(schema: Schema) -> None:
    for option in schema.get("anyOf", [schema]):
        if option.get("type") == "integer":
            option["minimum"] = 1
