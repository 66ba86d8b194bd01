"""Trainings of a tiny language model by transformers' Trainer, with the callback that may stop it.

Half of them diverge: the same training with the policy ``warn``, which runs to its end, shows that
it really does. The other half is healthy. Reported: the shares that were stopped, and how early.

    python -m benchmarks.guardian [SEEDS]

Needs the extra ``frameworks``. Takes a few minutes on one core; no result is kept.
"""

from __future__ import annotations

import logging
import math
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import transformers

from trainproof.guardian.hugging_face import TrainproofCallback

STEPS = 160
VOCABULARY, LENGTH, ROWS = 64, 24, 256


@dataclass(frozen=True, slots=True)
class Recipe:
    """What differs between trainings."""

    name: str
    lr: float
    warmup: int = 0
    optimizer: str = "adamw_torch"
    clip: float = 1.0
    schedule: str = "constant_with_warmup"
    batch: int = 8


HEALTHY = (
    Recipe("adamw 3e-3", 3e-3),
    Recipe("adamw 1e-2, warmup, cosine", 1e-2, warmup=40, schedule="cosine"),
    Recipe("adamw 1e-3, no clipping", 1e-3, clip=0.0),
    Recipe("adamw 5e-3, batch 2", 5e-3, batch=2),
    Recipe("sgd 0.5", 0.5, optimizer="sgd"),
    Recipe("adamw 3e-3, linear", 3e-3, schedule="linear"),
)
DIVERGING = (
    Recipe("adamw, warmup to 1", 1.0, warmup=80, clip=0.0),
    Recipe("adamw, warmup to 3", 3.0, warmup=110, clip=0.0),
    Recipe("adamw, warmup to 1, clipped", 1.0, warmup=80),
    Recipe("sgd, warmup to 300", 300.0, warmup=80, optimizer="sgd", clip=0.0),
    Recipe("sgd 1e4", 1e4, optimizer="sgd", clip=0.0),
)


@dataclass(frozen=True, slots=True)
class Result:
    """``losses``: as logged at each step. ``stopped``: the step it was ended at, if it was."""

    losses: tuple[float, ...]
    stopped: int | None

    @property
    def diverged(self) -> bool:
        """Not finite at the end, or worse than it was in the beginning."""
        first, last = median(self.losses[:5]), median(self.losses[-10:])
        return not math.isfinite(last) or last > first


def sequences(seed: int) -> list[dict[str, Any]]:
    """Walks on a random graph: each token has four successors, so the loss can fall to ln 4."""
    generator = torch.Generator().manual_seed(seed)
    graph = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=generator)
    tokens = torch.randint(VOCABULARY, (ROWS, 1), generator=generator)
    for _ in range(LENGTH - 1):
        choice = torch.randint(4, (ROWS,), generator=generator)
        tokens = torch.cat([tokens, graph[tokens[:, -1], choice][:, None]], dim=1)
    return [{"input_ids": row, "labels": row} for row in tokens]


def train(recipe: Recipe, seed: int, policy: str) -> Result:
    transformers.set_seed(seed)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=32,
            n_layer=1,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    with tempfile.TemporaryDirectory() as home:
        arguments = transformers.TrainingArguments(
            output_dir=home,
            max_steps=STEPS,
            per_device_train_batch_size=recipe.batch,
            learning_rate=recipe.lr,
            warmup_steps=recipe.warmup,
            lr_scheduler_type=recipe.schedule,
            optim=recipe.optimizer,
            max_grad_norm=recipe.clip,
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            seed=seed,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=sequences(seed),
            callbacks=[TrainproofCallback(policy)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    steps = trainer.state.global_step
    losses = tuple(row["loss"] for row in trainer.state.log_history if "loss" in row)
    return Result(losses, steps if steps < STEPS else None)


def share(count: int, total: int) -> str:
    """With the one-sided 95 % Clopper-Pearson bound where it is nought or all."""
    text = f"{count} of {total}"
    if total and count in (0, total):
        bound = 1 - 0.05 ** (1 / total)
        text += f" (95 %: {'at most' if not count else 'at least'}"
        text += f" {bound if not count else 1 - bound:.1%})"
    return text


def main(seeds: int) -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    diverged = stopped = 0
    at: list[float] = []
    for seed in range(seeds):
        recipe = DIVERGING[seed % len(DIVERGING)]
        whole = train(recipe, seed, "warn")
        ended = train(recipe, seed, "stop_on_fail")
        if not whole.diverged:
            print(f"seed {seed}, {recipe.name}: did not diverge", flush=True)
            continue
        diverged += 1
        stopped += ended.stopped is not None
        if ended.stopped is not None:
            at.append(ended.stopped / STEPS)
            # the callback touched nothing: NaN is NaN here
            assert repr(whole.losses[: ended.stopped]) == repr(ended.losses)
        print(
            f"seed {seed}, {recipe.name}: {whole.losses[0]:.2f}, best {min(whole.losses):.2f},"
            f" end {whole.losses[-1]:.3g}; stopped at {ended.stopped}",
            flush=True,
        )
    wrong = 0
    for seed in range(seeds):
        recipe = HEALTHY[seed % len(HEALTHY)]
        ended = train(recipe, 1000 + seed, "stop_on_fail")
        wrong += ended.stopped is not None
        print(
            f"seed {1000 + seed}, {recipe.name}: {ended.losses[0]:.2f}, end {ended.losses[-1]:.2f};"
            f" stopped at {ended.stopped}",
            flush=True,
        )
    early = f"in the median after {median(at or [0]):.0%} of the run"
    print(f"\ndiverged: stopped {share(stopped, diverged)}, {early}")
    print(f"healthy: stopped {share(wrong, seeds)}")
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
