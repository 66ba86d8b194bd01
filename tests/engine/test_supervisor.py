"""Whatever a reader or a rule does to its process costs its own file or cell, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainproof.engine.beacon import Beacon, Phase, Sighting
from trainproof.engine.limits import Limits
from trainproof.engine.supervisor import supervise
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.data import FaultCode
from trainproof.model.outcome import Skip, State
from trainproof.model.progress import Amount
from trainproof.model.report import Verdict
from trainproof.model.rule import SubjectKind
from trainproof.model.wire import RunResult, Settings, Task

PLUGIN = "tests.engine.hostile"
SOUND = ("TP-HOSTILE-NOTHING", "TP-HOSTILE-BABBLE")
LIMITS = Limits(step_seconds=3.0, memory_bytes=1 << 30)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the plugin as they would find an installed one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def run_of(directory: Path, *deeds: str) -> Run:
    """A run with one file per deed, in order."""
    artifacts = []
    for number, deed in enumerate(deeds):
        (directory / f"{number}.hostile").write_text(f"{deed}\n")
        artifacts.append(Artifact(str(directory), f"{number}.hostile", 1, Kind.LOG, "hostile"))
    return Run(".", str(directory), tuple(artifacts))


def judged(
    runs: list[Run], rules: tuple[str, ...] = SOUND, jobs: int = 2, limits: Limits = LIMITS
) -> dict[int, RunResult]:
    results: dict[int, RunResult] = {}
    tasks = [Task(number, run) for number, run in enumerate(runs)]
    settings = Settings(rules=rules, plugins=(PLUGIN,), memory_bytes=limits.memory_bytes)
    supervise(tasks, settings, limits, jobs, results.__setitem__)
    return results


@pytest.mark.parametrize(
    ("deed", "code", "detail"),
    [
        ("segfault", FaultCode.CRASHED, "SIGSEGV"),
        ("abort", FaultCode.CRASHED, "SIGABRT"),
        ("exit", FaultCode.CRASHED, "exit status 0"),
        ("hang", FaultCode.TIMEOUT, "no progress for 3 s"),
        ("allocate", FaultCode.MEMORY, "memory limit"),
        ("kill", FaultCode.MEMORY, "killed (SIGKILL), most often by the out-of-memory killer"),
        ("raise", FaultCode.READER_FAILED, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_reader_that_misbehaves_costs_its_own_file(
    tmp_path: Path, deed: str, code: FaultCode, detail: str
) -> None:
    result = judged([run_of(tmp_path, "nothing", deed, "nothing")])[0]
    assert [(f.artifact, f.code, f.detail) for f in result.faults] == [("1.hostile", code, detail)]
    assert {a.path: a.status for a in result.artifacts} == {
        "0.hostile": "read",
        "1.hostile": "unread",
        "2.hostile": "read",
    }
    assert [cell.state for cell in result.cells] == [State.CLEAN, State.CLEAN]


@pytest.mark.parametrize(
    ("deed", "skip"),
    [
        ("SEGFAULT", Skip.WORKER_CRASHED),
        ("ABORT", Skip.WORKER_CRASHED),
        ("EXIT", Skip.WORKER_CRASHED),
        ("HANG", Skip.WORKER_TIMEOUT),
        ("ALLOCATE", Skip.WORKER_MEMORY),
        ("KILL", Skip.WORKER_MEMORY),
        ("RAISE", Skip.CHECKER_FAILED),
        ("NONE", Skip.CHECKER_FAILED),
    ],
)
def test_a_rule_that_misbehaves_costs_its_own_cell(tmp_path: Path, deed: str, skip: Skip) -> None:
    rules = ("TP-HOSTILE-NOTHING", f"TP-HOSTILE-{deed}", "TP-HOSTILE-BABBLE")
    result = judged([run_of(tmp_path, "nothing")], rules)[0]
    assert [(cell.state, cell.skip) for cell in result.cells] == [
        (State.CLEAN, None),
        (State.NOT_CHECKED, skip),
        (State.CLEAN, None),
    ]
    assert result.faults == ()


def test_an_answer_that_was_not_asked_for_costs_the_run_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    results = judged([run_of(tmp_path / "a", "lie"), run_of(tmp_path / "b", "nothing")], jobs=1)
    assert [cell.skip for cell in results[0].cells] == [Skip.CHECKER_FAILED] * 2
    detail = {"detail": "bad frame: cells are not those asked for"}
    assert results[0].cells[0].checks[0].measured == detail
    assert [cell.state for cell in results[1].cells] == [State.CLEAN, State.CLEAN]


def test_a_run_that_nobody_could_judge_has_a_report_where_reports_are_made(tmp_path: Path) -> None:
    results: dict[int, RunResult] = {}
    kinds = frozenset({SubjectKind.RUN})
    settings = Settings(rules=("TP-NAN",), kinds=kinds, plugins=("no.such.module",))
    supervise([Task(0, run_of(tmp_path, "nothing"))], settings, LIMITS, 1, results.__setitem__)
    report = results[0].report
    assert report is not None
    assert report.head.verdict is Verdict.NOT_CHECKED
    assert report.decoded().checks.details["TP-NAN"].skip == Skip.WORKER_CRASHED


def test_of_many_runs_only_the_one_that_kills_is_affected(tmp_path: Path) -> None:
    runs = []
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        deed = "segfault" if number == 7 else "nothing"
        runs.append(run_of(tmp_path / str(number), deed))
    results = judged(runs)
    assert sorted(results) == list(range(40))
    faulty = [number for number, result in results.items() if result.faults]
    assert faulty == [7]
    assert all(
        cell.state is State.CLEAN
        for n, result in results.items()
        if n != 7
        for cell in result.cells
    )
    assert all(cell.skip is Skip.WORKER_CRASHED for cell in results[7].cells)


@pytest.mark.parametrize(
    ("deed", "code"), [("segfault", FaultCode.CRASHED), ("hang", FaultCode.TIMEOUT)]
)
def test_a_baseline_that_kills_costs_its_own_file_once_for_all_runs(
    tmp_path: Path, deed: str, code: FaultCode
) -> None:
    def made(name: str, *deeds: str) -> Run:
        (tmp_path / name).mkdir()
        return run_of(tmp_path / name, *deeds)

    baseline = made("baseline", "nothing", deed)
    tasks = [Task(n, made(str(n), "nothing"), (baseline,)) for n in range(6)]
    results: dict[int, RunResult] = {}
    settings = Settings(SOUND, baseline_rules=SOUND, plugins=(PLUGIN,))
    supervise(tasks, settings, Limits(step_seconds=2.0), 1, results.__setitem__)
    for result in results.values():
        assert [(f.artifact, f.code) for f in result.baseline_faults] == [("1.hostile", code)]
        assert [cell.state for cell in result.cells] == [State.CLEAN, State.CLEAN]
        assert result.faults == ()
    assert len(results) == 6


def test_a_rule_that_dies_on_a_baseline_costs_that_baseline(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    task = Task(0, run_of(tmp_path / "a", "nothing"), (run_of(tmp_path / "b", "nothing"),))
    results: dict[int, RunResult] = {}
    settings = Settings(SOUND, baseline_rules=("TP-HOSTILE-SEGFAULT",), plugins=(PLUGIN,))
    supervise([task], settings, LIMITS, 1, results.__setitem__)
    assert [f.code for f in results[0].baseline_faults] == [FaultCode.CRASHED]
    assert [cell.state for cell in results[0].cells] == [State.CLEAN, State.CLEAN]


def test_workers_that_cannot_start_end_the_audit_with_every_cell_accounted_for(
    tmp_path: Path,
) -> None:
    results: dict[int, RunResult] = {}
    settings = Settings(rules=SOUND, plugins=("no.such.module",))
    supervise([Task(0, run_of(tmp_path, "nothing"))], settings, LIMITS, 1, results.__setitem__)
    assert [cell.skip for cell in results[0].cells] == [Skip.WORKER_CRASHED] * 2
    assert results[0].cells[0].checks[0].measured == {"detail": "exit status 1"}


def test_who_watches_is_told_what_was_read_of_the_tasks_in_flight(tmp_path: Path) -> None:
    seen: list[dict[int, Amount]] = []
    supervise(
        [Task(3, run_of(tmp_path, "nothing", "hang", "nothing"))],
        Settings(rules=SOUND, plugins=(PLUGIN,)),
        Limits(step_seconds=1.0),
        1,
        lambda number, result: None,
        seen=lambda amounts: seen.append(dict(amounts)),
    )
    assert {3: Amount(1, 3)} in seen


def test_a_beacon_shows_what_was_told_last_and_forgets_it_with_the_task() -> None:
    beacon = Beacon()
    beacon.task(7)
    beacon.at(Phase.READING, 2, Amount(10, 2**70, 5))
    beacon.at(Phase.READING, 3)
    assert beacon.sighting() == Sighting(3, 7, Phase.READING, 3, Amount(10, 2**64 - 1, 5))
    beacon.task(8)
    assert beacon.sighting() == Sighting(4, 8, Phase.IDLE, 0, Amount())
    beacon.close()
