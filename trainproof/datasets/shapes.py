"""What a row is to a trainer, by the names of its fields, and what it then says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from trainproof.model.dataset import Issue, Shape

from .rows import Fields
from .turns import Content, as_turns, conversation, flat, is_empty, texts_of

Reader = Callable[[Fields], Content]

_CONVERSATIONS = ("messages", "conversations", "conversation", "contents")
_ANSWERED = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("query", "response"),
    ("question", "answer"),
    ("query", "answer"),
    ("question", "response"),
    ("problem", "solution"),
    ("input", "output"),
    ("source", "target"),
    ("article", "summary"),
    ("document", "summary"),
    ("dialogue", "summary"),
)
_CHOICES = ("choices", "options")
"""Fields beside which an answer is the number of a choice, and no text."""
_PAIR = ("prompt", "chosen", "rejected")
_INSTRUCTED = (("instruction", "output"), ("instruction", "response"))
_TEXTS = ("text", "output", "content", "response", "completion", "sentence", "conversation")
"""Names of the one text of a row, the first that is there."""
_ANSWERS = frozenset({"output", "response", "completion"})
"""Of these, names of what answers something: whatever else a row says is what it answers."""


_CONTEXT = frozenset(
    {"context", "document", "documents", "file", "file_name", "passage", "path", "system"}
    | {"table", "tools", "choices", "options", "history", "db_id", "schema"}
)
_QUESTIONED = frozenset(
    {"question", "query", "aspect", "entity", "claim", "premise", "hypothesis", "keyword"}
)
"""Beside a text alone: what a model is to say of it."""
_VALUE = "answer"
"""The name of what may be a number, yes or no, or several answers that are right."""
_MEDIA = re.compile(r"image|img|photo|picture|audio|wav|speech|video", re.IGNORECASE)
"""Fields that a question is about: the same words about another image are another row."""
_CONTEXT_LENGTH = 1 << 16


_GIVEN = frozenset({Shape.ANSWER, Shape.INSTRUCTION})
_MOJIBAKE = re.compile(
    r"(?<![A-Z\xc0-\xde])[\xc2\xc3][\x80-\xaa\xac-\xba\xbc-\xbf]|\xe2(?:\x80|\u20ac[\x80-\uffff])"
)
"""What the UTF-8 of accented letters, of quotation marks and dashes becomes when it is decoded as
Latin-1 or Windows-1252: no word has such a capital before such a sign, but for one in capitals
before a closing quotation mark."""
_BEGINNINGS = "\xc2\xc3\xe2"


def odd(text: str) -> bool:
    """Whether a text holds NUL, U+FFFD, or what was decoded wrongly."""
    if text.isascii():
        return "\x00" in text
    return "\x00" in text or "\ufffd" in text or is_mojibake(text)


def is_mojibake(text: str) -> bool:
    """Whether UTF-8 was decoded as something else."""
    return any(map(text.__contains__, _BEGINNINGS)) and _MOJIBAKE.search(text) is not None


class Plan(msgspec.Struct, frozen=True):
    """How rows of one form are read. ``parts``: the fields whose texts, one below the other, are
    all that a row says, with the last as what must not be empty; none where it is not so simple.
    """

    shape: Shape
    read: Reader
    parts: tuple[str, ...] = ()

    def texts(self, rows: Sequence[Fields]) -> list[str] | None:
        """What many rows say, many times as fast as one by one; None where one of them needs a
        closer look. Every one of ``parts`` must be there and text."""
        if len(self.parts) == 2:
            first, last = self.parts
            found = [f"{row[first]}\n{row[last]}" for row in rows]
        else:
            found = ["\n".join([row[name] for name in self.parts]) for row in rows]
        answers = [row[self.parts[-1]] for row in rows]
        sound = all(answers) and not any(map(str.isspace, answers))
        return found if sound and not odd("".join(found)) else None

    def given(self, rows: Sequence[Fields]) -> list[tuple[str, str]]:
        """Prompt and answer of each; none where rows are not read by their parts, or have none."""
        if self.shape not in _GIVEN or not self.parts:
            return []
        if len(self.parts) == 2:
            first, last = self.parts
            return [(row[first], row[last]) for row in rows]
        *asked, last = self.parts
        return [("\n".join([row[name] for name in asked]), row[last]) for row in rows]


def recognise(row: Fields, text_field: str | None) -> Plan:
    """The shape of a row and how to read rows with the same fields and types."""
    plan = _recognised(row, text_field)
    known = _CONTEXT | _QUESTIONED if plan.shape is Shape.TEXT else _CONTEXT
    names = [name for name in row if name.lower() in known or _MEDIA.search(name)]
    unnamed = text_field is None and "text" not in row
    if plan.shape is Shape.TEXT and unnamed and _ANSWERS & row.keys():
        names = [name for name, value in row.items() if isinstance(value, str)]
    if names:
        read = partial(_with_context, plan.read, names)
        media = [name for name in names if _MEDIA.search(name)]
        captioned = plan.shape is Shape.TEXT and bool(media)
        return Plan(plan.shape, partial(_captioned, read, media) if captioned else read)
    if not all(type(row.get(name)) is str for name in plan.parts):
        return Plan(plan.shape, plan.read)
    return plan


def _with_context(read: Reader, names: list[str], row: Fields) -> Content:
    beside = "\n".join(str(row[name])[:_CONTEXT_LENGTH] for name in names)
    return read(row)._replace(beside=beside)


def _captioned(read: Reader, media: list[str], row: Fields) -> Content:
    """A row with an image may lack its text: models learn so to do without a prompt."""
    content = read(row)
    if content.issues == (Issue.NULL_TEXT,) and any(row[name] for name in media):
        return content._replace(issues=())
    return content


def _recognised(row: Fields, text_field: str | None) -> Plan:
    if text_field is not None:
        return Plan(Shape.TEXT, partial(_named, text_field), (text_field,))
    if "input_ids" in row:
        return Plan(Shape.TOKENS, _tokens)
    if "chosen" in row and "rejected" in row:
        return Plan(Shape.PREFERENCE, _preference)
    for name in _CONVERSATIONS:
        if name in row and not (name in _TEXTS and isinstance(row[name], str)):
            return Plan(Shape.CHAT, partial(_chat, name))
    return _in_pairs(row) or _single(row)


def _in_pairs(row: Fields) -> Plan | None:
    for shape, pairs in ((Shape.INSTRUCTION, _INSTRUCTED), (Shape.ANSWER, _ANSWERED)):
        for asked, answered in pairs:
            if asked not in row or answered not in row:
                continue
            if isinstance(row[answered], int) and any(name in row for name in _CHOICES):
                return Plan(Shape.TEXT, partial(_named, asked), (asked,))
            given = shape is Shape.INSTRUCTION and isinstance(row.get("input"), str)
            parts = (asked, "input", answered) if given else (asked, answered)
            return Plan(shape, partial(_answered, asked, answered, shape), parts)
    return None


def _single(row: Fields) -> Plan:
    for name in _TEXTS:
        if name in row:
            return Plan(Shape.TEXT, partial(_named, name), (name,))
    if "prompt" in row:
        return Plan(Shape.PROMPT, partial(_named, "prompt"), ("prompt",))
    return Plan(Shape.FIELDS, _all)


def _named(name: str, row: Fields) -> Content:
    if name not in row:
        return Content("", issues=(Issue.NO_TEXT,))
    text, issue = flat(row[name])
    if issue is not None:
        return Content("", issues=(issue,))
    if not text or text.isspace():
        return Content("", issues=(Issue.EMPTY_TEXT,))
    return Content(text)


def _answered(asked: str, answered: str, shape: Shape, row: Fields) -> Content:
    """A prompt, with the input that an instruction may have, and its answer."""
    prompt, answer = row[asked], row[answered]
    parts = (*texts_of(prompt), *texts_of(answer))
    issues: tuple[Issue, ...] = ()
    if type(prompt) is not str or type(answer) is not str:
        answer = _value(answer) if answered == _VALUE else answer
        prompt, answer, issues = _flattened(prompt, answer)
    if shape is Shape.INSTRUCTION and isinstance(row.get("input"), str):
        prompt = f"{prompt}\n{row['input']}"
        parts = (*parts, row["input"])
    if not issues and (not answer or answer.isspace()) and is_empty(row[answered]):
        issues = (Issue.EMPTY_ANSWER,)
    return Content(f"{prompt}\n{answer}", len(prompt) + 1, issues, parts=parts)


def _value(answer: Any) -> Any:
    """As text, where it has any."""
    if isinstance(answer, (int, float)):
        return str(answer)
    return answer if as_turns(answer) else "\n".join(_strings(answer)) or answer


def _flattened(prompt: Any, answer: Any) -> tuple[str, str, tuple[Issue, ...]]:
    """Both as text, and what is wrong with either."""
    asked, wrong = flat(prompt)
    answered, amiss = flat(answer)
    found = (issue for issue in (wrong, amiss) if issue is not None)
    return asked, answered, tuple(dict.fromkeys(found))


def _chat(name: str, row: Fields) -> Content:
    return conversation(row[name], row.get("tools", row.get("functions")))


def _preference(row: Fields) -> Content:
    prompt, _ = flat(row.get("prompt", ""))
    chosen, wrong = flat(row["chosen"])
    rejected, amiss = flat(row["rejected"])
    issues = [issue for issue in (wrong, amiss) if issue is not None]
    if not issues and is_empty(row["chosen"]):
        issues = [Issue.EMPTY_ANSWER]
    elif not issues and row["chosen"] == row["rejected"]:
        issues = [Issue.SAME_PAIR]
    text = f"{prompt}\n{chosen}\n{rejected}"
    parts = tuple(chain.from_iterable(map(texts_of, map(row.get, _PAIR))))
    return Content(text, len(prompt) + 1, tuple(dict.fromkeys(issues)), parts=parts)


def _strings(within: Any) -> Iterator[str]:
    """In their order, at any depth: translations are an object, the words of a sentence a list."""
    waiting = [within]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += list(value.values())[::-1]
        elif isinstance(value, list):
            waiting += value[::-1]


def _tokens(row: Fields) -> Content:
    """Rows of numbers are looked at by who counts the targets; equal ones are duplicates."""
    ids = row["input_ids"]
    if ids is None:
        return Content("", issues=(Issue.NULL_TEXT,))
    if not isinstance(ids, list):
        return Content("", issues=(Issue.NOT_TEXT,))
    text = " ".join(map(str, ids))
    return Content(text) if text else Content("", issues=(Issue.EMPTY_TEXT,))


def _all(row: Fields) -> Content:
    """All text of a row of no shape that is known, also within its objects and lists."""
    texts = [value for value in row.values() if isinstance(value, str)]
    text = "\n".join(_strings(row))
    if texts and not text.strip():
        return Content("", issues=(Issue.EMPTY_TEXT,))
    others = [value for value in row.values() if value is not None and type(value) is not str]
    return Content(text, beside=" ".join(str(value)[:_CONTEXT_LENGTH] for value in others))
