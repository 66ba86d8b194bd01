"""The callback for Keras 3, whatever its backend.

model.fit(..., callbacks=[TrainproofCallback(policy="stop_on_fail")])
"""

from __future__ import annotations

import os
from typing import Any

from keras.callbacks import Callback

from trainproof.config import Config
from trainproof.model.data import Facts

from .core import Guardian, Policy
from .harmless import harmless
from .measuring import Stopwatch, gpu


class TrainproofCallback(Callback):
    """Judges the loss of each batch and the metrics of each epoch; writes the report into
    ``directory`` at the end, where one is given.

    ``policy``: "warn" (default) says what fails; "stop_on_fail" also ends the training. The default
    touches nothing: weights and the order of batches are those of a run without the callback.
    Targets can be judged with ``trainproof.guardian.check_objective``.

    Keras tells the mean of an epoch so far: the loss of one batch, or of those that are executed
    at once, is what moved it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        policy: Policy | str = Policy.WARN,
        *,
        config: Config | None = None,
    ) -> None:
        super().__init__()
        self.policy = Policy(policy)
        self.directory = directory
        self.config = config or Config()
        self.guardian: Guardian | None = None
        self._watch = Stopwatch()
        self._step = 0
        self._sum, self._batches = 0.0, 0

    @harmless
    def on_train_begin(self, logs: Any = None) -> None:
        given = self.params or {}
        per_epoch, epochs = given.get("steps"), given.get("epochs")
        self.guardian = Guardian(
            self.directory,
            self.policy,
            facts=Facts(
                framework="keras",
                max_steps=per_epoch * epochs if per_epoch and epochs else None,
                max_epochs=float(epochs) if epochs else None,
                steps_per_epoch=per_epoch or None,
            ),
            config=self.config,
        )
        self._step = 0

    @harmless
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._step:  # a training that is resumed begins at its initial_epoch
            self._step = epoch * int((self.params or {}).get("steps") or 0)
        self._sum, self._batches = 0.0, 0
        self._watch.idle()

    @harmless
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._watch.begin()

    @harmless
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._watch.end()
        done = batch + 1 - self._batches  # several, with steps_per_execution
        self._step += done
        self._batches = batch + 1
        mean = (logs or {}).get("loss")
        if mean is None or done < 1:
            return
        total = float(mean) * (batch + 1)
        self._take({"batch_loss": (total - self._sum) / done} | self._watch.take(done))
        self._sum = total

    @harmless
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._take({_by_epoch(tag): value for tag, value in (logs or {}).items()} | gpu())

    def _take(self, metrics: dict[str, Any]) -> None:
        if self.guardian is None:
            return
        self.guardian.log(self._step, metrics)
        if self.guardian.should_stop:
            self.model.stop_training = True

    @harmless
    def on_train_end(self, logs: Any = None) -> None:
        if self.guardian is not None:
            self.guardian.finish()


def _by_epoch(tag: str) -> str:
    """``epoch_loss`` for ``loss``, beside the loss of the batches."""
    return tag if tag.startswith("val_") or tag == "learning_rate" else f"epoch_{tag}"
