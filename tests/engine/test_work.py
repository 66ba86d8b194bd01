"""One run in one process: what its supervisor is told meanwhile."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support import tfevents as tb
from trainproof.engine.beacon import Phase
from trainproof.engine.work import Stores, judge
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.progress import Amount
from trainproof.model.wire import Settings, Task


class Recorder:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Phase, int]] = []
        self.amounts: list[Amount] = []

    def at(self, phase: Phase, item: int = 0, amount: Amount | None = None) -> None:
        self.seen.append((phase, item))
        if amount is not None:
            self.amounts.append(amount)


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        ("text", b"".join(b"step %d loss 0.5 %s\n" % (i, b"x" * 900) for i in range(7000))),
        ("tfevents", tb.event_file([tb.event(tb.block(4, bytes(1 << 20)))] * 20)),
    ],
)
def test_a_large_file_renews_its_deadline_while_it_is_read(
    tmp_path: Path, reader: str, data: bytes
) -> None:
    (tmp_path / "a.log").write_bytes(data)
    artifacts = (Artifact(str(tmp_path), "a.log", len(data), Kind.LOG, reader),)
    told = Recorder()
    judge(Task(0, Run("a", str(tmp_path), artifacts)), Settings(rules=()), told)
    assert told.seen.count((Phase.READING, 0)) > 3
    amounts = told.amounts
    assert amounts == sorted(amounts)
    assert amounts[0] == Amount(0, len(data))
    assert 0 < amounts[2].done < amounts[-1].done <= len(data)


def test_what_is_compressed_counts_as_it_lies_on_the_disk(tmp_path: Path) -> None:
    rows = b"".join(b"step %d loss %f\n" % (i, 1 / (i * i + 1)) for i in range(50_000))
    data = gzip.compress(rows)
    (tmp_path / "a.log.gz").write_bytes(data)
    (tmp_path / "b.log").write_bytes(b"step 1 loss 0.5\n")
    artifacts = (
        Artifact(str(tmp_path), "a.log.gz", len(data), Kind.LOG, "text"),
        Artifact(str(tmp_path), "b.log", 16, Kind.LOG, "text"),
    )
    told = Recorder()
    judge(Task(0, Run("a", str(tmp_path), artifacts)), Settings(rules=()), told)
    assert told.amounts[-1].total == len(data) + 16
    assert Amount(len(data), len(data) + 16) in told.amounts
    assert told.amounts == sorted(told.amounts)


@pytest.mark.parametrize(("live", "content"), [(False, b"one"), (True, b"two")])
def test_only_a_root_that_is_watched_is_looked_up_again(
    tmp_path: Path, live: bool, content: bytes
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").write_bytes(name.encode())
    link, stores = tmp_path / "latest", Stores()
    link.symlink_to("one")
    settings = Settings(rules=(), live=live)
    with stores.of(str(link), settings).open("a.log") as stream:
        assert stream.read() == b"one"
    link.unlink()
    link.symlink_to("two")
    with stores.of(str(link), settings).open("a.log") as stream:
        assert stream.read() == content
