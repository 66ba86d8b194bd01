"""One run in one process: what its supervisor is told meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import tfevents as tb
from trainproof.engine.work import Phase, judge
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.wire import Settings, Task


class Recorder:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Phase, int]] = []

    def at(self, phase: Phase, item: int = 0) -> None:
        self.seen.append((phase, item))


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
