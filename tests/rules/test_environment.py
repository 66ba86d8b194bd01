"""Rules about the place: levels, limits and what must not be told."""

from __future__ import annotations

import pytest

from trainproof.engine.evaluate import evaluate
from trainproof.model.checkpoint import SavedFile
from trainproof.model.data import Fault, FaultCode, RunView
from trainproof.model.environment import Ending, Environment, Gpu, Gpus, Imported, Memory, Space
from trainproof.model.inspection import EnvironmentRequest
from trainproof.model.outcome import Cell, Level, Skip, State
from trainproof.model.rule import render
from trainproof.model.tensors import CheckpointFacts, Defect, DefectCode, Extent, Layout
from trainproof.rules import REGISTRY

GB = 1_000_000_000


def cell(id: str, environment: Environment, *faults: Fault, **thresholds: float) -> Cell:
    view = RunView("environment", faults=faults, inspected=environment)
    return evaluate(REGISTRY[id], view, thresholds)


def levels(one: Cell) -> list[Level]:
    return [hit.level for hit in one.hits]


def imported(ending: Ending, **fields: object) -> Environment:
    found = Imported("train", ending, 1.0, **fields)  # type: ignore[arg-type]
    return Environment(EnvironmentRequest(module="train"), imported=found)


IMPORTS = ("TP-ENV-IMPORT-FAIL", "TP-ENV-IMPORT-CRASH", "TP-ENV-IMPORT-TIMEOUT")


@pytest.mark.parametrize(
    ("ending", "states"),
    [
        (Ending.IMPORTED, (State.CLEAN, State.CLEAN, State.CLEAN)),
        (Ending.RAISED, (State.FIRED, State.CLEAN, State.CLEAN)),
        (Ending.KILLED, (State.NOT_CHECKED, State.FIRED, State.CLEAN)),
        (Ending.EXITED, (State.NOT_CHECKED, State.FIRED, State.CLEAN)),
        (Ending.HUNG, (State.NOT_CHECKED, State.NOT_CHECKED, State.FIRED)),
    ],
)
def test_each_ending_is_told_once(ending: Ending, states: tuple[State, ...]) -> None:
    environment = imported(ending, error="ValueError", message="bad", signal="SIGSEGV")
    assert tuple(cell(id, environment).state for id in IMPORTS) == states


def test_an_import_that_nobody_asked_for_is_the_callers_choice() -> None:
    one = cell("TP-ENV-IMPORT-FAIL", Environment())
    assert (one.state, one.skip) == (State.NOT_CHECKED, Skip.DISABLED)


def test_an_import_that_was_asked_for_and_not_made_is_unreadable() -> None:
    fault = Fault(FaultCode.IO, "/nowhere/python", "cannot be run", fatal=True)
    asked = Environment(EnvironmentRequest(module="train"))
    assert cell("TP-ENV-IMPORT-FAIL", asked, fault).skip is Skip.NEED_UNREADABLE


def test_an_exception_without_a_text_reads_well() -> None:
    (hit,) = cell("TP-ENV-IMPORT-FAIL", imported(Ending.RAISED, error="KeyboardInterrupt")).hits
    prose = render(REGISTRY["TP-ENV-IMPORT-FAIL"].info, hit)
    assert prose.message == "Importing train raised KeyboardInterrupt: no text."
    assert hit.evidence.where.artifact == "environment"


def test_a_place_outside_is_told_and_not_pointed_at() -> None:
    environment = imported(Ending.KILLED, signal="SIGSEGV", path="/usr/lib/x.py", line=7)
    (hit,) = cell("TP-ENV-IMPORT-CRASH", environment).hits
    assert hit.evidence.where.artifact == "environment"
    assert "at /usr/lib/x.py:7." in render(REGISTRY["TP-ENV-IMPORT-CRASH"].info, hit).evidence


def test_an_exit_cites_its_status_and_its_last_words() -> None:
    (hit,) = cell("TP-ENV-IMPORT-CRASH", imported(Ending.EXITED, last_words="no driver")).hits
    prose = render(REGISTRY["TP-ENV-IMPORT-CRASH"].info, hit)
    assert "with the status 0, before the import" in prose.message
    assert prose.evidence.endswith("last on the standard error: no driver.")


def memory(required: float, ceiling: float, available: float, limited: bool = False) -> Environment:
    found = Memory(100 * GB, int(ceiling * GB), int(available * GB), limited)
    return Environment(EnvironmentRequest(required_gb=required), memory=found)


