"""Runs that grow, are rewritten, rotate, rest and vanish while they are watched."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.tfevents import event_file, scalar
from trainproof import audit
from trainproof.config import Config
from trainproof.engine import launch
from trainproof.guardian.watch import GROWTH, SMALL, Change, Look, Watch, is_new_scene, look
from trainproof.model.report import Report, Verdict


def curve(count: int) -> list[float]:
    noise = np.random.default_rng(1).normal(0, 0.02, count)
    values: list[float] = (1 + 3 * np.exp(-np.arange(count) / 30) + noise).tolist()
    return values


def jsonl(values: list[float], first: int = 1) -> str:
    return "".join(
        json.dumps({"step": i, "loss": value}) + "\n" for i, value in enumerate(values, first)
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(tmp_path: Path, clock: Clock) -> Iterator[Watch]:
    """Without workers, which start slowly; one test below has them."""
    one = Watch(Config(paths=(str(tmp_path),), isolation=False), stall=60.0, clock=clock)
    yield one
    one.close()


def told(changes: tuple[Change, ...]) -> list[tuple[str, str, list[str]]]:
    return [
        (one.subject.id, str(one.subject.verdict), [found.id for found in one.findings])
        for one in changes
    ]


def same_as_audit(watch: Watch, path: Path) -> bool:
    """Everything but what only a watch says."""
    assert watch.report is not None
    now = audit(str(path), isolation=False)

    def kept(report: Report) -> list[object]:
        return [
            (one.id, one.verdict, one.findings, one.series, one.artifacts) for one in report.reports
        ]

    return kept(watch.report) == kept(now)


def test_a_path_that_does_not_exist_yet_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    home = tmp_path / "later"
    watch = Watch(Config(paths=(str(home / "log.jsonl"),), isolation=False), clock=clock)
    assert watch.poll() == ()
    home.mkdir()
    assert watch.poll() == ()
    (home / "log.jsonl").write_text(jsonl(curve(100)))
    assert told(watch.poll()) == [("log", "PASS", [])]
    watch.close()


def test_a_log_that_grows_is_judged_as_it_grows(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    values = curve(200) + [math.nan] * 20
    text = jsonl(values)
    log.write_text(text[:150])
    assert told(watch.poll()) == [(".", "NOT-CHECKED", [])]
    log.write_text(jsonl(values[:200]))
    (change,) = watch.poll()
    assert (change.previous, change.subject.verdict) == (Verdict.NOT_CHECKED, Verdict.PASS)
    assert same_as_audit(watch, tmp_path)
    assert watch.poll() == ()
    log.write_text(text)
    (change,) = watch.poll()
    assert change.of_verdict
    assert [one.id for one in change.findings] == ["TP-NAN"]
    assert change.findings[0].location.line == 201
    assert same_as_audit(watch, tmp_path)


FORMATS = {
    "csv": lambda values: "step,loss\n" + "".join(f"{i},{v:.5f}\n" for i, v in enumerate(values)),
    "txt": lambda values: "".join(f"step {i} loss {v:.5f} lr 1e-3\n" for i, v in enumerate(values)),
    "jsonl": jsonl,
    "json": lambda values: json.dumps(
        {
            "global_step": len(values),
            "log_history": [{"step": i, "loss": v} for i, v in enumerate(values, 1)],
        },
        indent=2,
    ),
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_comes_to_what_an_audit_says(
    watch: Watch, tmp_path: Path, suffix: str
) -> None:
    values = curve(160)
    name = "trainer_state.json" if suffix == "json" else f"train.{suffix}"
    for count in (40, 41, 90, 160):
        (tmp_path / name).write_text(FORMATS[suffix](values[:count]))
        watch.poll()
        assert same_as_audit(watch, tmp_path)
    assert watch.report is not None
    assert watch.report.worst_verdict is Verdict.PASS


def test_event_files_are_followed(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1700000000.host"
    records = [scalar("loss", value, i) for i, value in enumerate(curve(120))]
    for count in (5, 60, 120):
        path.write_bytes(event_file(records[:count]) + records[count - 1][:7])
        watch.poll()
        path.write_bytes(event_file(records[:count]))
        watch.poll()
        assert same_as_audit(watch, tmp_path)


def test_a_truncated_log_is_judged_by_what_it_holds(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(100) + [math.nan] * 20))
    assert told(watch.poll()) == [(".", "FAIL", ["TP-NAN"])]
    log.write_text(jsonl(curve(100)))
    assert told(watch.poll()) == [(".", "PASS", [])]
    assert same_as_audit(watch, tmp_path)


def test_a_rotated_log_goes_on_in_the_new_file(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(100)[:60]))
    watch.poll()
    log.rename(tmp_path / "log.1.jsonl")
    watch.poll()
    log.write_text(jsonl(curve(100)[60:], 61))
    watch.poll()
    assert same_as_audit(watch, tmp_path)


def test_between_the_two_halves_of_a_rotation_the_verdict_stays(
    watch: Watch, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(100)))
    watch.poll()
    log.unlink()
    assert watch.poll() == ()
    assert watch.report is not None
    assert watch.report.worst_verdict is Verdict.PASS
    log.write_text(jsonl(curve(120)))
    watch.poll()
    assert same_as_audit(watch, tmp_path)


def test_a_new_run_beside_the_others_is_found(watch: Watch, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(jsonl(curve(100)))
        assert told(watch.poll()) == [(name, "PASS", [])]


def test_changes_come_worst_first(watch: Watch, tmp_path: Path) -> None:
    for name, tail in (("a", []), ("b", [math.nan] * 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(jsonl(curve(100) + tail))
    assert [one[0] for one in told(watch.poll())] == ["b", "a"]


def test_a_log_that_stops_growing_stalls_and_recovers(
    watch: Watch, tmp_path: Path, clock: Clock
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(100)))
    watch.poll()
    clock.now = 59.0
    assert watch.poll() == ()
    clock.now = 61.0
    assert told(watch.poll()) == [(".", "WARN", ["TP-STALL"])]
    clock.now = 400.0
    assert watch.poll() == ()
    log.write_text(jsonl(curve(120)))
    assert told(watch.poll()) == [(".", "PASS", [])]


def test_a_run_that_says_that_it_is_over_does_not_stall(
    watch: Watch, tmp_path: Path, clock: Clock
) -> None:
    state = {
        "global_step": 100,
        "max_steps": 100,
        "log_history": [{"step": i, "loss": v} for i, v in enumerate(curve(100), 1)],
    }
    (tmp_path / "trainer_state.json").write_text(json.dumps(state, indent=2))
    watch.poll()
    clock.now = 1000.0
    assert watch.poll() == ()
    assert watch.report is not None
    assert watch.report.worst_verdict is Verdict.PASS


def test_a_state_that_is_read_in_the_middle_of_being_written_changes_no_verdict(
    watch: Watch, tmp_path: Path
) -> None:
    path = tmp_path / "trainer_state.json"
    text = FORMATS["json"](curve(160))
    path.write_text(FORMATS["json"](curve(160)[:150]))
    assert told(watch.poll()) == [(".", "PASS", [])]
    path.write_text(text[: len(text) // 2])
    assert watch.poll() == ()
    path.write_text(text)
    assert watch.poll() == ()
    assert same_as_audit(watch, tmp_path)


def test_a_state_that_stays_cut_is_believed(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    text = FORMATS["json"](curve(160))
    path.write_text(text)
    watch.poll()
    path.write_text(text[: len(text) // 2])
    watch.poll()
    watch.poll()
    assert same_as_audit(watch, tmp_path)


def test_a_large_log_is_judged_when_enough_came_together_or_nothing_more_comes(
    watch: Watch, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    padding = "x" * 2000
    lines = [
        json.dumps({"step": i, "loss": v, "note": padding}) + "\n"
        for i, v in enumerate(curve(1000) + [math.nan] * 100)
    ]
    log.write_text("".join(lines[:1000]))
    assert log.stat().st_size > SMALL
    watch.poll()
    with log.open("a") as file:
        file.writelines(lines[1000:1010])
    assert 10 * GROWTH < 1000
    assert watch.poll() == ()
    assert [one[1] for one in told(watch.poll())] == ["FAIL"]  # at rest
    with log.open("a") as file:
        file.writelines(lines[1010:1100])
    watch.poll()
    assert same_as_audit(watch, tmp_path)


def test_thresholds_and_selection_are_those_of_an_audit(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "log.jsonl").write_text(jsonl(curve(100) + [math.nan] * 20))
    config = Config(paths=(str(tmp_path),), isolation=False, ignore=("TP-NAN*",))
    watch = Watch(config, clock=clock)
    assert told(watch.poll()) == [(".", "NOT-CHECKED", [])]
    watch.close()


def test_while_a_worker_stays_no_other_is_started(tmp_path: Path, clock: Clock) -> None:
    for number in range(64):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "log.jsonl").write_text(jsonl([1.0, 0.5]))
    watch = Watch(Config(paths=(str(tmp_path),)), clock=clock)
    watch.poll()
    (tmp_path / "log.jsonl").write_text(jsonl([1.0, 0.5]))
    assert [one.subject.id for one in watch.poll()] == ["."]
    assert launch._waiting == []
    watch.close()


def test_workers_stay_and_are_replaced_when_they_die(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(100)))
    watch = Watch(Config(paths=(str(tmp_path),)), clock=clock)
    try:
        assert told(watch.poll()) == [(".", "PASS", [])]
        (worker,) = watch._session._judges.workers  # type: ignore[union-attr]
        log.write_text(jsonl(curve(120)))
        watch.poll()
        assert watch._session._judges.workers == [worker]  # type: ignore[union-attr]
        os.kill(worker.process.pid, 9)
        worker.process.wait()
        log.write_text(jsonl(curve(120) + [math.nan] * 20))
        assert told(watch.poll()) == [(".", "FAIL", ["TP-NAN"])]
        assert watch.report is not None
        assert watch.report.reports[0].problems == ()
    finally:
        watch.close()
    assert worker.process.poll() is not None


LOOK = Look(1, 2, 5000, 9, 9)
KEY = ("/runs", "log.csv")


def test_a_file_that_grows_behind_its_head_is_no_new_scene() -> None:
    assert not is_new_scene({KEY: LOOK}, {KEY: replace(LOOK, size=6000, modified=10)})


@pytest.mark.parametrize(
    "now",
    [
        {},
        {KEY: LOOK, ("/runs", "new.csv"): LOOK},
        {KEY: replace(LOOK, inode=3)},
        {KEY: replace(LOOK, size=100, modified=10)},
    ],
)
def test_files_that_come_go_shrink_or_are_replaced_are_a_new_scene(
    now: dict[tuple[str, str], Look],
) -> None:
    assert is_new_scene({KEY: LOOK}, now)


def test_a_file_shorter_than_its_head_is_recognised_anew_when_it_changes() -> None:
    short = replace(LOOK, size=100)
    assert is_new_scene({KEY: short}, {KEY: replace(short, size=200, modified=10)})


def test_permissions_that_change_are_seen(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(curve(10)))
    config = Config(paths=(str(tmp_path),))
    before, since = look(config), log.stat().st_ctime_ns
    while log.stat().st_ctime_ns == since:  # the clock of a file system has coarse ticks
        log.chmod(0o600)
    assert look(config) != before
