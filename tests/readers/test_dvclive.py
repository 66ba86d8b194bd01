"""DVCLive's tables, as DVCLive wrote them: one for each metric, named by its path."""

from __future__ import annotations

from trainproof.model.data import Axis
from trainproof.readers.delimited import Delimited

from .readings import read_file


def test_the_path_of_a_table_is_the_name_of_its_metric() -> None:
    got = read_file(Delimited(), "dvclive/plots/metrics/train/loss.tsv")
    loss = got["train/loss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.STEP, [0, 1, 2, 3, 4, 5])
    assert repr(loss.values.tolist()) == "[2.0, 1.5, nan, 1.25, inf, 1.0]"
    assert read_file(Delimited(), "dvclive/plots/metrics/lr.tsv").values("lr") == [0.001] * 6
