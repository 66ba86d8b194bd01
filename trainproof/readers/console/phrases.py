"""What particular programs say in words of their own -> names that everybody knows.

Each phrase has a mark, a text that is looked for first: most lines hold none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import msgspec

from trainproof.readers.names import split_of

MAX_JSON = 4096
"""Characters of one event of MLPerf."""


class Phrase(msgspec.Struct, frozen=True):
    """``said`` is replaced by ``meant`` in lines that hold the mark."""

    mark: str
    said: re.Pattern[str]
    meant: str | Callable[[re.Match[str]], str]


def named(text: str) -> str:
    """The line with the names that its program means."""
    for phrase in PHRASES:
        if phrase.mark in text:
            return phrase.said.sub(phrase.meant, text)
    return text


# --- MLPerf ---------------------------------------------------------------------------------------

STEPS = ("step", "step_num", "iteration", "iter_num", "samples_count", "sample_count")
EPOCHS = ("epoch_num", "epoch_count", "epoch")


def _mlperf(event: re.Match[str]) -> str:
    """Where and what, of an event with a number or several; nothing of any other."""
    try:
        told = json.loads(event["event"][:MAX_JSON])
    except (ValueError, RecursionError):
        return ""
    place = _place(told.get("metadata"))
    value = told.get("value")
    numbers = value if isinstance(value, dict) else {told.get("key"): value}
    parts = [f"{name}: {one}" for name, one in numbers.items() if _is_number(one)]
    return ", ".join([place, *parts]) if place and parts else ""


def _place(metadata: object) -> str:
    if not isinstance(metadata, Mapping):
        return ""
    found = []
    for name, keys in (("step", STEPS), ("epoch", EPOCHS)):
        numbers = (metadata.get(key) for key in keys)
        first = next((one for one in numbers if _is_number(one)), None)
        if first is not None:
            found.append(f"{name}: {first}")
    return ", ".join(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- fairseq --------------------------------------------------------------------------------------

_NAME = re.compile(r"(?<=\| )(?!num_updates )(?=[A-Za-z_]\w* [-\d.ni])")
"""Where the name of a number begins, between bars."""

_FAIRSEQ = re.compile(
    r"^(?P<place>.{0,80}\| (?:train \| epoch \d+"
    r"|[\w.-]{1,80} \| epoch \d+ \| valid on '(?P<set>[\w.-]{1,80})' subset) )"
    r"(?P<numbers>\| loss .*)$"
)


def _fairseq(line: re.Match[str]) -> str:
    """What was measured on one of the held-out sets as ``valid_foo/loss``, and the averages of an
    epoch, which go under the names of what every few steps are, as ``epoch/loss``."""
    lead = line["set"] or "epoch"
    if line["set"] and split_of(lead) is None:
        lead = f"valid_{lead}"
    return line["place"] + _NAME.sub(f"{lead}/", line["numbers"])


def _wenet(line: re.Match[str]) -> str:
    return f" epoch: {line[1]}, batch: {line[2]}, " if line[1] else ""


# --- others ---------------------------------------------------------------------------------------

_AT = re.compile(
    r"\b(?P<what>(?:(?:train(?:ing)?|test|val(?:idation)?) )?(?:loss|cost|error|accuracy))"
    r" (?:after|at) (?P<where>epoch|iteration|iter|step)(?: number)? ?[:#]?"
    r" ?(?P<count>\d+) ?(?:[:=]|is) ?",
    re.IGNORECASE,
)
"""``Cost after epoch 3: 0.12``: the place stands between the name and its number."""

_COUNT = r"(?:it|iter|iteration|step|epoch)s?\W{0,3}\d+(?: ?/ ?\d+)?\W{1,4}"
_VALUE = r"(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)"
_BOTH = re.compile(
    rf"^(\W{{0,8}}{_COUNT})train\W{{1,3}}({_VALUE}\W{{1,4}})(val|valid)\W{{1,3}}(?={_VALUE})",
    re.IGNORECASE,
)
"""``it 100: train 2.1, val 2.2``: what is measured on both goes without saying."""

_LOSSES = re.compile(rf"^LOSS train ({_VALUE}) valid (?={_VALUE})")

_MICROSOFT = re.compile(r"1\.#(?:(?P<inf>INF)|QNAN|SNAN|IND)0*\b")


def _microsoft(number: re.Match[str]) -> str:
    return "inf" if number["inf"] else "nan"


PHRASES = (
    Phrase("1.#", _MICROSOFT, _microsoft),  # of what is no number, in older runtimes
    Phrase(":::MLLOG", re.compile(r"^.{0,80}?:::MLLOG (?P<event>\{.*\})\s*$"), _mlperf),
    Phrase("Up. ", re.compile(r"\bEp\. (\d+) : Up\. (\d+) :"), r"epoch: \1, step: \2,"),  # Marian
    Phrase(
        ", loss is ", re.compile(r"^(epoch: *\d+,? step: *\d+), loss is "), r"\1, loss: "
    ),  # MindSpore
    Phrase(
        " avg loss, ",
        re.compile(r"^\s*(\d+): [\d.]+, ([\d.]+|-?nan) avg loss, ([\d.]+) rate,"),
        r"step: \1, loss: \2, lr: \3,",
    ),  # Darknet
    Phrase(" | epoch ", _FAIRSEQ, _fairseq),
    # WeNet; what it prints of the batches of a validation is not their average
    Phrase(" Batch ", re.compile(r" (?:TRAIN Batch (\d+)/(\d+) |CV Batch \d+/.*)"), _wenet),
    # what JAX's programs write by way of clu
    Phrase(
        "logging_writer.py:", re.compile(r"(logging_writer\.py:\d+\]) \[(\d+)\] "), r"\1 step: \2, "
    ),
    Phrase(" [D loss: ", re.compile(r"^\s*(\d+) (?=\[D loss: )"), r"step: \1 "),  # Keras-GAN
    Phrase("LOSS train ", _LOSSES, r"train LOSS \1 valid LOSS "),  # PyTorch's second tutorial
    Phrase(" after ", _AT, r"\g<where> \g<count>, \g<what>: "),
    Phrase(" at ", _AT, r"\g<where> \g<count>, \g<what>: "),
    Phrase(" val", _BOTH, r"\1train loss \2\3 loss "),
)
