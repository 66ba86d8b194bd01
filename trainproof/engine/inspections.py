"""Judge what is looked at before a run: a dataset, a tokenizer, a corpus, an environment."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from trainproof.model.artifact import Artifact, Run
from trainproof.model.data import Fault, FaultCode, RunView
from trainproof.model.inspection import Inspection, Requests
from trainproof.model.progress import Amount, Beat
from trainproof.model.report import ArtifactEntry
from trainproof.model.rule import SubjectKind
from trainproof.model.wire import RunResult, Settings, Task

from .beacon import Phase
from .work import Progress, cells_of

Inspect = Callable[[Run, Requests, Beat], Inspection]

_PACKAGES = {
    SubjectKind.DATASET: "trainproof.datasets",
    SubjectKind.TOKENIZER: "trainproof.tokenization",
    SubjectKind.SPEECH: "trainproof.speech",
    SubjectKind.ENVIRONMENT: "trainproof.environment",
}
"""Where ``inspect(run, requests, beat)`` of each kind is; imported only when it is asked for."""
_ERROR_LENGTH = 500


def judge_inspected(task: Task, settings: Settings, progress: Progress) -> RunResult:
    """Everything about one subject. Raises nothing about the data."""
    found = Inspection(None)

    def beat(amount: Amount | None = None, /) -> None:
        progress.at(Phase.READING, amount=amount)

    if not task.known_faults:
        beat()
        found = _inspected(task.run, settings.requests, beat)
    progress.at(Phase.ASSEMBLING)
    faults = (*task.known_faults, *found.faults)
    view = RunView(task.run.id, faults=faults, inspected=found.subject)
    judged = cells_of(task, settings, view, progress)
    progress.at(Phase.ASSEMBLING)
    status = "unread" if found.subject is None else "read"
    return RunResult(
        cells=judged,
        artifacts=tuple(_entry(artifact, status) for artifact in task.run.artifacts),
        measured=found.measured,
        faults=faults,
    )


def _inspected(run: Run, requests: Requests, beat: Beat) -> Inspection:
    """A bug of the one who looks is a fault of what it looked at."""
    try:
        inspect: Inspect = import_module(_PACKAGES[run.subject]).inspect
        return inspect(run, requests, beat)
    except MemoryError:
        fault = Fault(FaultCode.MEMORY, run.id, "memory limit", fatal=True)
    except Exception as error:  # noqa: BLE001 - never a traceback in the place of a report
        detail = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        fault = Fault(FaultCode.READER_FAILED, run.id, detail, fatal=True)
    return Inspection(None, faults=(fault,))


def _entry(artifact: Artifact, status: str) -> ArtifactEntry:
    return ArtifactEntry(artifact.path, artifact.reader, str(artifact.kind), artifact.size, status)
