"""False alarms that the calibration found and a change silenced, trained again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.calibration import judging
from benchmarks.calibration.runs import Case, run_healthy

FALSE_ALARMS = [
    # accuracy of single batches of 4, zero in the last rows by chance: was a FAIL
    ("TP-METRIC-COLLAPSE", "character-lm", 17),
    ("TP-METRIC-COLLAPSE", "character-lm", 95),
    # a loss that falls through ln 5, and the accuracy of whole sequences: was a FAIL
    ("TP-CHANCE", "alignment", 149),
    # held-out accuracy of 256 examples near chance, lower by two of them
    ("TP-METRIC-COLLAPSE", "contrastive", 65),
    ("TP-LOSS-METRIC-CONTRADICT", "contrastive", 38),
    # heavy-tailed gradients of small batches
    ("TP-GRAD-SPIKE", "adapter", 78),
    ("TP-GRAD-SPIKE", "adapter", 2),
    # learned before the first evaluation; a small fall, but a certain one
    ("TP-NO-HELDOUT-GAIN", "adapter", 11),
    ("TP-NO-HELDOUT-GAIN", "contrastive", 23),
    # few evaluations that jump, and evaluations in batches of another size
    ("TP-EVAL-UNSTABLE", "adapter", 430),
    ("TP-NO-HELDOUT-GAIN", "contrastive", 433),
    # a loss that rises a little in its noise, beside evaluations that fall
    ("TP-DEAD-RUN", "skip-gram", 30),
    # an accuracy and a loss whose sum is near that of two softmaxes
    ("TP-SOFTMAX-TWICE", "batchnorm-classification", 77),
    ("TP-SOFTMAX-TWICE", "contrastive", 21),
    ("TP-SOFTMAX-TWICE", "contrastive", 537),
    ("TP-SOFTMAX-TWICE", "batchnorm-classification", 439),
    # a rate of success of few episodes, never more than by chance: was a FAIL
    ("TP-METRIC-COLLAPSE", "gridworld", 41),
    ("TP-METRIC-COLLAPSE", "gridworld", 193),
    # a policy that decided itself: no gradient but for its rare other actions
    ("TP-GRAD-SPIKE", "gridworld", 8),
    # an entropy printed with three digits
    ("TP-POLICY-FROZEN", "gridworld", 93),
    ("TP-POLICY-FROZEN", "point-mass", 19),
]


@pytest.mark.parametrize(("rule", "workload", "number"), FALSE_ALARMS)
def test_a_false_alarm_stays_silent(tmp_path: Path, rule: str, workload: str, number: int) -> None:
    run = run_healthy(tmp_path, Case(workload, number))
    fired = judging.judge(tmp_path, [run])[run.case.path].fired
    assert fired.get(rule, "INFO") == "INFO"
