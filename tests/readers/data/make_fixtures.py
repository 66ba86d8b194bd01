"""Make the small logs in this folder with the frameworks themselves.

    python make_fixtures.py mlflow wandb catboost xgboost lightgbm sacred dvclive neptune clearml \
        keras lightning transformers stable_baselines3 skorch ultralytics

Each name needs its package (mlflow also sqlalchemy and alembic, keras and skorch also torch,
lightning also tensorboard, transformers also accelerate). What says where and by
whom a log was made (hosts, users, paths, ids) is replaced, so that a second run differs in clocks
only. ``VERSIONS.txt`` tells what the committed files were made with.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent.resolve()
NAN, INF = float("nan"), float("inf")
LOSSES = [2.0, 1.5, NAN, 1.25, INF, 1.0]


def mlflow(work: Path) -> None:
    """Two runs in the file store, and in a database; the second failed."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    _log_to_mlflow(f"file:{work}/mlruns")
    _log_to_mlflow(f"sqlite:///{work}/mlflow.db")
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
    shutil.copy(work / "mlflow.db", out / "mlflow.db")
    _anonymise(out / "mlflow.db")


def _log_to_mlflow(uri: str) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415

    client = MlflowClient(uri)
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


def _anonymise(path: Path) -> None:
    """Keep the tables of runs, with ids that every run of this script gives them, and no names."""
    kept = ("runs", "metrics", "latest_metrics", "params", "experiments")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            if table not in kept and not table.startswith("sqlite_"):
                database.execute(f"DROP TABLE {table}")
        runs = database.execute("SELECT run_uuid FROM runs ORDER BY status DESC").fetchall()
        for number, (run,) in enumerate(runs):
            for table in ("runs", "metrics", "latest_metrics", "params"):
                where = (f"{number:032x}", run)
                database.execute(f"UPDATE {table} SET run_uuid = ? WHERE run_uuid = ?", where)
        database.execute("UPDATE runs SET name = 'x', user_id = 'x', artifact_uri = 'x'")
        database.execute("UPDATE experiments SET artifact_location = 'x'")
        database.execute("PRAGMA page_size = 1024")
        database.execute("VACUUM")


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


def neptune(work: Path) -> None:
    os.chdir(work)
    import neptune as library  # noqa: PLC0415

    run = library.init_run(
        mode="offline", project="w/p", capture_hardware_metrics=False, capture_stdout=False,
        capture_stderr=False, capture_traceback=False, source_files=[], git_ref=False,
    )  # fmt: skip
    for step, value in enumerate(LOSSES):
        if math.isfinite(value):  # the client leaves out what is not
            run["train/loss"].append(value, step=10 * step)
        run["val/acc"].append(0.1 * step)
    run["parameters"] = {"learning_rate": 0.001, "epochs": 3}
    run.stop()
    (made,) = work.glob(".neptune/offline/*/data-1.log")
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    for operation in (line["obj"] for line in lines):
        if operation["path"][0] in ("sys", "monitoring", "source_code") and "value" in operation:
            operation["value"] = "x"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (_emptied("neptune") / "data-1.log").write_text(text)


def clearml(work: Path) -> None:
    os.environ["HOME"] = str(work)  # where its cache is
    from clearml import Task  # noqa: PLC0415

    Task.set_offline(True)
    task = Task.init(
        "p", "t", auto_connect_frameworks=False, auto_connect_arg_parser=False,
        auto_resource_monitoring=False, auto_connect_streams=False,
    )  # fmt: skip
    for step, value in enumerate(LOSSES):
        task.get_logger().report_scalar("loss", "train", value, 10 * step)
        task.get_logger().report_scalar("accuracy", "accuracy", 0.1 * step, 10 * step)
    task.close()
    made = task.get_offline_mode_folder() / "metrics.jsonl"
    (_emptied("clearml") / "metrics.jsonl").write_text(made.read_text().replace(task.id, "t"))


