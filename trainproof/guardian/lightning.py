"""The callback for Lightning, as ``lightning`` or as ``pytorch_lightning``.

Trainer(..., callbacks=[TrainproofCallback(policy="stop_on_fail")])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from trainproof.config import Config
from trainproof.model.data import Facts, Role, Scope, Split
from trainproof.readers.names import classify

from .core import Guardian, Policy
from .harmless import harmless
from .journal import scalar
from .measuring import Stopwatch, gpu

STEPWISE = (Role.GRAD_NORM, Role.LR, Role.LOSS_SCALE)
"""Roles of metrics that a module logs at each step, beside its loss."""


class TrainproofCallback(Callback):
    """Judges the loss of the training step every ``log_every_n_steps``, and what the module logs
    by epoch; writes the report into the trainer's ``log_dir`` at the end.

    ``policy``: "warn" (default) says what fails; "stop_on_fail" also ends the training, in all its
    processes at the same step. The default touches nothing: weights and the order of batches are
    those of a run without the callback. Targets can be judged with
    ``trainproof.guardian.check_objective``.
    """

    def __init__(self, policy: Policy | str = Policy.WARN, *, config: Config | None = None) -> None:
        self.policy = Policy(policy)
        self.config = config or Config()
        self.guardian: Guardian | None = None
        self._watch = Stopwatch()
        self._stepwise: set[str] = set()

    @harmless
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.guardian = Guardian(
            trainer.log_dir or trainer.default_root_dir,
            self.policy,
            facts=facts_of(trainer),
            config=self.config,
            writes=bool(trainer.is_global_zero),
        )
        self._watch.idle()

    @harmless
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._watch.begin()

    @harmless
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._watch.end()
        every = max(1, int(trainer.log_every_n_steps))
        if self.guardian is None or (trainer.fit_loop.total_batch_idx + 1) % every:
            return
        self._take(trainer, lambda: self._of_step(trainer, outputs))
        self._watch.idle()

    def _of_step(self, trainer: Any, outputs: Any) -> dict[str, Any]:
        logged = logged_at(trainer)
        self._stepwise.update(tag for tag in logged if not tag.endswith("_step"))
        return self._watch.take() | gpu() | of_step(trainer, outputs, logged)

    @harmless
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._take(trainer, lambda: self._of_epoch(trainer.callback_metrics))

    def _of_epoch(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Without what is of the last batch only."""
        whole = {tag: value for tag, value in metrics.items() if tag not in self._stepwise}
        return of_epoch(whole, held_out=False)

    @harmless
    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._take(trainer, lambda: of_epoch(trainer.callback_metrics, held_out=True))
        self._watch.idle()

    def _take(self, trainer: Any, measure: Callable[[], dict[str, Any]]) -> None:
        if self.guardian is None:
            return
        try:
            if metrics := measure():
                self.guardian.log(trainer.global_step, metrics)
        finally:  # the other processes wait for this one's word, whatever it has or lacks
            self._decide(trainer, self.guardian.should_stop)

    def _decide(self, trainer: Any, stop: bool) -> None:
        """Stop where any process has seen a FAIL: each sees the losses of its own batches."""
        if self.policy is Policy.STOP_ON_FAIL and trainer.world_size > 1:
            stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
        if stop:
            trainer.should_stop = True

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.guardian is not None:
            self.guardian.leave()

    @harmless
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.guardian is not None:
            self.guardian.finish()


def logged_at(trainer: Any) -> dict[str, Any]:
    """What the training step has logged of itself, by the names that loggers get. Lightning tells
    it to loggers only, and keeps it in a private place: empty in versions without that place."""
    try:
        told: dict[str, Any] = trainer._results.metrics(on_step=True)["callback"]
    except (AttributeError, KeyError, TypeError):
        return {}
    return {tag: value for tag, value in told.items() if f"{tag}_step" not in told}


def of_step(trainer: Any, outputs: Any, logged: dict[str, Any]) -> dict[str, Any]:
    """What belongs to the last step: the loss of one batch, and what the step has logged of
    itself, other losses only with manual optimisation, where Lightning knows of none."""
    metrics = {
        tag: value
        for tag, value in trainer.callback_metrics.items()
        if classify(tag).role in STEPWISE
    }
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    if loss is not None:  # Lightning has divided it by the batches that are accumulated
        number = scalar(loss)
        times = int(trainer.accumulate_grad_batches)
        metrics["train_loss_step"] = None if number is None else number * times
        logged = {tag: value for tag, value in logged.items() if classify(tag).role != Role.LOSS}
    return metrics | logged


def of_epoch(metrics: dict[str, Any], *, held_out: bool) -> dict[str, Any]:
    """The metrics of an epoch: without those that are logged at each step."""
    found: dict[str, Any] = {}
    for tag, value in metrics.items():
        told = classify(tag)
        stepwise = told.role in STEPWISE or tag.endswith("_step")
        if (told.split is not Split.TRAIN) is held_out and not stepwise:
            # Lightning gives a plain name to what is logged by epoch only.
            plain = told.scope is Scope.EPOCH or held_out
            found[tag if plain else f"{tag}_epoch"] = value
    return found


def facts_of(trainer: Any) -> Facts:
    """What the run declares, without asking for anything that would make a loader."""
    epochs = trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None
    batches = float(trainer.num_training_batches)
    accumulation = int(trainer.accumulate_grad_batches)
    # with manual optimisation Lightning counts what optimizers do, and not batches
    countable = trainer.lightning_module.automatic_optimization and math.isfinite(batches)
    per_epoch = math.ceil(batches / accumulation) if countable and batches else None
    planned = trainer.max_steps if trainer.max_steps > 0 else None
    if planned is None and epochs and per_epoch:
        planned = epochs * per_epoch
    return Facts(
        framework="lightning",
        max_steps=planned,
        max_epochs=None if epochs is None else float(epochs),
        steps_per_epoch=per_epoch,
        logging_steps=int(trainer.log_every_n_steps),
        grad_accumulation=accumulation,
        world_size=int(trainer.world_size),
        precision=str(trainer.precision),
    )
