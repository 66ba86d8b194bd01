"""The table and the pictures of a comparison, from a finished report."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tests.rules.curves import learning
from tests.support.logs import jsonl
from trainproof import Report, audit
from trainproof.emit.comparison import comparison, principal

NAN = float("nan")


def compared(directory: Path, **runs: list[float]) -> Report:
    """The audit of ``runs`` against the one called ``base``."""
    for name, values in runs.items():
        jsonl(directory / name / "log.jsonl", {"loss": values})
    paths = [str(directory / name) for name in runs if name != "base"]
    return audit(
        *paths, baseline=str(directory / "base"), select=("TP-*RATIO", "TP-CMP-*"), isolation=False
    )


def curve(last: float, seed: int) -> list[float]:
    values: list[float] = learning(60, 3 + last, last, seed=seed).tolist()
    return values


def test_the_best_run_comes_first_and_the_one_that_died_last(tmp_path: Path) -> None:
    dead = curve(1.0, 4)[:40] + [NAN] * 20
    report = compared(
        tmp_path, base=curve(1.0, 1), bad=curve(9.0, 2), dead=dead, good=curve(0.8, 3)
    )
    text = comparison(report, width=200).decode()
    rows = [line for line in text.splitlines() if line.startswith(("FAIL", "PASS", "BASELINE"))]
    order = [next(n for n in ("base", "good", "bad", "dead") if f"/{n} " in row) for row in rows]
    assert order == ["base", "good", "bad", "dead"]
    assert rows[-1].endswith("not finite")
    assert "×" in text


def test_losses_below_zero_show_their_difference(tmp_path: Path) -> None:
    shifted = [value - 5 for value in curve(1.0, 2)]
    text = comparison(compared(tmp_path, base=curve(1.0, 1), below=shifted)).decode()
    (row,) = [line for line in text.splitlines() if line.startswith("PASS")]
    assert row.split()[-1].startswith("-")


def test_quiet_leaves_the_table_and_the_exit_code(tmp_path: Path) -> None:
    report = compared(tmp_path, base=curve(1.0, 1), bad=curve(9.0, 2))
    lines = comparison(report, quiet=True).decode().splitlines()
    assert [line[:8] for line in lines if line][-1] == "exit cod"
    assert not any("baseline  " in line for line in lines)


def test_ascii_terminals_get_ascii(tmp_path: Path) -> None:
    report = compared(tmp_path, base=curve(1.0, 1), bad=curve(9.0, 2))
    assert comparison(report, ascii=True).isascii()


def test_of_several_baselines_the_mildest_stands_for_the_run(tmp_path: Path) -> None:
    report = compared(tmp_path, base=curve(1.0, 1), bad=curve(9.0, 2))
    (subject,) = report.reports
    (harsh,) = subject.comparisons
    mild = replace(harsh, baseline="mild", baseline_end=8.0)
    assert principal(replace(subject, comparisons=(harsh, mild))) == mild
    held_out = replace(mild, split="eval")
    assert principal(replace(subject, comparisons=(held_out, harsh))) == harsh
    assert principal(replace(subject, comparisons=())) is None
