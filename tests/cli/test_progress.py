"""What a person sees who waits: how much has been judged and read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from trainproof import api
from trainproof.cli.progress import reporting, spoken
from trainproof.config import Config
from trainproof.model.inspection import Requests
from trainproof.model.progress import Amount, Progress
from trainproof.model.rule import SubjectKind


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(2, 7, Amount()), "2 of 7"),
        (Progress(0, 1, Amount(rows=12_345)), "0 of 1, 12,345 rows"),
        (Progress(0, 1, Amount(12, 999)), "0 of 1, 12 of 999 bytes"),
        (Progress(0, 3, Amount(1_234_567, 12_000_000)), "0 of 3, 1.2 of 12.0 MB"),
        (
            Progress(0, 1, Amount(1_250_000_000, 12_000_000_000, 3_400_000)),
            "0 of 1, 1.2 of 12.0 GB, 3,400,000 rows",
        ),
        (Progress(0, 1, Amount(10**17, 10**18)), "0 of 1, 100000.0 of 1000000.0 TB"),
    ],
)
def test_amounts_are_told_in_the_unit_of_the_whole(progress: Progress, text: str) -> None:
    assert spoken(progress) == text


def test_a_terminal_shows_how_much_of_one_file_has_been_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    with reporting(True, terminal) as told:
        assert told is not None
        told(Progress(0, 1, Amount(3_000_000, 12_000_000, 5000)))
    assert "0 of 1, 3.0 of 12.0 MB, 5,000 rows" in terminal.getvalue()


@pytest.mark.parametrize(("wanted", "stream"), [(True, io.StringIO()), (False, Terminal())])
def test_nothing_is_shown_where_nobody_looks(wanted: bool, stream: io.StringIO) -> None:
    with reporting(wanted, stream) as told:
        assert told is None
    assert stream.getvalue() == ""


@pytest.mark.parametrize("isolation", [True, False])
def test_an_audit_tells_what_it_has_read(tmp_path: Path, isolation: bool) -> None:
    for name, rows in (("a", 10), ("b", 20)):
        text = "".join(f'{{"text": "row {n} of a small file"}}\n' for n in range(rows))
        (tmp_path / f"{name}.jsonl").write_text(text)
    paths = tuple(str(path) for path in sorted(tmp_path.iterdir()))
    total = sum(Path(path).stat().st_size for path in paths)
    told: list[Progress] = []
    config = Config(paths=paths, isolation=isolation, jobs=1)
    api.inspect(config, SubjectKind.DATASET, Requests(), told.append)
    assert [(one.judged, one.subjects) for one in told if one.judged][-1] == (2, 2)
    assert told[-1].read[:2] == (total, total)
    done = [one.read.done for one in told]
    assert done == sorted(done)