def keras(work: Path) -> None:
    """What CSVLogger writes, what History holds, and what is printed."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as library  # noqa: PLC0415

    features, targets = _table()
    library.utils.set_random_seed(0)
    model = library.Sequential([library.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
    out = _emptied("keras")
    seen = [library.callbacks.CSVLogger(str(out / "training.log"))]
    with _printed_to(out / "console.log"):
        fitted = model.fit(
            features, targets, epochs=5, validation_split=0.2, callbacks=seen, verbose=1
        )
    (out / "history.json").write_text(json.dumps(fitted.history))


def lightning(work: Path) -> None:
    """The CSV and the events of one training."""
    import lightning as library  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger  # noqa: PLC0415

    class Model(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            loss = self._loss(batch)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
            self.log("val_loss", self._loss(batch))

        def _loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
            features, targets = batch
            logits = self.layer(features)[:, 0]
            return torch.nn.functional.binary_cross_entropy_with_logits(logits, targets)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    library.seed_everything(0)
    columns = (torch.as_tensor(one, dtype=torch.float32) for one in _table())
    data = torch.utils.data.TensorDataset(*columns)
    batches = torch.utils.data.DataLoader(data, 30)
    loggers = [kind(str(work), name=kind.__name__) for kind in (CSVLogger, TensorBoardLogger)]
    trainer = library.Trainer(
        max_epochs=3, log_every_n_steps=2, logger=loggers, enable_checkpointing=False,
        callbacks=[library.pytorch.callbacks.LearningRateMonitor()], accelerator="cpu",
        enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Model(), batches, batches)
    out = _emptied("lightning")
    (events,) = (work / "TensorBoardLogger" / "version_0").glob("events.*")
    shutil.copy(events, out / "events.out.tfevents.1700000000.host.1.0")
    shutil.copy(work / "CSVLogger" / "version_0" / "metrics.csv", out / "metrics.csv")


def transformers(work: Path) -> None:
    """What the Trainer saves with its second checkpoint and at the end, and what it prints."""
    os.chdir(work)
    import torch  # noqa: PLC0415
    import transformers as library  # noqa: PLC0415

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.layer(x)[:, 0]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
            return {"loss": loss, "logits": logits}

    library.set_seed(0)
    columns = (torch.as_tensor(one, dtype=torch.float32) for one in _table())
    rows = [{"x": x, "labels": y} for x, y in zip(*columns, strict=True)]
    settings = library.TrainingArguments(
        output_dir="out", max_steps=30, logging_steps=5, eval_strategy="steps", eval_steps=10,
        save_steps=10, per_device_train_batch_size=10, use_cpu=True, report_to=[],
    )  # fmt: skip
    out = _emptied("transformers")
    with _printed_to(out / "console.log"):
        trainer = library.Trainer(Model(), settings, train_dataset=rows, eval_dataset=rows)
        trainer.train()
    trainer.save_state()
    (out / "checkpoint-20").mkdir()
    for name in ("trainer_state.json", "checkpoint-20/trainer_state.json"):
        shutil.copy(work / "out" / name, out / name)


def stable_baselines3(work: Path) -> None:
    """The CSV, the tables and the returns of the episodes of one training."""
    import gymnasium  # noqa: PLC0415
    from stable_baselines3 import PPO  # noqa: PLC0415
    from stable_baselines3.common.logger import configure  # noqa: PLC0415
    from stable_baselines3.common.monitor import Monitor  # noqa: PLC0415

    out = _emptied("stable_baselines3")
    environment = Monitor(gymnasium.make("CartPole-v1"), str(out / "monitor.csv"))
    model = PPO("MlpPolicy", environment, n_steps=64, batch_size=32, n_epochs=2, seed=0)
    with _printed_to(out / "console.log"):
        model.set_logger(configure(str(work), ["stdout", "csv"]))
        model.learn(320)
    shutil.copy(work / "progress.csv", out / "progress.csv")
    console = out / "console.log"
    console.write_text(console.read_text().replace(str(work), "logs"))


def skorch(_: Path) -> None:
    """The table that is printed; the best values in colour."""
    import torch  # noqa: PLC0415
    from skorch import NeuralNetClassifier  # noqa: PLC0415

    features, targets = _table()
    torch.manual_seed(0)
    with _printed_to(_emptied("skorch") / "console.log"):
        model = NeuralNetClassifier(
            torch.nn.Linear(4, 2), criterion=torch.nn.CrossEntropyLoss, max_epochs=5, lr=0.1
        )
        model.fit(features.astype("float32"), targets)


def ultralytics(work: Path) -> None:
    """Three epochs on eight squares: the CSV, and the tables that are printed."""
    os.chdir(work)
    os.environ["YOLO_CONFIG_DIR"] = str(work)
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    chance = np.random.default_rng(0)
    for part in ("train", "val"):
        for kind in ("images", "labels"):
            (work / kind / part).mkdir(parents=True)
        for number in range(8):
            pixels = chance.integers(0, 60, (64, 64, 3), dtype=np.uint8)
            x, y = chance.integers(10, 40, 2)
            pixels[y : y + 16, x : x + 16] = (250, 20, 20)
            Image.fromarray(pixels).save(work / "images" / part / f"{number}.png")
            box = f"0 {(x + 8) / 64} {(y + 8) / 64} 0.25 0.25\n"
            (work / "labels" / part / f"{number}.txt").write_text(box)
    names = "train: images/train\nval: images/val\nnames:\n  0: square\n"
    (work / "data.yaml").write_text(f"path: {work}\n{names}")
    from ultralytics import YOLO, settings  # noqa: PLC0415

    settings.update({name: False for name in settings if isinstance(settings[name], bool)})
    out = _emptied("ultralytics")
    with _printed_to(out / "console.log"):
        YOLO("yolov8n.yaml").train(
            data="data.yaml", epochs=3, imgsz=64, batch=4, device="cpu", workers=0, plots=False,
            amp=False, project=str(work / "runs"), name="train", seed=0,
        )  # fmt: skip
    shutil.copy(work / "runs" / "train" / "results.csv", out / "results.csv")
    console = (out / "console.log").read_text()
    begin, end = console.index("      Epoch "), console.index("3 epochs completed")
    (out / "console.log").write_text(console[begin:end])


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
    one.__name__: one
    for one in (
        *(mlflow, wandb, catboost, xgboost, lightgbm, sacred, dvclive, neptune, clearml),
        *(keras, lightning, transformers, stable_baselines3, skorch, ultralytics),
    )
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
