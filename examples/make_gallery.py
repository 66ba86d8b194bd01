"""Train the runs of the gallery: small, real, each with one known fault.

    python examples/make_gallery.py                     # every run, into examples/gallery
    python examples/make_gallery.py --only torch/nan    # runs whose name starts with torch/nan
    python examples/make_gallery.py --out gallery

Three trainers write what they always write: Hugging Face's ``Trainer`` its
``trainer_state.json``, Lightning a ``metrics.csv`` and an event file, a plain PyTorch loop JSON
lines and an event file. Nothing is downloaded: the models start from random weights and the data
come from a seeded generator. Nothing in a log is edited; event files are renamed, since their
names carry the machine's.

The same seed gives the same numbers on the same library versions (one CPU thread, deterministic
kernels); wall times differ from one making to the next. ``examples/README.md`` lists the
libraries this needs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
import transformers
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

SEEDS = (1, 2, 3)
STEPS = 400
LOG_EVERY = 5
EVAL_EVERY = 40
BATCH = 32
WARMUP = 80
MISSING = -100
"""The label that the loss ignores."""
FEW = 64
"""Training samples of the ``overfit`` runs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to spoil a training; every field at its default is the healthy run."""

    name: str
    what: str
    lr_scale: float = 1.0
    shuffled_labels: bool = False
    few_samples: bool = False
    missing_labels: float = 0.0


FAULTS = (
    Fault("healthy", "nothing spoiled: the control"),
    Fault("lr_hot", "peak learning rate far too high", lr_scale=1000.0),
    Fault("lr_zero", "learning rate 0 at every step", lr_scale=0.0),
    Fault(
        "nan",
        "85 % of the training labels missing and masked out of the loss: a batch without any label "
        "divides 0 by 0",
        missing_labels=0.85,
    ),
    Fault("bad_labels", "training labels shuffled, held-out labels right", shuffled_labels=True),
    Fault("overfit", f"{FEW} training samples, seen again and again", few_samples=True),
)


# ---------------------------------------------------------------- data


CLASSES = 8
TOPIC_VOCABULARY = 128
TOPIC_LENGTH = 24
TOPIC_SAMPLES = STEPS * BATCH
HELD_OUT = 512


def topic_data(seed: int, fault: Fault) -> tuple[TensorDataset, TensorDataset]:
    """Token sequences of eight topics: two tokens in five come from the topic's own 16 of 128.

    Returns the training and the held-out set: token ids (samples, 24) and labels (samples,).
    """
    rng = np.random.default_rng(seed)
    topics = np.stack([rng.choice(TOPIC_VOCABULARY, 16, replace=False) for _ in range(CLASSES)])
    samples = (FEW if fault.few_samples else TOPIC_SAMPLES) + HELD_OUT
    labels = rng.integers(CLASSES, size=samples)
    shape = (samples, TOPIC_LENGTH)
    background = rng.integers(TOPIC_VOCABULARY, size=shape)
    own = topics[labels[:, None], rng.integers(topics.shape[1], size=shape)]
    tokens = torch.from_numpy(np.where(rng.random(shape) < 0.4, own, background))
    train_labels = labels[HELD_OUT:].copy()
    if fault.shuffled_labels:
        train_labels = rng.permutation(train_labels)
    if fault.missing_labels:
        train_labels[rng.random(len(train_labels)) < fault.missing_labels] = MISSING
    return (
        TensorDataset(tokens[HELD_OUT:], torch.from_numpy(train_labels)),
        TensorDataset(tokens[:HELD_OUT], torch.from_numpy(labels[:HELD_OUT])),
    )


LETTERS = 16
TEXT_LENGTH = 32


def chain_text(rng: np.random.Generator, table: np.ndarray, samples: int) -> Tensor:
    """Draw (samples, 33) letters from a second-order Markov chain.

    ``table``, (16, 16, 16): cumulative chances of the next letter after each two.
    """
    text = np.empty((samples, TEXT_LENGTH + 1), dtype=np.int64)
    text[:, :2] = rng.integers(LETTERS, size=(samples, 2))
    for at in range(2, TEXT_LENGTH + 1):
        chances = table[text[:, at - 2], text[:, at - 1]]
        text[:, at] = (rng.random((samples, 1)) > chances).sum(axis=1).clip(max=LETTERS - 1)
    return torch.from_numpy(text)


# ---------------------------------------------------------------- shared by the trainers


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy averaged over the labels that are there: logits (n, classes), labels (n,).

    With no label at all it divides 0 by 0, as the ``nan`` runs find out, and so does its gradient.
    """
    there = labels != MISSING
    losses = functional.cross_entropy(logits, labels.clamp(min=0), reduction="none")
    return (losses * there).sum() / there.sum()


