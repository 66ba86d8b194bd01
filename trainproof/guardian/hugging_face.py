"""The callback for transformers' Trainer, and for what is built on it (TRL, sentence-transformers).

Trainer(..., callbacks=[TrainproofCallback(policy="stop_on_fail")])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from trainproof.config import Config
from trainproof.model.data import Facts

from .core import LOG, Guardian, Policy
from .harmless import harmless
from .labels import check_labels
from .measuring import Stopwatch, gpu

SUMMARY = "train_runtime"
"""Key of the row that Trainer logs once, at the end: averages over the whole run."""


class TrainproofCallback(TrainerCallback):
    """Judges what Trainer logs, and writes the report into ``output_dir`` at the end.

    ``policy``: "warn" (default) says what fails; "stop_on_fail" also ends the training. The default
    touches nothing: weights and the order of batches are those of a run without the callback.

    ``objective_check`` looks at the labels of the first ``rows`` rows of the training data before
    the first step. It costs the time to read them, once; the states of the random number generators
    are put back, but a data set that counts its reads sees them. Streams are not read.
    """

    def __init__(
        self,
        policy: Policy | str = Policy.WARN,
        *,
        objective_check: bool = False,
        rows: int = 256,
        config: Config | None = None,
    ) -> None:
        self.policy = Policy(policy)
        self.objective_check = objective_check
        self.rows = rows
        self.config = config or Config()
        self.guardian: Guardian | None = None
        self.objective: Any = None
        self._watch = Stopwatch()

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.guardian = Guardian(
            args.output_dir,
            self.policy,
            facts=facts_of(args, state),
            config=self.config,
            writes=bool(state.is_world_process_zero),
        )
        for row in state.log_history:  # of the training that is resumed
            if SUMMARY not in row:
                self.guardian.journal.add(row.get("step", 0), row, 0.0)
        if self.objective_check:
            self._check_objective(given.get("model"), given.get("train_dataloader"))
        self._watch.idle()

    def _check_objective(self, model: Any, loader: Any) -> None:
        self.objective = check_labels(model, loader, self.rows, self.config)
        if self.objective is None:
            LOG.warning("trainproof: the objective was not checked: no labels could be read")
            return
        for _, one in self.objective.findings():
            LOG.warning("trainproof: %s %s: %s %s", one.level, one.id, one.message, one.evidence)

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._watch.begin()

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._watch.end()

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._watch.idle()

    @harmless
    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._watch.idle()

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        if self.guardian is None or not logs or SUMMARY in logs:
            return
        measured = self._watch.take() | gpu() if "loss" in logs else {}
        self.guardian.log(state.global_step, {**measured, **logs})
        if self.guardian.should_stop:
            control.should_training_stop = True
        self._watch.idle()

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.guardian is not None:
            self.guardian.finish()


def facts_of(args: Any, state: Any) -> Facts:
    """What the run declares, as far as rules ask for it."""
    accumulation = getattr(args, "gradient_accumulation_steps", None)
    scheduler = getattr(args, "lr_scheduler_type", None)
    return Facts(
        framework="transformers",
        max_steps=_count(state.max_steps),
        max_epochs=float(args.num_train_epochs),
        logging_steps=_count(state.logging_steps),
        batch_size=_count(getattr(args, "per_device_train_batch_size", None)),
        grad_accumulation=_count(accumulation),
        world_size=_count(getattr(args, "world_size", None)),
        seed=getattr(args, "seed", None),
        scheduler=None if scheduler is None else str(getattr(scheduler, "value", scheduler)),
        learning_rate=getattr(args, "learning_rate", None),
        max_grad_norm=getattr(args, "max_grad_norm", None),
        greater_is_better=getattr(args, "greater_is_better", None),
    )


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value >= 1 else None
