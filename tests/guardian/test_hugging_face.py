"""The callback inside a real Trainer."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from trainproof.guardian import core
from trainproof.guardian.hugging_face import TrainproofCallback
from trainproof.guardian.labels import check_labels
from trainproof.model.data import RunView
from trainproof.model.report import Verdict

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Points(torch.utils.data.Dataset[Any]):
    """Rows that draw random numbers of their own, as augmentation does."""

    def __init__(self, count: int = 96) -> None:
        generator = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(count, 8, generator=generator)
        self.labels = (self.inputs[:, 0] > 0).long() + (self.inputs[:, 1] > 0).long()
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, at: int) -> dict[str, Any]:
        self.read.append(at)
        noise = 0.01 * torch.randn(8) + 0.01 * float(np.random.rand())
        return {"inputs": self.inputs[at] + noise, "labels": self.labels[at]}


class Classifier(torch.nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.config = transformers.PretrainedConfig(num_labels=classes)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(16, 3)
        )

    def forward(self, inputs: Any, labels: Any = None) -> dict[str, Any]:
        logits = self.body(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def train(
    home: Path, callback: TrainproofCallback | None, *, lr: float = 1e-2, **options: Any
) -> tuple[Any, Points]:
    transformers.set_seed(11)
    model, data = Classifier(), options.pop("data", None) or Points()
    resumed = options.pop("resumed", None)
    settings: dict[str, Any] = {
        "max_steps": 60,
        "per_device_train_batch_size": 8,
        "logging_steps": 1,
        "learning_rate": lr,
        "lr_scheduler_type": "constant",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 11,
    }
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(output_dir=str(home), **(settings | options)),
        train_dataset=data,
        eval_dataset=Points(16),
        callbacks=[] if callback is None else [callback],
    )
    trainer.train(resume_from_checkpoint=resumed)
    return trainer, data


def same_weights(one: Any, other: Any) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("workers", "policy"), [(0, "warn"), (2, "stop_on_fail")])
def test_a_run_is_bit_identical_with_and_without_the_callback(
    tmp_path: Path, workers: int, policy: str
) -> None:
    options = {"dataloader_num_workers": workers, "max_steps": 24, "eval_steps": 8}
    options |= {"eval_strategy": "steps"}
    plain, seen = train(tmp_path / "plain", None, **options)
    watched, same = train(tmp_path / "watched", TrainproofCallback(policy), **options)
    assert same_weights(plain, watched)
    assert seen.read == same.read
    assert plain.state.global_step == watched.state.global_step == 24


def test_so_it_is_with_accumulation_evaluation_and_a_resume(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "gradient_accumulation_steps": 3,
        "max_steps": 12,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_strategy": "steps",
        "save_steps": 6,
    }
    train(tmp_path / "first", None, **options)
    options |= {"max_steps": 18, "resumed": str(tmp_path / "first" / "checkpoint-6")}
    plain, seen = train(tmp_path / "plain", None, **options)
    callback = TrainproofCallback("stop_on_fail")
    watched, same = train(tmp_path / "watched", callback, **options)
    assert same_weights(plain, watched)
    assert seen.read == same.read
    (run,) = callback.guardian.report.reports
    loss = next(one for one in run.series if one.name == "loss")
    assert (loss.points, loss.first_step, loss.last_step) == (18, 1, 18)
    assert run.facts["grad_accumulation"] == 3


def test_the_objective_check_puts_random_numbers_back(tmp_path: Path) -> None:
    plain, seen = train(tmp_path / "plain", None, max_steps=12)
    callback = TrainproofCallback(objective_check=True)
    watched, same = train(tmp_path / "watched", callback, max_steps=12)
    assert same_weights(plain, watched)
    assert same.read == [*range(96), *seen.read]
    assert callback.objective.worst_verdict is Verdict.PASS


def test_the_report_stands_beside_the_run(tmp_path: Path) -> None:
    callback = TrainproofCallback()
    train(tmp_path, callback)
    report = json.loads((tmp_path / "trainproof-report.json").read_text())
    assert report["worst_verdict"] == str(callback.guardian.verdict)
    (run,) = report["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert names["loss"] == names["grad_norm"] == names["learning_rate"] == 60
    assert names["step_time"] == names["loader_time"] == 60
    assert "train_loss" not in names
    assert run["facts"]["max_steps"] == 60
    assert run["facts"]["batch_size"] == 8
    assert (tmp_path / "trainproof-report.md").read_text().startswith("## trainproof")


def test_a_training_that_diverges_is_stopped(tmp_path: Path) -> None:
    callback = TrainproofCallback("stop_on_fail")
    trainer, _ = train(tmp_path, callback, lr=1e4, max_steps=300, optim="sgd", max_grad_norm=0.0)
    assert 10 <= trainer.state.global_step < 150
    assert callback.guardian.verdict is Verdict.FAIL


def test_by_default_a_fail_is_said_and_nothing_is_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = TrainproofCallback()
    with caplog.at_level(logging.WARNING, "trainproof.guardian"):
        trainer, _ = train(tmp_path, callback, lr=1e4, optim="sgd", max_grad_norm=0.0)
    assert trainer.state.global_step == 60
    assert callback.guardian.verdict is Verdict.FAIL
    assert "trainproof: FAIL" in caplog.text


def test_a_fault_in_the_callback_does_not_stop_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> RunView:
        raise RuntimeError("a bug")

    monkeypatch.setattr(core.Journal, "view", broken)
    trainer, _ = train(tmp_path, TrainproofCallback("stop_on_fail"), max_steps=20)
    assert trainer.state.global_step == 20
    assert caplog.text.count("RuntimeError in log: the training goes on") == 1
    assert caplog.text.count("RuntimeError in finish: the run was not judged") == 1


class Broken(Points):
    """Cannot be read any more after a while."""

    def __getitem__(self, at: int) -> dict[str, Any]:
        if len(self.read) == 320:
            raise OSError("the disk is gone")
        return super().__getitem__(at)


def test_a_training_that_raises_leaves_its_report(tmp_path: Path) -> None:
    callback = TrainproofCallback()
    with pytest.raises(OSError, match="the disk is gone"):
        train(tmp_path, callback, data=Broken())
    assert callback.guardian is not None
    callback.guardian.leave()  # as when the program ends
    (run,) = json.loads((tmp_path / "trainproof-report.json").read_text())["reports"]
    assert next(one["points"] for one in run["series"] if one["name"] == "loss") == 40 - 1


def test_a_resumed_training_knows_what_was_logged_before(tmp_path: Path) -> None:
    train(tmp_path, None, max_steps=20, save_strategy="steps", save_steps=10)
    callback = TrainproofCallback()
    transformers.set_seed(11)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=30,
        per_device_train_batch_size=8,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(
        Classifier(), arguments, train_dataset=Points(), callbacks=[callback]
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-20"))
    (run,) = callback.guardian.report.reports
    loss = next(one for one in run.series if one.name == "loss")
    assert (loss.points, loss.first_step, loss.last_step) == (30, 1, 30)


# --- labels -------------------------------------------------------------------------------------


class Loader:
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset


def tiny_gpt() -> Any:
    settings = transformers.GPT2Config(
        vocab_size=64, n_positions=64, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(settings)


def texts(shift: int) -> list[dict[str, list[int]]]:
    rows = np.random.default_rng(0).integers(0, 64, (8, 48))
    return [{"input_ids": row.tolist(), "labels": np.roll(row, -shift).tolist()} for row in rows]


def test_labels_shifted_before_a_causal_model_are_found() -> None:
    report = check_labels(tiny_gpt(), Loader(texts(1)), 8, core.Config())
    assert [one.id for _, one in report.findings()][:1] == ["TP-OBJ-LABEL-SHIFT-DOUBLE"]
    report = check_labels(tiny_gpt(), Loader(texts(0)), 8, core.Config())
    assert report.worst_verdict is not Verdict.FAIL


def test_a_label_beyond_the_output_layer_is_found() -> None:
    data = [{"labels": 0}, {"labels": 3}, {"labels": 1}]
    report = check_labels(Classifier(), Loader(data), 3, core.Config())
    assert "TP-OBJ-TARGET-OUT-OF-RANGE" in [one.id for _, one in report.findings()]


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"num_labels": 1}, 4),
        ({"num_labels": 3, "problem_type": "regression"}, 4),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, [1, 0, 1]),
    ],
)
def test_labels_that_are_no_classes_are_not_judged(settings: dict[str, Any], label: Any) -> None:
    model = Classifier()
    model.config = transformers.PretrainedConfig(**settings)
    assert check_labels(model, Loader([{"labels": label}]), 8, core.Config()) is None


@pytest.mark.parametrize("data", [iter([{"labels": 1}]), [{"x": 1}], [(1, 2)], []])
def test_streams_and_rows_without_labels_are_not_read(data: Any) -> None:
    assert check_labels(Classifier(), Loader(data), 8, core.Config()) is None
