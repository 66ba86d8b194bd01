"""The workloads by name, and which of them were set aside before any result was seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import control, games, generative, policies, supervised, tuning
from .settings import Setting, draw
from .workloads import Defect, Task


@dataclass(frozen=True, slots=True)
class Workload:
    """``make``: the task of a setting, with or without a defect. ``lr_factor`` and ``most_steps``
    are what its loss and its cost ask for. ``defects``: those it can have."""

    make: Callable[[Setting, Defect | None], Task]
    lr_factor: float = 1.0
    most_steps: int = 1200
    defects: frozenset[Defect] = frozenset()

    def setting(self, name: str, number: int) -> Setting:
        return draw(name, number, self.lr_factor, self.most_steps)


_ANY = frozenset({Defect.SAME_ORDER, Defect.EVAL_LEAK, Defect.UNSUPERVISED})
_TARGETS = _ANY | {Defect.SHUFFLED_TARGETS, Defect.SORTED}
_CLASSES = _TARGETS | {Defect.SOFTMAX_TWICE}
_NORMED = _CLASSES | {Defect.BATCHNORM_FROZEN, Defect.BATCHNORM_SINGLE}

WORKLOADS: Mapping[str, Workload] = {
    "linear-regression": Workload(supervised.linear_regression, defects=_TARGETS),
    "mlp-regression": Workload(supervised.regression, defects=_TARGETS),
    "gaussian-likelihood": Workload(supervised.gaussian_likelihood, 0.5, defects=_TARGETS),
    "classification": Workload(supervised.classification, defects=_CLASSES),
    "batchnorm-classification": Workload(supervised.batchnorm_classification, defects=_NORMED),
    "character-lm": Workload(supervised.character_lm, 2.0, defects=_CLASSES),
    "autoencoder": Workload(supervised.autoencoder, 2.0, defects=_ANY),
    "denoising": Workload(supervised.denoising, 2.0, defects=frozenset({Defect.SAME_ORDER})),
    "contrastive": Workload(supervised.contrastive, defects=frozenset({Defect.SAME_ORDER})),
    "alignment": Workload(supervised.alignment, 1.0, 200, frozenset({Defect.SHUFFLED_TARGETS})),
    "skip-gram": Workload(supervised.skip_gram, 2.0, defects=_CLASSES),
    "adapter": Workload(
        supervised.adapter,
        defects=frozenset({Defect.SHUFFLED_TARGETS, Defect.ADAPTER_CUT, Defect.SOFTMAX_TWICE}),
    ),
    "preference": Workload(supervised.Preference),
    "variational-autoencoder": Workload(generative.Variational, 0.5),
    "adversarial": Workload(generative.Adversarial, 0.5),
    "bandit": Workload(policies.Bandit),
    "cart-pole": Workload(policies.CartPole, 2.0, 50),
    "gridworld": Workload(control.Gridworld, 1.0, 160),
    "catching": Workload(control.Catching, 3.0, 400),
    "point-mass": Workload(control.PointMass, 0.7, 160),
    "policy-tuning": Workload(tuning.PolicyTuning, 1.5, 160),
    "wasserstein-critic": Workload(games.WassersteinCritic, 0.5, 500),
    "hinge-game": Workload(games.HingeGame, 0.5, 500),
}


def held_out(workload: str) -> bool:
    """Half of the workloads, by the hash of their names: no rule may be changed for what is found
    on these."""
    return bool(hashlib.sha256(workload.encode()).digest()[0] & 1)
