"""The faults: what is put in, where, and what may be expected of a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import spoiled
from .networks import Rng
from .settings import Setting
from .spoiled import Spoil
from .training import Change, Loss
from .workloads import Defect

Fit = Callable[[Setting], bool]


def anywhere(setting: Setting) -> bool:
    return True


def nowhere(setting: Setting) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Fault:
    """``text`` says what is wrong. Exactly one of ``change`` (made for each run), ``defect`` and
    ``spoil`` is the fault, but for an adapter, whose checkpoint is written too.

    ``certain``: the fault is a fact whatever became of the training; else only runs count that the
    third split shows to be harmed. ``fits``: settings whose log can show it. ``named``: rules that
    state the fact at a level below WARN. ``baseline``: judged against the run without the fault.
    ``hidden``: why the information at hand cannot show it, "" where it can; ``shown``: settings
    whose log can all the same, by what it holds and before anything is trained.
    """

    text: str
    change: Callable[[Rng], Change] | None = None
    defect: Defect | None = None
    spoil: Spoil | None = None
    certain: bool = False
    fits: Fit = anywhere
    named: frozenset[str] = frozenset()
    baseline: bool = False
    checkpoint: bool = False
    hidden: str = ""
    shown: Fit = nowhere

    def hides(self, setting: Setting) -> bool:
        """Whether no log of the setting can show it."""
        return bool(self.hidden) and not self.shown(setting)


def _hot(since: float) -> Callable[[Rng], Change]:
    return lambda rng: Change(lr_factor=60 * 5 ** float(rng.random()), since=since)


def _always(change: Change) -> Callable[[Rng], Change]:
    return lambda rng: change


def _falls(setting: Setting) -> bool:
    """The learning rate is logged and its schedule ends at 0."""
    return setting.log_lr and setting.schedule in ("linear", "cosine")


def _planned(setting: Setting) -> bool:
    """The log declares how long the run was to be."""
    return _falls(setting) and setting.writer == "hf"


def _appended(setting: Setting) -> bool:
    """A format to whose end a second process appends, with steps."""
    return setting.writer in ("jsonl", "lightning", "text", "tfevents")


_WITHOUT_LOSS = frozenset(
    {"adversarial", "bandit", "cart-pole", "gridworld", "catching", "point-mass"}
    | {"policy-tuning", "wasserstein-critic", "hinge-game"}
)
"""Tasks that are evaluated by a return or a distance."""


def _keeps_best(setting: Setting) -> bool:
    """A writer that records its best checkpoint, and a task with a held-out loss to choose by."""
    chosen = setting.writer == "hf" and setting.evaluations > 0
    return chosen and setting.workload not in _WITHOUT_LOSS


_REWIND = frozenset({"TP-LOG-REWIND"})

FAULTS = {
    "lr-hot": Fault("learning rate 60 to 300 times too high", _hot(0.0)),
    "lr-hot-late": Fault("the same from the middle on", _hot(0.5)),
    "lr-zero": Fault("learning rate 0", _always(Change(lr_factor=0.0)), certain=True),
    "no-step": Fault("the optimizer is never stepped", _always(Change(steps=False)), certain=True),
    "no-zero-grad": Fault("gradients are never zeroed", _always(Change(zeroes=False))),
    "sign-flipped": Fault("the loss is maximised", _always(Change(sign=-1.0))),
    "layer-frozen": Fault("a layer is never updated", _always(Change(frozen=True))),
    "loss-scale-stuck": Fault(
        "float16 gradients overflow at every scale", _always(Change(overflows=True)), certain=True
    ),
    "average-stuck": Fault(
        "the moving average that is evaluated and kept is never updated",
        _always(Change(averaged=True)),
        certain=True,
        fits=lambda s: s.evaluations > 0,
    ),
    "schedule-hurried": Fault(
        "the schedule runs 2 to 8 times too fast",
        lambda rng: Change(hurry=float(2 ** rng.integers(1, 4))),
        certain=True,
        fits=_planned,
    ),
    "loss-summed": Fault(
        "loss and gradients of 2 to 8 micro-batches are summed",
        lambda rng: Change(reported=float(2 ** rng.integers(1, 4))),
        certain=True,
        baseline=True,
    ),
    "resume-without-optimizer": Fault(
        "resumed without the optimizer's state",
        _always(Change(forgets=Loss.OPTIMIZER)),
        fits=lambda s: s.optimizer not in ("sgd",),
    ),
    "resume-restarts-schedule": Fault(
        "resumed with the schedule at its start",
        _always(Change(forgets=Loss.SCHEDULE)),
        certain=True,
        fits=lambda s: _falls(s) and s.writer == "tfevents",  # a new process, a new file
    ),
    "resume-restarts-steps": Fault(
        "resumed with steps counted from 0",
        _always(Change(forgets=Loss.STEP)),
        certain=True,
        fits=_appended,
        named=_REWIND,
    ),
    "targets-shuffled": Fault("targets belong to other inputs", defect=Defect.SHUFFLED_TARGETS),
    "unsupervised": Fault("no label counts (all -100)", defect=Defect.UNSUPERVISED, certain=True),
    "softmax-twice": Fault(
        "softmax before a loss that has one",
        defect=Defect.SOFTMAX_TWICE,
        hidden="the loss falls from ln C to some level above its floor, as that of a harder task"
        " does, and the number of classes is in none of these logs: only an accuracy beside it"
        " tells",
        shown=lambda s: s.log_metric,
    ),
    "batchnorm-frozen": Fault(
        "running statistics of batch norm are never updated", defect=Defect.BATCHNORM_FROZEN
    ),
    "batchnorm-single": Fault("batch norm on batches of 1", defect=Defect.BATCHNORM_SINGLE),
    "adapter-cut": Fault(
        "the adapter is cut from the graph",
        defect=Defect.ADAPTER_CUT,
        spoil=spoiled.adapter,
        certain=True,
        checkpoint=True,
    ),
    "data-sorted": Fault("sorted data, never shuffled", defect=Defect.SORTED),
    "order-repeated": Fault(
        "the same order of examples in each epoch",
        defect=Defect.SAME_ORDER,
        certain=True,
        hidden="no log of these writers says which examples a step saw",
    ),
    "evaluation-leaked": Fault(
        "evaluation data are part of the training data",
        defect=Defect.EVAL_LEAK,
        certain=True,
        hidden="evaluation and training loss both look better; only the data sets show it",
    ),
    "log-truncated": Fault(
        "the file ends within a record",
        spoil=spoiled.truncated,
        certain=True,
        fits=lambda s: s.writer != "text",  # a printed line may end anywhere
    ),
    "log-prefix-lost": Fault(
        "the first 30 to 60 % of the log are missing",
        spoil=spoiled.prefix_lost,
        certain=True,
        fits=_appended,
        named=frozenset({"TP-LOG-PREFIX"}),
    ),
    "log-rows-lost": Fault(
        "a fifth of the rows is missing in the middle",
        spoil=spoiled.rows_lost,
        certain=True,
        fits=_appended,
    ),
    "two-runs": Fault(
        "two trainings after one another in one log",
        spoil=spoiled.two_runs,
        certain=True,
        fits=_appended,
        named=_REWIND,
    ),
    "two-writers": Fault(
        "two trainings write into one log at once",
        spoil=spoiled.two_writers,
        certain=True,
        fits=_appended,
        named=_REWIND,
    ),
    "best-checkpoint-wrong": Fault(
        "the worst evaluation is kept as the best",
        spoil=spoiled.wrong_best,
        certain=True,
        fits=_keeps_best,
    ),
    "shard-missing": Fault(
        "a shard of the checkpoint is missing",
        spoil=spoiled.shard_missing,
        certain=True,
        checkpoint=True,
    ),
}
"""Name to fault, as section headings of the report."""