@pytest.mark.parametrize(
    ("environment", "insufficient", "tight"),
    [
        (memory(16, 64, 32), [], []),
        (memory(16, 64, 17.6), [], []),
        (memory(16, 64, 17.5), [], [Level.WARN]),
        (memory(16, 64, 2), [], [Level.WARN]),
        (memory(16, 16, 15), [], [Level.WARN]),
        (memory(16, 15.9, 15), [Level.FAIL], []),
        (memory(0, 64, 0), [], []),
    ],
)
def test_only_what_this_place_does_not_have_fails(
    environment: Environment, insufficient: list[Level], tight: list[Level]
) -> None:
    assert levels(cell("TP-ENV-MEM-INSUFFICIENT", environment)) == insufficient
    assert levels(cell("TP-ENV-MEM-TIGHT", environment)) == tight


def test_the_limit_of_a_container_is_named_as_one() -> None:
    info = REGISTRY["TP-ENV-MEM-INSUFFICIENT"].info
    for limited, words in ((True, "control group of this process"), (False, "all that this place")):
        (hit,) = cell(info.id, memory(16, 8, 8, limited)).hits
        assert words in render(info, hit).message


def test_memory_that_could_not_be_measured_is_not_checked() -> None:
    one = cell("TP-ENV-MEM-TIGHT", Environment(EnvironmentRequest(required_gb=1.0)))
    assert one.skip is Skip.NEED_ABSENT


def disk(free: float, *, size: float | None = 5.0, keep: int | None = 3) -> Environment:
    request = EnvironmentRequest(output_dir="runs", checkpoint_gb=size, keep=keep)
    return Environment(request, output=Space("/data", 100 * GB, int(free * GB)))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (disk(14.9), [Level.FAIL]),
        (disk(15.0), [Level.WARN]),
        (disk(20.9), [Level.WARN]),
        (disk(21.1), []),
        (disk(4.9, keep=None), [Level.FAIL]),
        (disk(10.6, keep=None), []),
        (disk(0.0, keep=0, size=0.0), []),
    ],
)
def test_one_more_checkpoint_is_needed_while_it_is_written(
    environment: Environment, expected: list[Level]
) -> None:
    assert levels(cell("TP-ENV-DISK-INSUFFICIENT", environment)) == expected


def test_a_size_that_nobody_told_is_the_callers_choice() -> None:
    assert cell("TP-ENV-DISK-INSUFFICIENT", disk(1.0, size=None)).skip is Skip.DISABLED


@pytest.mark.parametrize(
    ("inodes", "free", "state"),
    [(0, 0, State.CLEAN), (10**6, 999, State.FIRED), (10**6, 1000, State.CLEAN)],
)
def test_a_file_system_without_inodes_has_enough_of_them(
    inodes: int, free: int, state: State
) -> None:
    output = Space("/data", GB, GB, inodes, free)
    environment = Environment(EnvironmentRequest(output_dir="runs"), output=output)
    assert cell("TP-ENV-DISK-INODES", environment).state is state


def test_thresholds_move_limits() -> None:
    environment = Environment(open_files=1024, shared=Space("/dev/shm", 1 << 30, 1 << 30))
    assert cell("TP-ENV-OPEN-FILES", environment).state is State.CLEAN
    assert cell("TP-ENV-OPEN-FILES", environment, least=4096).state is State.FIRED
    assert cell("TP-ENV-SHM-SMALL", environment).state is State.CLEAN
    assert cell("TP-ENV-SHM-SMALL", environment, least=2048.0).state is State.FIRED


def test_a_fault_that_needs_more_than_versions_is_information() -> None:
    one = Environment(packages={"transformers": "4.46.1", "torch": "2.2.0", "numpy": "2.0.0"})
    assert levels(cell("TP-ENV-KNOWN-BAD", one)) == [Level.WARN, Level.INFO]


@pytest.mark.parametrize(
    ("driver", "torch", "state"),
    [
        ("525.60.13", "2.5.1+cu124", State.CLEAN),
        ("525.60.12", "2.5.1+cu124", State.FIRED),
        ("575.57.08", "2.9.0+cu130", State.FIRED),
        ("580.65.06", "2.9.0+cu130", State.CLEAN),
        ("470.82.01", "2.0.1+cu118", State.CLEAN),
        ("470.82.01", "2.5.1+cpu", State.NOT_CHECKED),
        ("", "2.5.1+cu124", State.NOT_CHECKED),
    ],
)
def test_a_driver_and_the_cuda_of_torch(driver: str, torch: str, state: State) -> None:
    environment = Environment(packages={"torch": torch}, gpus=Gpus(driver))
    assert cell("TP-ENV-DRIVER-OLD", environment).state is state


