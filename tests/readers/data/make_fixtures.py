"""Make the small logs in this folder with the frameworks themselves.

    python make_fixtures.py mlflow wandb catboost xgboost lightgbm sacred dvclive

Each name needs its package. What says where and by
whom a log was made (hosts, users, paths, ids) is replaced, so that a second run differs in clocks
only. ``VERSIONS.txt`` tells what the committed files were made with.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent.resolve()
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


def wandb(work: Path) -> None:
    """One run with nested keys, a histogram, NaN and infinity, that finished; and one that
    crashed."""
    import wandb as library  # noqa: PLC0415

    out = _emptied("wandb")
    settings = library.Settings(
        mode="offline", console="off", silent=True, save_code=False, disable_git=True,
        host="host", username="user", program="train.py", root_dir=str(work),
        x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
    )  # fmt: skip
    for name, code in (("finished", 0), ("crashed", 1)):
        config = {"optimizer": {"lr": 0.001}, "epochs": 3, "fp16": True}
        run = library.init(project="p", config=config, settings=settings, id=name)
        for step, value in enumerate(LOSSES):
            row = {"train": {"loss": value}, "lr": 0.001 - 0.0001 * step}
            run.log(row | {"weights": library.Histogram([0.0, 1.0], num_bins=2)})
        run.log({"val/loss": 2.5}, step=20)
        run.finish(exit_code=code)
        library.teardown()  # until then the last records may not be written
        (made,) = work.glob(f"wandb/offline-run-*/run-{name}.wandb")
        shutil.copy(made, out / made.name)


def catboost(work: Path) -> None:
    """A regression with one set to evaluate on, a classification with two."""
    from catboost import CatBoost  # noqa: PLC0415

    features, targets = _table()
    common = {"iterations": 8, "verbose": False, "random_seed": 0, "thread_count": 1}
    held_out = [(features[a:b], targets[a:b]) for a, b in ((200, 250), (250, 300))]
    train = (features[:200], targets[:200])
    CatBoost(common | {"train_dir": str(work / "one")}).fit(*train, eval_set=held_out[0])
    metrics = {"loss_function": "Logloss", "custom_metric": ["Accuracy"], "eval_metric": "AUC"}
    CatBoost(common | metrics | {"train_dir": str(work / "two")}).fit(*train, eval_set=held_out)
    out = _emptied("catboost")
    for name in ("one", "two"):
        (out / name).mkdir()
        for kept in ("learn_error.tsv", "test_error.tsv", "catboost_training.json"):
            shutil.copy(work / name / kept, out / name / kept)
    shutil.copytree(work / "one" / "test", out / "one" / "test")


def xgboost(work: Path) -> None:
    """What is printed while training and while cross-validating, and the results as JSON."""
    import xgboost as library  # noqa: PLC0415

    features, targets = _table()
    train = library.DMatrix(features[:200], targets[:200])
    held_out = library.DMatrix(features[200:], targets[200:])
    sets = [(train, "train"), (held_out, "eval")]
    results: dict[str, object] = {}
    settings = {"objective": "binary:logistic", "nthread": 1, "eval_metric": ["logloss", "auc"]}
    out = _emptied("xgboost")
    with _printed_to(out / "train.log"):
        library.train(settings, train, 5, evals=sets, evals_result=results)
    with _printed_to(out / "cv.log"):
        library.cv(settings | {"eval_metric": "logloss"}, train, 3, nfold=3, verbose_eval=True)
    (out / "evals_result.json").write_text(json.dumps(results))


def lightgbm(work: Path) -> None:
    import lightgbm as library  # noqa: PLC0415

    features, targets = _table()
    train = library.Dataset(features[:200], targets[:200], free_raw_data=False)
    held_out = train.create_valid(features[200:], targets[200:])
    settings = {"objective": "binary", "num_threads": 1, "metric": ["binary_logloss", "auc"]}
    results: dict[str, object] = {}
    say = library.log_evaluation(1)
    out = _emptied("lightgbm")
    with _printed_to(out / "train.log"):
        seen = [say, library.record_evaluation(results), library.early_stopping(3)]
        library.train(settings, train, 5, valid_sets=[train, held_out], callbacks=seen)
    (out / "evals_result.json").write_text(json.dumps(results))


def sacred(work: Path) -> None:
    """One experiment that is completed and one that fails."""
    from sacred import Experiment  # noqa: PLC0415
    from sacred.observers import FileStorageObserver  # noqa: PLC0415

    out = _emptied("sacred")
    for name, fails in (("completed", False), ("failed", True)):
        experiment = Experiment("e", save_git_info=False)
        experiment.observers.append(FileStorageObserver(str(work / name)))

        @experiment.main
        def training(_run: object, fails: bool = fails) -> None:
            for step, value in enumerate(LOSSES):
                _run.log_scalar("training.loss", value, 10 * step)
                _run.log_scalar("val.accuracy", 0.1 * step)
            if fails:
                raise ValueError

        with contextlib.suppress(ValueError):
            experiment.run()
        (out / name).mkdir()
        shutil.copy(work / name / "1" / "metrics.json", out / name / "metrics.json")
        run = json.loads((work / name / "1" / "run.json").read_text())
        run["host"], run["experiment"]["base_dir"] = {}, "x"
        run["experiment"]["dependencies"], run["fail_trace"] = [], []
        run["experiment"]["sources"], run["meta"] = [], {}
        (out / name / "run.json").write_text(json.dumps(run, indent=2, sort_keys=True))


def dvclive(work: Path) -> None:
    from dvclive import Live  # noqa: PLC0415

    os.chdir(work)  # it makes a DVC repository of where it is started
    with Live("dvclive", save_dvc_exp=False, dvcyaml=None) as live:
        for value in LOSSES:
            live.log_metric("train/loss", value)
            live.log_metric("lr", 0.001)
            live.next_step()
    shutil.copytree(work / "dvclive" / "plots", _emptied("dvclive") / "plots")


def _table() -> tuple[object, object]:
    """300 rows that a tree can learn from."""
    import numpy as np  # noqa: PLC0415

    chance = np.random.default_rng(0)
    features = chance.normal(size=(300, 4))
    return features, (features[:, 0] + 0.3 * chance.normal(size=300) > 0).astype(int)


@contextlib.contextmanager
def _printed_to(path: Path) -> Iterator[None]:
    """Both what Python prints and what the library prints behind its back."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("w") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


def _emptied(name: str) -> Path:
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    return HERE / name


MAKERS: Mapping[str, Callable[[Path], None]] = {
    one.__name__: one for one in (mlflow, wandb, catboost, xgboost, lightgbm, sacred, dvclive)
}
PACKAGES = {"mlflow": "mlflow-skinny", "xgboost": "xgboost-cpu"}


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