def schedule(step: int) -> float:
    """Share of the peak learning rate at a step counted from 0: linear warm-up, then constant."""
    return min(1.0, (step + 1) / WARMUP)


def rename_event_files(run: Path) -> None:
    """Take the host, the process and the clock out of the names of event files."""
    for number, path in enumerate(sorted(run.rglob("events.out.tfevents.*"))):
        path.rename(path.with_name(f"events.out.tfevents.1700000000.host.1.{number}"))


# ---------------------------------------------------------------- Hugging Face Trainer


class TopicTrainer(transformers.Trainer):
    """``Trainer`` with :func:`mean_loss`."""

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, **_: Any
    ) -> Any:
        outputs = model(input_ids=inputs["input_ids"])
        loss = mean_loss(outputs.logits, inputs["labels"])
        return (loss, {"loss": loss, "logits": outputs.logits}) if return_outputs else loss


def accuracy(prediction: transformers.EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def train_hf(run: Path, fault: Fault, seed: int) -> dict[str, float]:
    """A two-layer BERT classifier; leaves ``trainer_state.json``."""
    rate = 1e-3 * fault.lr_scale
    train, held_out = topic_data(seed, fault)
    transformers.set_seed(seed)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=TOPIC_VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=TOPIC_LENGTH,
            num_labels=CLASSES,
        )
    )
    with tempfile.TemporaryDirectory() as scratch:
        trainer = TopicTrainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=scratch,
                max_steps=STEPS,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=HELD_OUT,
                learning_rate=rate,
                lr_scheduler_type="constant_with_warmup",
                warmup_steps=WARMUP,
                logging_steps=LOG_EVERY,
                eval_strategy="steps",
                eval_steps=EVAL_EVERY,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                seed=seed,
            ),
            train_dataset=train,
            eval_dataset=held_out,
            data_collator=lambda rows: {
                "input_ids": torch.stack([tokens for tokens, _ in rows]),
                "labels": torch.stack([label for _, label in rows]),
            },
            compute_metrics=accuracy,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        trainer.save_state()
        shutil.copy(Path(scratch) / "trainer_state.json", run)
    return {"learning_rate": rate}


# ---------------------------------------------------------------- Lightning


class TopicModule(lightning.LightningModule):
    """A GRU classifier of the same topics."""

    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.save_hyperparameters("learning_rate")
        self.embed = nn.Embedding(TOPIC_VOCABULARY, 32)
        self.gru = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.gru(self.embed(tokens))
        return self.head(states.mean(dim=1))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        tokens, labels = batch
        loss = mean_loss(self(tokens), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        tokens, labels = batch
        logits = self(tokens)
        self.log("val_loss", mean_loss(logits, labels))
        self.log("val_acc", (logits.argmax(-1) == labels).float().mean())

    def on_before_optimizer_step(self, _: torch.optim.Optimizer) -> None:
        norm = nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None])
        self.log("grad_norm", norm)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), self.hparams["learning_rate"])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def train_lightning(run: Path, fault: Fault, seed: int) -> dict[str, float]:
    """A GRU classifier; leaves ``metrics.csv``, ``hparams.yaml`` and an event file."""
    rate = 3e-3 * fault.lr_scale
    train, held_out = topic_data(seed, fault)
    lightning.seed_everything(seed, verbose=False)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        max_epochs=-1,
        logger=[
            CSVLogger(run, name="", version=""),
            TensorBoardLogger(run, name="", version="", default_hp_metric=False),
        ],
        callbacks=[LearningRateMonitor(logging_interval="step")],
        log_every_n_steps=LOG_EVERY,
        val_check_interval=EVAL_EVERY,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(
        TopicModule(rate),
        DataLoader(train, BATCH, shuffle=True, drop_last=True),
        DataLoader(held_out, HELD_OUT),
    )
    return {"learning_rate": rate}


# ---------------------------------------------------------------- plain PyTorch