def test_gpus_that_are_lost_are_told_and_others_not() -> None:
    whole, mute = Gpu("A", 80 * GB, 79 * GB), Gpu("B", note="memory: Not Supported")
    lost = Gpu("GPU 1", note="GPU is lost", lost=True)
    one = cell("TP-ENV-GPU-LOST", Environment(gpus=Gpus("575.57", (whole, lost, mute))))
    assert levels(one) == [Level.WARN]
    told = render(REGISTRY["TP-ENV-GPU-LOST"].info, one.hits[0])
    assert told.message == "1 of 3 GPUs cannot be used: 1 (GPU is lost)."
    clean = cell("TP-ENV-GPU-LOST", Environment(gpus=Gpus("575.57", (whole, mute))))
    assert clean.state is State.CLEAN


def test_a_driver_of_another_version_than_its_library_is_told() -> None:
    gpus = Gpus(note="RM has detected an NVML/RM version mismatch.", mismatch=True)
    one = cell("TP-ENV-GPU-LOST", Environment(gpus=gpus))
    assert (levels(one), one.hits[0].evidence.variant) == ([Level.WARN], "mismatch")
    absent = cell("TP-ENV-GPU-LOST", Environment(gpus=Gpus(note="Driver Not Loaded")))
    assert (absent.state, absent.skip) == (State.NOT_CHECKED, Skip.NEED_ABSENT)


def saved(*defects: Defect, **facts: object) -> Environment:
    said: dict[str, object] = {
        "artifact": "start.pt",
        "layout": Layout.TORCH_ZIP,
        "size": 1000,
        "extent": Extent.READ,
        **facts,
    }
    file = SavedFile(CheckpointFacts(**said, defects=defects))  # type: ignore[arg-type]
    return Environment(EnvironmentRequest(checkpoint="start.pt"), saved=file)


CHECKPOINTS = [id for id in REGISTRY if id.startswith("TP-ENV-CKPT-")]


@pytest.mark.parametrize(
    ("environment", "fired"),
    [
        (saved(), []),
        (saved(Defect(DefectCode.TRUNCATED, "cut")), ["TP-ENV-CKPT-TRUNCATED"]),
        (saved(Defect(DefectCode.SAVE_FAILED, "cut")), ["TP-ENV-CKPT-TRUNCATED"]),
        (
            saved(Defect(DefectCode.TRUNCATED, "cut"), Defect(DefectCode.PICKLE, "cut")),
            ["TP-ENV-CKPT-TRUNCATED"],
        ),
        (saved(Defect(DefectCode.CRC, "sum")), ["TP-ENV-CKPT-CORRUPT"]),
        (saved(Defect(DefectCode.CONTAINER_ODD, "odd")), []),
        (saved(layout=Layout.TORCH_LEGACY), ["TP-ENV-CKPT-LEGACY"]),
        (saved(layout=Layout.EMPTY, extent=Extent.NOT_CHECKED), ["TP-ENV-CKPT-EMPTY"]),
        (saved(layout=Layout.JSON, extent=Extent.NOT_CHECKED), ["TP-ENV-CKPT-UNREADABLE"]),
        (saved(layout=Layout.UNKNOWN, extent=Extent.NOT_CHECKED), []),
    ],
)
def test_each_defect_is_told_once(environment: Environment, fired: list[str]) -> None:
    found = [id for id in CHECKPOINTS if cell(id, environment).state is State.FIRED]
    assert found == fired


def test_a_file_that_was_not_looked_into_is_not_clean() -> None:
    environment = saved(layout=Layout.UNKNOWN, extent=Extent.NOT_CHECKED)
    for id in ("TP-ENV-CKPT-TRUNCATED", "TP-ENV-CKPT-CORRUPT", "TP-ENV-CKPT-LEGACY"):
        assert cell(id, environment).skip is Skip.NEED_UNREADABLE


def test_the_rules_that_give_grounds_are_those_that_were_asked_for() -> None:
    grounds = {id for id in REGISTRY if id.startswith("TP-ENV-") and REGISTRY[id].info.grounds}
    assert grounds == {
        "TP-ENV-IMPORT-FAIL",
        "TP-ENV-MEM-INSUFFICIENT",
        "TP-ENV-DISK-INSUFFICIENT",
        "TP-ENV-NOT-WRITABLE",
        "TP-ENV-CKPT-TRUNCATED",
    }
