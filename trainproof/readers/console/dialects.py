"""What is known about the consoles of particular programs.

The reader does not need it to read: it names the program, and gives meaning to names that only
one program uses.
"""

from __future__ import annotations

import re

import msgspec

from trainproof.model.data import Declared, Direction, Role, Split

from .numbers import HOLE

INFERRED = "text (inferred)"
"""The framework of a log whose dialect was found out from the file alone."""


class Dialect(msgspec.Struct, frozen=True):
    """A program and a mark that only the shapes of its lines have."""

    framework: str
    mark: re.Pattern[str]


def _dialect(framework: str, mark: str) -> Dialect:
    return Dialect(framework, re.compile(mark.replace("<n>", HOLE)))


DIALECTS = (
    _dialect("megatron", r"iteration<n>/<n> \|.*elapsed time per iteration"),
    _dialect("deepspeed", r"steps:<n> loss:<n> iter time \(s\):|step=<n>, skipped=<n>, lr="),
    _dialect("nanogpt", r"^step<n>: train loss<n>, val loss<n>|^iter<n>: loss<n>, time<n>ms"),
    _dialect("modded-nanogpt", r"^step:<n>/<n>.* (?:val_loss|train_loss|train_time):.*step_avg:"),
    _dialect("llm.c", r"^s:<n> (?:tel|trl):<n>"),
    _dialect("mmengine", r"- mmengine - INFO - (?:Epoch|Iter)\("),
    _dialect("mmcv", r"- mm\w+ - INFO - (?:Epoch|Iter)[ (]"),
    _dialect("detectron2", r"eta:<n>.* iter:<n> +total_loss:|iter:<n> +total_loss:"),
    _dialect("swin", r"INFO:? (?:Train|Test): \[<n>/<n>\].*loss_scale<n>|INFO:? Test: \[<n>/<n>\]"),
    _dialect("basicsr", r"\[epoch:<n>, iter:<n>, lr:\(<n>"),
    _dialect("flair", r"epoch<n> - iter<n>/<n> - loss<n>"),
    _dialect("cyclegan", r"^\(epoch:<n>, iters:<n>, time:<n>(?:, data:<n>)?\)"),
    _dialect("transformers", r"^\{'loss': '?<n>.*'learning_rate': '?<n>.*'epoch': '?<n>"),
    _dialect("keras", r"^ ?<n>/<n> ?(?:\[\]|-).*(?:s/step|s/epoch|s/sample|- loss:)"),
    _dialect("torchtune", r"^Step<n> \| loss:<n> lr:<n> tokens_per_second"),
    _dialect(
        "fairseq",
        r"\| train(?:_inner)? \| \{\"epoch\":"
        r"|epoch<n>:<n> /<n> loss=<n>,(?: nll_loss=<n>,)? ppl=",
    ),
    _dialect("espnet", r"<n>epoch:train:<n>-<n>batch:|<n>epoch results: \[train\]"),
    _dialect("kohya", r"%\|\|<n>/<n> \[.*avr_loss=<n>"),
    _dialect("lightning", r"^Epoch<n>:<n>%\|\|<n>/<n> \[.*v_num="),
    _dialect("yolo", r"^epoch:<n>/<n>, (?:gpu_mem|GPU_mem|train/\w*loss):<n>"),
    _dialect("stable-baselines3", r"time/total_timesteps:<n>"),
    _dialect("paddle", r"epoch:<n>, iter:<n>, lr:<n> loss:<n> "),
)


def framework_of(shape: str) -> str | None:
    """The program that prints lines of this shape, where it is known."""
    return next((one.framework for one in DIALECTS if one.mark.search(shape)), None)


NAMES = {
    "trl": Declared(Role.LOSS, Split.TRAIN, Direction.LOWER),
    "tel": Declared(Role.LOSS, Split.EVAL, Direction.LOWER),
}
"""Tags of llm.c that no table of names can know."""

STEP_NAMES = {"s": "step"}
"""What llm.c calls its step."""

PRIVATE = re.compile(f"^s:{HOLE} (?:tel|trl):{HOLE}")
"""The shapes in which ``NAMES`` and ``STEP_NAMES`` hold."""