class LetterModel(nn.Module):
    """A one-layer causal transformer over letters."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(LETTERS, width)
        self.place = nn.Embedding(TEXT_LENGTH, width)
        self.block = nn.TransformerEncoderLayer(width, 3, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, LETTERS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(TEXT_LENGTH))

    def forward(self, letters: Tensor) -> Tensor:
        hidden = self.embed(letters) + self.place.weight
        return self.head(self.block(hidden, src_mask=self.mask, is_causal=True))


class RunLog:
    """What a hand-written loop often has: the same scalars as JSON lines and as an event file."""

    def __init__(self, run: Path) -> None:
        self.lines = (run / "metrics.jsonl").open("w", encoding="utf-8")
        self.events = SummaryWriter(str(run))

    def write(self, step: int, **values: float) -> None:
        self.lines.write(json.dumps({"step": step, **values}) + "\n")
        for name, value in values.items():
            self.events.add_scalar(name, value, step)

    def close(self) -> None:
        self.lines.close()
        self.events.close()


def letter_batches(
    rng: np.random.Generator, table: np.ndarray, fault: Fault
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (inputs, targets), (32, 32) each: new text every time unless samples are few."""
    few = chain_text(rng, table, FEW) if fault.few_samples else None
    while True:
        text = (
            chain_text(rng, table, BATCH)
            if few is None
            else few[rng.choice(FEW, BATCH, replace=False)]
        )
        targets = text[:, 1:]
        if fault.shuffled_labels:
            targets = torch.from_numpy(rng.permutation(targets.flatten())).view_as(targets)
        if fault.missing_labels:
            lost = torch.from_numpy(rng.random(BATCH) < fault.missing_labels)
            targets = targets.masked_fill(lost[:, None], MISSING)
        yield text[:, :-1], targets


def train_torch(run: Path, fault: Fault, seed: int) -> dict[str, float]:
    """A letter model on text of a Markov chain; leaves ``metrics.jsonl`` and an event file."""
    rate = 4e-3 * fault.lr_scale
    rng = np.random.default_rng(seed)
    table = rng.dirichlet([0.05] * LETTERS, size=(LETTERS, LETTERS)).cumsum(axis=-1)
    held_out = chain_text(rng, table, HELD_OUT // 4)
    batches = letter_batches(rng, table, fault)
    torch.manual_seed(seed)
    model = LetterModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    log = RunLog(run)
    since: list[float] = []
    for step in range(1, STEPS + 1):
        inputs, targets = next(batches)
        loss = mean_loss(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        since.append(loss.item())
        if step % LOG_EVERY == 0:
            used = scheduler.get_last_lr()[0]
            log.write(step, train_loss=sum(since) / len(since), lr=used, grad_norm=norm.item())
            since.clear()
        optimizer.step()
        scheduler.step()
        if step % EVAL_EVERY == 0:
            with torch.no_grad():
                logits = model(held_out[:, :-1])
                log.write(
                    step, val_loss=mean_loss(logits.flatten(0, 1), held_out[:, 1:].flatten()).item()
                )
    log.close()
    return {"learning_rate": rate}


# ---------------------------------------------------------------- the gallery


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    train: Callable[[Path, Fault, int], dict[str, float]]
    libraries: tuple[str, ...]


FRAMEWORKS = (
    Framework("hf", train_hf, ("torch", "transformers", "accelerate", "numpy")),
    Framework("lightning", train_lightning, ("torch", "lightning", "tensorboard", "numpy")),
    Framework("torch", train_torch, ("torch", "tensorboard", "numpy")),
)


def make(out: Path, framework: Framework, fault: Fault, seed: int) -> None:
    """Train one run into ``out/framework/fault/seedN`` and note beside its logs what was done."""
    run = out / framework.name / fault.name / f"seed{seed}"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    settings = framework.train(run, fault, seed)
    rename_event_files(run)
    meta = {
        "framework": framework.name,
        "fault": fault.name,
        "what": fault.what,
        "seed": seed,
        "steps": STEPS,
        "settings": settings,
        "injected": {
            field: value
            for field, value in asdict(fault).items()
            if field not in ("name", "what") and value != asdict(FAULTS[0])[field]
        },
        "versions": {name: version(name).partition("+")[0] for name in framework.libraries},
    }
    (run / "run_meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "gallery")
    parser.add_argument("--only", default="", help="make only runs whose name starts so: hf/nan")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    os.environ["HF_HUB_OFFLINE"] = "1"
    for framework in FRAMEWORKS:
        for fault in FAULTS:
            for seed in SEEDS:
                name = f"{framework.name}/{fault.name}/seed{seed}"
                if name.startswith(arguments.only):
                    make(arguments.out, framework, fault, seed)
                    print(name, flush=True)


if __name__ == "__main__":
    main()
