"""What settings of a training say about each other, before it begins: arithmetic only."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

from trainproof.model.data import RunView
from trainproof.model.environment import Environment, Plan
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, SubjectKind, Variant

from .environment import ID, Part
from .interface import Bound, Example, rule

PLANS = Part("plans", "files of settings of a training")
_FILES = {"files": "files of settings that say what is needed"}

Look = Callable[[Plan], Iterable[Evidence] | None]
"""What is wrong with one file; None where it does not say what is needed."""


def _view(**settings: object) -> RunView:
    lines = dict.fromkeys(settings, 1)
    plan = Plan("training_args.json", **settings, lines=lines)  # type: ignore[arg-type]
    return RunView(ID, inspected=Environment(plans=(plan,)))


def _over(plans: tuple[Plan, ...], look: Look) -> Outcome:
    found: list[Evidence] = []
    files = 0
    for plan in plans:
        wrong = look(plan)
        if wrong is not None:
            files += 1
            found += wrong
    if found:
        return Fired(tuple(found))
    return Clean({"files": files}) if files else Undecided({"files": 0}, Skip.NEED_ABSENT)


def _evidence(plan: Plan, field: str, variant: str = "", **measured: Value) -> Evidence:
    return Evidence(Where(plan.artifact, line=plan.lines.get(field)), measured, variant)


@rule(
    id="TP-CONFIG-CADENCE",
    title="Something is to happen after the last step",
    level=Level.WARN,
    message="{what} every {every:,} steps, and the training ends at step {steps:,}.",
    evidence="max_steps is {steps:,}.",
    needs={"plans": PLANS},
    measures={
        **_FILES,
        "what": "what is to happen",
        "every": "steps from one time to the next",
        "steps": "steps of the training",
    },
    doc=Doc(
        measures="save_steps, eval_steps and logging_steps against max_steps.",
        means="By this setting the training is never saved, evaluated or logged.",
        does_not_mean="That nothing is saved: some trainers save once at the end.",
        guards=(
            "A strategy other than steps turns the setting off, and is not judged.",
            "With the strategy steps, transformers saves and evaluates once at the end: a note.",
            "Fractions (0.1 for every tenth) and an unknown length are not judged.",
        ),
        references=(
            "transformers: TrainingArguments (save_strategy, save_steps, eval_steps)",
            "transformers 5.24: DefaultFlowCallback.on_step_end",
        ),
    ),
    variants={
        "end": Variant(
            Level.INFO,
            "{what} every {every:,} steps, and the training ends at step {steps:,}: with this"
            " strategy, transformers does so once, at the end.",
            "max_steps is {steps:,}.",
        )
    },
    fires=Example("saved every 500 of 300 steps", _view(max_steps=300, save_steps=500)),
    silent=Example("saved every 100 of 300 steps", _view(max_steps=300, save_steps=100)),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def cadence(plans: tuple[Plan, ...]) -> Outcome:
    return _over(plans, _never)


_WORDS = {
    "save": "A checkpoint is saved",
    "eval": "It is evaluated",
    "logging": "Numbers are logged",
}


_AT_THE_END = ("save", "eval")


def _never(plan: Plan) -> list[Evidence] | None:
    steps, found, judged = plan.max_steps, list[Evidence](), False
    for name, what in _WORDS.items():
        every, strategy = getattr(plan, f"{name}_steps"), getattr(plan, f"{name}_strategy")
        if steps is None or every is None or strategy not in (None, "steps"):
            continue
        judged = True
        if every > steps:
            measured: dict[str, Value] = {"what": what, "every": every, "steps": steps, "files": 1}
            variant = "end" if strategy and name in _AT_THE_END else ""
            found.append(_evidence(plan, f"{name}_steps", variant, **measured))
    return found if judged else None


@rule(
    id="TP-CONFIG-WARMUP",
    title="The warm-up is as long as the training",
    level=Level.WARN,
    message="The learning rate warms up for {warmup:,} steps, and the training ends at step"
    " {steps:,}.",
    evidence="At the end it has reached {share:.0%} of the peak at most.",
    needs={"plans": PLANS},
    measures={
        **_FILES,
        "warmup": "steps of the warm-up",
        "steps": "steps of the training",
        "share": "of the warm-up that fits into the training",
        "ratio": "warm-up over the whole training",
    },
    variants={
        "ratio": Variant(
            Level.WARN,
            "The learning rate warms up over {ratio:.0%} of the training.",
            "warmup_ratio is {ratio:g}.",
        )
    },
    doc=Doc(
        measures="warmup_steps against max_steps; warmup_ratio against 1.",
        means="The peak of the learning rate is never reached, or is reached where it ends.",
        does_not_mean="That the rate is too low: a rising rate may be meant, to search for one.",
        guards=("warmup_steps overrides warmup_ratio, as it does in transformers.",),
        references=("transformers: TrainingArguments (warmup_steps, warmup_ratio)",),
    ),
    fires=Example("500 steps of 300", _view(max_steps=300, warmup_steps=500)),
    silent=Example("30 steps of 300", _view(max_steps=300, warmup_steps=30)),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def warmup(plans: tuple[Plan, ...]) -> Outcome:
    return _over(plans, _warming)


def _warming(plan: Plan) -> list[Evidence] | None:
    steps, ratio = plan.max_steps, plan.warmup_ratio
    if plan.warmup_steps is not None:
        if steps is None:
            return None
        share = steps / plan.warmup_steps
        told = _evidence(
            plan, "warmup_steps", warmup=plan.warmup_steps, steps=steps, share=share, files=1
        )
        return [told] if plan.warmup_steps >= steps else []
    if ratio is None:
        return None
    return [_evidence(plan, "warmup_ratio", "ratio", ratio=ratio, files=1)] if ratio >= 1 else []


LOWER = re.compile(r"(?:.*_)?(?:loss|perplexity|ppl|wer|cer|mse|rmse|mae|fid|error|nll|bpb)")
HIGHER = re.compile(
    r"(?:.*_)?(?:accuracy|acc|f1|bleu|rouge\w*|meteor|auc|auroc|precision|recall|map(?:[_@]?\d[\d_.:-]*)?|iou|miou|"
    r"dice|psnr|ssim|exact_match|matthews_correlation|pearsonr?|spearmanr?|r2)"
)
TURNED = re.compile(r"neg|minus|inv")
"""A sign or a reciprocal in the name may turn the direction."""


@rule(
    id="TP-CONFIG-BEST-DIRECTION",
    title="The worst checkpoint is kept as the best",
    level=Level.FAIL,
    message="The best checkpoint is the one with the {kept} {metric}; of this metric {better} is"
    " better.",
    evidence="greater_is_better is {greater!s}, and load_best_model_at_end is set.",
    needs={"plans": PLANS},
    measures={
        **_FILES,
        "metric": "metric_for_best_model",
        "greater": "greater_is_better",
        "kept": "which value is taken for the best",
        "better": "which value is better",
    },
    variants={
        "unused": Variant(
            Level.WARN,
            "The best checkpoint is the one with the {kept} {metric}; of this metric {better} is"
            " better.",
            "greater_is_better is {greater!s}; load_best_model_at_end is not set.",
        )
    },
    doc=Doc(
        measures="greater_is_better against the name of metric_for_best_model.",
        means="At the end the worst of the saved checkpoints is loaded, and the good ones may have"
        " been deleted.",
        does_not_mean="Anything about metrics whose name says no direction: they are not judged.",
        guards=(
            "Only names that end in a known word are judged (loss, wer, accuracy, f1 …).",
            "A warning where nothing is loaded at the end.",
            "Where greater_is_better is not set the trainer derives it, and nothing is judged.",
        ),
        references=("transformers PR #31142", "transformers: TrainingArguments"),
    ),
    fires=Example(
        "the greatest loss",
        _view(load_best=True, best_metric="eval_loss", greater_is_better=True),
    ),
    silent=Example(
        "the least loss", _view(load_best=True, best_metric="eval_loss", greater_is_better=False)
    ),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def best_direction(plans: tuple[Plan, ...]) -> Outcome:
    return _over(plans, _turned)


def _turned(plan: Plan) -> list[Evidence] | None:
    metric, greater = plan.best_metric, plan.greater_is_better
    higher = None if metric is None else _higher_is_better(metric.lower())
    if metric is None or greater is None or higher is None:
        return None
    if greater == higher:
        return []
    words = ("greatest", "less") if greater else ("least", "more")
    return [
        _evidence(
            plan,
            "greater_is_better",
            "" if plan.load_best else "unused",
            metric=metric,
            greater=greater,
            kept=words[0],
            better=words[1],
            files=1,
        )
    ]


def _higher_is_better(metric: str) -> bool | None:
    if TURNED.search(metric):
        return None
    if LOWER.fullmatch(metric):
        return False
    return True if HIGHER.fullmatch(metric) else None


@rule(
    id="TP-CONFIG-BEST-UNSAVED",
    title="The best checkpoint would not be saved",
    level=Level.FAIL,
    message="The best checkpoint is to be loaded at the end, but it is saved every {save:,} steps"
    " and evaluated every {eval:,}.",
    evidence="{save:,} is no multiple of {eval:,}.",
    needs={"plans": PLANS},
    measures={
        **_FILES,
        "save": "steps from one checkpoint to the next",
        "eval": "steps from one evaluation to the next",
    },
    doc=Doc(
        measures="save_steps against eval_steps, where load_best_model_at_end is set and both"
        " strategies are steps.",
        means="transformers refuses these settings: the training does not begin.",
        does_not_mean="Anything about trainers that do not know load_best_model_at_end.",
        guards=("Both strategies must be said, or be left to steps.", "Fractions are not judged."),
        references=("transformers: TrainingArguments (load_best_model_at_end)",),
    ),
    fires=Example(
        "saved every 500 steps, evaluated every 300",
        _view(load_best=True, save_steps=500, eval_steps=300, eval_strategy="steps"),
    ),
    silent=Example(
        "saved every 600 steps, evaluated every 300",
        _view(load_best=True, save_steps=600, eval_steps=300, eval_strategy="steps"),
    ),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def best_unsaved(plans: tuple[Plan, ...]) -> Outcome:
    return _over(plans, _unsaved)


def _unsaved(plan: Plan) -> list[Evidence] | None:
    save, evaluated = plan.save_steps, plan.eval_steps
    by_steps = plan.eval_strategy == "steps" and plan.save_strategy in (None, "steps")
    if not (plan.load_best and by_steps) or save is None or evaluated is None:
        return None
    told = _evidence(plan, "save_steps", save=save, eval=evaluated, files=1)
    return [told] if save % evaluated else []


@rule(
    id="TP-CONFIG-HALF-EPSILON",
    title="Adam's epsilon is 0 in half precision",
    level=Level.WARN,
    message="Adam's epsilon is {epsilon:g} and the weights are {half}: it is {value} there.",
    evidence="The least positive number of float16 is {least:.2g}; half of it and less become 0.",
    needs={"plans": PLANS},
    measures={
        **_FILES,
        "epsilon": "adam_epsilon",
        "half": "the precision that is declared",
        "value": "what epsilon becomes there",
    },
    doc=Doc(
        measures="adam_epsilon against what float16 can hold, where weights and optimizer are"
        " declared to be in it.",
        means="Where the second moment is 0 as well, the update divides 0 by 0.",
        does_not_mean="Anything for mixed precision, which keeps a copy in 32 bits (fp16: true).",
        guards=(
            "Only where the weights themselves are in float16 (precision 16-true, dtype float16).",
            "Not where the same file asks for LoRA: then the adapter is most often in 32 bits.",
            "An epsilon that the file does not say is not judged.",
        ),
        references=(
            "pytorch #26218, keras #11860, chainer #6299, apex #240, pykoi PR #69",
            "IEEE 754 binary16: the least subnormal is 2^-24",
        ),
    ),
    fires=Example("1e-8 in float16", _view(adam_epsilon=1e-8, pure_half="16-true")),
    silent=Example("1e-4 in float16", _view(adam_epsilon=1e-4, pure_half="16-true")),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def half_epsilon(
    plans: tuple[Plan, ...],
    *,
    least: Annotated[float, Bound("1", "the least positive number of float16", ge=0)] = 2.0**-24,
) -> Outcome:
    def vanishing(plan: Plan) -> list[Evidence] | None:
        epsilon, half = plan.adam_epsilon, plan.pure_half
        if epsilon is None or half is None or plan.lora:
            return None
        told = _evidence(plan, "adam_epsilon", epsilon=epsilon, half=half, value=0.0, files=1)
        return [told] if epsilon <= least / 2 else []

    return _over(plans, vanishing)


@rule(
    id="TP-CONFIG-REENTRANT-LORA",
    title="Checkpointing may cut the adapter off its gradients",
    level=Level.WARN,
    message="Gradient checkpointing is reentrant, and only an adapter is trained: its gradients are"
    " lost unless inputs are made to require them.",
    evidence="use_reentrant is set, and so are gradient_checkpointing and settings of LoRA.",
    needs={"plans": PLANS},
    measures=_FILES,
    doc=Doc(
        measures="gradient_checkpointing, use_reentrant and settings of LoRA in one file.",
        means="The reentrant form gives gradients only where an input of the block requires them."
        " The embeddings below an adapter are frozen, so none does, unless the trainer calls"
        " enable_input_require_grads.",
        does_not_mean="That it does not: many trainers do. The first rows of the log tell"
        " (gradient norm 0, no grad_fn).",
        guards=(
            "Only where use_reentrant is set to true in so many words.",
            "Not where the weights are loaded in 8 or 4 bits: preparing those for training does"
            " what is needed.",
        ),
        references=("peft #1402, transformers PR #23990", "torch.utils.checkpoint: use_reentrant"),
    ),
    fires=Example(
        "reentrant, with LoRA",
        _view(gradient_checkpointing=True, use_reentrant=True, lora=True),
    ),
    silent=Example(
        "not reentrant, with LoRA",
        _view(gradient_checkpointing=True, use_reentrant=False, lora=True),
    ),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def reentrant_lora(plans: tuple[Plan, ...]) -> Outcome:
    return _over(plans, _reentrant)


def _reentrant(plan: Plan) -> Iterator[Evidence] | None:
    if not (plan.lora and plan.gradient_checkpointing) or plan.use_reentrant is None:
        return None
    if plan.quantized or not plan.use_reentrant:
        return iter(())
    return iter((_evidence(plan, "use_reentrant", files=1),))
