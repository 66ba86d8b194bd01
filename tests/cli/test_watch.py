"""trainproof watch as people run it: a process beside one that writes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainproof.cli.watching import carry_out

HEALTHY = [1 + 3 * math.exp(-i / 30) for i in range(100)]


def rows(values: list[float], tag: str = "loss", first: int = 0) -> str:
    points = enumerate(values, first)
    return "".join(json.dumps({"step": i, tag: value}) + "\n" for i, value in points)


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trainproof", "watch", *arguments]
    command += ["--interval", "0.05", "--no-isolation"]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(condition: Path, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition.exists() and time.monotonic() < end:
        time.sleep(0.02)


def test_until_fail_ends_with_one_line_of_json_for_each_change(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows(HEALTHY))
    seen = tmp_path / "seen"
    process = start("log.jsonl", "--until-fail", "--json", "--exec", f"touch {seen}", cwd=tmp_path)
    until(seen)
    with log.open("a") as file:
        file.write(rows([math.nan] * 20, first=100))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    first, second = map(json.loads, out.splitlines())
    assert (first["verdict"], first["previous"], first["findings"]) == ("PASS", None, [])
    assert (second["verdict"], second["previous"]) == ("FAIL", "PASS")
    assert second["run"] == "log.jsonl"
    (finding,) = second["findings"]
    assert (finding["id"], finding["line"], finding["path"]) == ("TP-NAN", 101, "log.jsonl")


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_the_last_verdict(tmp_path: Path, ended_by: int) -> None:
    (tmp_path / "log.jsonl").write_text(rows([*HEALTHY, *[math.nan] * 20]))
    seen = tmp_path / "seen"
    process = start(".", "--exec", f"touch {seen}", "--markdown", "report.md", cwd=tmp_path)
    until(seen)
    process.send_signal(ended_by)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert "FAIL TP-NAN  loss is NaN or infinite" in out
    assert (tmp_path / "report.md").read_text().startswith("## trainproof: FAIL")


def test_what_a_log_says_reaches_the_command_as_a_value_only(tmp_path: Path) -> None:
    tag = "loss_$(touch owned)`touch owned`;touch owned"
    (tmp_path / "log.jsonl").write_text(rows([*HEALTHY, *[math.nan] * 20], tag))
    script = tmp_path / "tell.py"
    script.write_text(
        "import json, os\n"
        "told = {k: v for k, v in os.environ.items() if k.startswith('TRAINPROOF_')}\n"
        "open('told.json', 'w').write(json.dumps(told))\n"
    )
    process = start(
        ".", "--until-fail", "--exec", f"{sys.executable} tell.py", "--quiet", cwd=tmp_path
    )
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert not (tmp_path / "owned").exists()
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["TRAINPROOF_VERDICT"] == "FAIL"
    assert told["TRAINPROOF_PREVIOUS"] == ""
    assert told["TRAINPROOF_FINDINGS"] == "TP-NAN"
    assert "touch owned" in told["TRAINPROOF_MESSAGE"]
    assert told["TRAINPROOF_RUN"] == "."
    assert "FAIL" in out


def test_a_command_that_fails_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(rows([*HEALTHY, *[math.nan] * 20]))
    process = start(".", "--until-fail", "--exec", "/no/such/program", cwd=tmp_path)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "--exec: " in err


def test_a_command_whose_time_is_over_ends_with_what_it_has_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    script = f"(echo started; sleep 600) > {pipe} & wait"
    with pytest.raises(subprocess.TimeoutExpired):
        carry_out(["sh", "-c", script], dict(os.environ), 2.0)
    assert os.read(reading, 100) == b"started\n"
    assert ended(reading)
    os.close(reading)


def ended(pipe: int, seconds: float = 20.0) -> bool:
    """Whether nobody holds the other end any more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return os.read(pipe, 1) == b""
        except BlockingIOError:
            time.sleep(0.02)
    return False


def test_nothing_judged_is_no_verdict(tmp_path: Path) -> None:
    process = start("later", cwd=tmp_path)
    assert process.stdout is not None
    assert "watching later" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [".", "--sarif", "-"],
        [".", "--exec", "an 'open quote"],
        [".", "--interval", "inf"],
        [".", "--interval", "nan"],
    ],
)
def test_what_cannot_be_honoured_is_a_usage_error(tmp_path: Path, arguments: list[str]) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "trainproof", "watch", *arguments],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert process.returncode == 2
    assert process.stdout == b""
