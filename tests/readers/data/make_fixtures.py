"""Make the small logs in this folder with the frameworks themselves.

    python make_fixtures.py mlflow wandb catboost xgboost lightgbm sacred dvclive

Each name needs its package. What says where and by
whom a log was made (hosts, users, paths, ids) is replaced, so that a second run differs in clocks
only. ``VERSIONS.txt`` tells what the committed files were made with.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
NAN, INF = float("nan"), float("inf")
LOSSES = [2.0, 1.5, NAN, 1.25, INF, 1.0]


def mlflow(work: Path) -> None:
    """Two runs in the file store; the second failed."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient  # noqa: PLC0415

    client = MlflowClient(f"file:{work}/mlruns")
    clock = 1_700_000_000_000
    for status in ("FINISHED", "FAILED"):
        run = client.create_run("0", start_time=clock).info.run_id
        for name, setting in (("learning_rate", 0.001), ("epochs", 3), ("activation", "relu")):
            client.log_param(run, name, setting)
        for step, value in enumerate(LOSSES):
            client.log_metric(run, "train/loss", value, clock + 1000 * step, 10 * step)
            client.log_metric(run, "no_step", value, clock + 1000 * step)
        client.log_metric(run, "val/acc", 0.5, clock, 50)
        client.set_terminated(run, status, end_time=clock + 9000)
    out = _emptied("mlflow")
    runs = sorted(p.parent for p in (work / "mlruns" / "0").glob("*/metrics"))
    runs.sort(key=lambda run: "status: 4" in (run / "meta.yaml").read_text())
    for number, run in enumerate(runs):
        kept = out / "mlruns" / "0" / f"{number:032x}"
        for part in ("metrics", "params"):
            shutil.copytree(run / part, kept / part)
        meta = (run / "meta.yaml").read_text().replace(run.name, kept.name)
        meta = re.sub(r"(?m)^(artifact_uri|user_id|run_name): .*", r"\1: x", meta)
        (kept / "meta.yaml").write_text(meta)


def _emptied(name: str) -> Path:
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    return HERE / name


MAKERS: Mapping[str, Callable[[Path], None]] = {"mlflow": mlflow}
PACKAGES = {"mlflow": "mlflow-skinny"}


def main(names: list[str]) -> None:
    made = HERE / "VERSIONS.txt"
    known = dict(line.split("==") for line in made.read_text().split()) if made.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            MAKERS[name](Path(work))
        package = PACKAGES.get(name, name)
        known[package] = version(package)
    made.write_text("".join(f"{name}=={known[name]}\n" for name in sorted(known)))


if __name__ == "__main__":
    main(sys.argv[1:])
