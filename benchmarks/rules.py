"""What judging one large run costs, beside reading it.

    python -m benchmarks.rules [--rows 100000] [--repeat 5]

One run of twenty series (a loss and three parts of it, held-out losses and metrics, rates, norms,
times), a value of each on every row, as JSON lines, as CSV and as a TensorBoard event
file. Read through its reader, assembled, and judged by every rule about runs, in this process; the
rules are given a fresh view each time, because they share what they measured of a series. The
slowest rules are named.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO

import numpy as np
from msgspec.structs import replace

from tests.support.tfevents import scalar, version
from trainproof.assembly import Reading, assemble
from trainproof.engine.evaluate import evaluate
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, Floats, RunView
from trainproof.model.rule import SubjectKind
from trainproof.readers import reader
from trainproof.readers.interface import Options
from trainproof.rules import REGISTRY, Rule

TAGS = (
    ("loss", 2.0, -0.6),
    ("loss_cls", 1.0, -0.6),
    ("loss_box", 0.7, -0.5),
    ("loss_obj", 0.3, -0.4),
    ("eval_loss", 2.1, -0.5),
    ("eval_accuracy", 0.3, 0.6),
    ("eval_f1", 0.2, 0.6),
    ("accuracy", 0.3, 0.7),
    ("learning_rate", 1e-3, -1.0),
    ("grad_norm", 1.0, -0.2),
    ("loss_scale", 65536.0, 0.0),
    ("step_time", 0.1, 0.0),
    ("data_time", 0.01, 0.0),
    ("samples_per_second", 320.0, 0.0),
    ("gpu_util", 90.0, 0.0),
    ("perplexity", 8.0, -0.5),
    ("eval_precision", 0.3, 0.5),
    ("eval_recall", 0.3, 0.5),
    ("gpu_memory", 20.0, 0.0),
    ("tokens_seen", 1.0, 0.0),
)
"""Tag, level at the start, and what share of it is gained by the end."""


def values(rows: int) -> dict[str, Floats]:
    draw = np.random.default_rng(0)
    curve = 1 - (1 + 20 * np.arange(rows) / rows) ** -0.7
    return {
        tag: level * (1 + gain * curve) * (1 + 0.05 * draw.standard_normal(rows))
        for tag, level, gain in TAGS
    }


def as_json_lines(columns: Mapping[str, Floats]) -> bytes:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = (
        json.dumps({"step": step, **dict(zip(columns, row, strict=True))})
        for step, row in enumerate(rows, 1)
    )
    return "\n".join(lines).encode()


def as_csv(columns: Mapping[str, Floats]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("step", *columns))
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    writer.writerows((step, *row) for step, row in enumerate(rows, 1))
    return out.getvalue().encode()


def as_events(columns: Mapping[str, Floats]) -> bytes:
    lists = {tag: column.tolist() for tag, column in columns.items()}
    rows = range(len(next(iter(lists.values()))))
    records = (scalar(tag, column[i], i + 1) for i in rows for tag, column in lists.items())
    return version() + b"".join(records)


FORMATS: Mapping[str, tuple[str, Callable[[Mapping[str, Floats]], bytes]]] = {
    "JSON lines": ("jsonl", as_json_lines),
    "CSV": ("csv", as_csv),
    "event file": ("tfevents", as_events),
}


def read(data: bytes, name: str) -> Reading:
    artifact = Artifact(".", f"log.{name}", len(data), Kind.LOG, name)
    items = reader(name).read(artifact, BytesIO(data), Options())
    return Reading(artifact, tuple(item for item in items if isinstance(item, Column)))


def fresh(view: RunView) -> RunView:
    """The same view of series that no rule has measured."""
    return replace(
        view,
        attempts=tuple(
            replace(one, series=tuple(replace(series) for series in one.series))
            for one in view.attempts
        ),
    )


def seconds(repeat: int, action: Callable[[], object]) -> float:
    """The least of several, since nothing makes it faster than it is."""
    taken = []
    for _ in range(repeat):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def judged(view: RunView, rules: list[Rule]) -> None:
    new = fresh(view)
    for rule in rules:
        evaluate(rule, new, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    columns = values(options.rows)
    rules = [rule for rule in REGISTRY.values() if rule.info.subject is SubjectKind.RUN]
    print(f"{options.rows} rows of {len(columns)} series, {len(rules)} rules")
    for title, (name, write) in FORMATS.items():
        data = write(columns)
        view = assemble("run", [read(data, name)])
        reading = seconds(options.repeat, partial(read, data, name))
        judging = seconds(options.repeat, partial(judged, view, rules))
        print(
            f"{title:12}{len(data) / 1e6:7.1f} MB: read in {reading:.3f} s, judged in"
            f" {judging:.3f} s, {judging / reading:.2f} of it"
        )
    slowest(view, rules, options.repeat)


def slowest(view: RunView, rules: list[Rule], repeat: int) -> None:
    each = {rule.info.id: seconds(repeat, partial(judged, view, [rule])) for rule in rules}
    for id, taken in sorted(each.items(), key=lambda item: -item[1])[:8]:
        print(f"  {id:26}{1000 * taken:7.1f} ms by itself")


if __name__ == "__main__":
    main()
