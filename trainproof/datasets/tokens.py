"""What a tokenizer makes of a sample of the rows: lengths, and what truncation would take."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainproof.model.dataset import Issue, Lengths, Spot
from trainproof.model.tokenizer import Special, TextUse, Tokenizer
from trainproof.tokenization.loading import Loaded, Unencodable
from trainproof.tokenization.measuring import Use, Utterance, encodable

from .places import Issues
from .turns import Content, Turn

if TYPE_CHECKING:
    from trainproof.tokenization.templates import Renderer

_ALL = 8192
"""Rows that are all taken; from there on every second, then every fourth, and so on."""
_USED = 2000
"""Rows whose text is looked at closely."""
_LONGEST = 1 << 21
_BATCH = 64
_CHARACTERS = 64 << 20
"""Characters after which no further row is taken."""


class TokenSample:
    """Takes rows, tokenizes some of them, and counts. ``trouble``: why it had to end, and found
    nothing."""

    def __init__(
        self,
        loaded: Loaded,
        issues: Issues,
        name: str,
        max_len: int | None,
        beat: Callable[[], None],
    ) -> None:
        self._loaded, self._issues, self._beat = loaded, issues, beat
        declared = loaded.facts.model_max_length
        self._max_len = declared if max_len is None else max_len
        self._source = "the tokenizer's configuration" if max_len is None else "--max-len"
        self._use = Use(loaded, name, beat)
        self._renderer = _renderer(loaded)
        self._added = loaded.facts.framing
        self._offered = self._sampled = self._characters = self._tokens = 0
        self._rendered = self._closed = self._answered = self._longest = 0
        self._stride = 1
        self._longest_at: Spot | None = None
        self._waiting: list[tuple[str, int | None, bool, Spot]] = []
        self.trouble = ""

    def add(self, content: Content, spot: Spot) -> None:
        if self.trouble:
            return
        try:
            self._add(content, spot)
        except Unencodable as error:
            self.trouble = str(error)

    def _add(self, content: Content, spot: Spot) -> None:
        self._offered += 1
        if self._offered % self._stride or self._characters > _CHARACTERS:
            return
        self._sampled += 1
        if self._sampled >= _ALL and self._sampled % (_ALL // 2) == 0:
            self._stride *= 2
        text, answer, rendered = self._told(content, spot)
        self._characters += len(text)
        if not encodable(text):
            return
        if self._sampled <= _USED:
            parts = filter(str.strip, content.parts or (content.text,))
            for place, part in enumerate(parts):
                self._use.add(Utterance(spot.line or 0, part), goes_on=place > 0)
        self._waiting.append((text[:_LONGEST], answer, rendered, spot))
        if len(self._waiting) >= _BATCH:
            self._encode()

    def _told(self, content: Content, spot: Spot) -> tuple[str, int | None, bool]:
        """The text of a row as the model would get it, and where the last answer begins."""
        if not content.turns or self._renderer is None:
            return content.text, content.answer, False
        from trainproof.tokenization.templates import Refused  # noqa: PLC0415 - is there by now

        try:
            text = self._renderer.render([message(turn) for turn in content.turns], content.tools)
        except Refused:
            self._issues.add(Issue.NOT_RENDERED, spot)
            return content.text, content.answer, False
        said = [turn.text for turn in content.turns if turn.plays == "assistant"]
        at = text.rfind(said[-1].strip()) if said and said[-1].strip() else -1
        self._rendered += 1
        if at >= 0:
            self._closed += self._ends(text[at + len(said[-1].strip()) :])
        return text, at if at >= 0 else None, True

    def _ends(self, tail: str) -> bool:
        """Whether a special token follows the answer."""
        return any(one.text in tail for one in self._loaded.facts.specials)

    def _encode(self) -> None:
        self._beat()
        batch, self._waiting = self._waiting, []
        found = self._loaded.encoder.batch([text for text, *_ in batch])
        for (text, answer, rendered, spot), ids in zip(batch, found, strict=True):
            self._count(text, answer, len(ids) + (0 if rendered else self._added), spot)
            bos = self._loaded.bos
            if bos and self._loaded.facts.adds_bos and text.startswith(bos):
                self._issues.add(Issue.TEMPLATE_BOS if rendered else Issue.DOUBLE_BOS, spot)

    def _count(self, text: str, answer: int | None, tokens: int, spot: Spot) -> None:
        self._tokens += tokens
        self._answered += answer is not None
        if tokens > self._longest:
            self._longest, self._longest_at = tokens, spot
        if self._max_len is None or tokens <= self._max_len:
            return
        self._issues.add(Issue.OVERFLOW, spot)
        if answer is not None:
            begins = len(self._loaded.encoder.encode(text[:answer])) + self._loaded.facts.adds_bos
            if begins >= self._max_len:
                self._issues.add(Issue.ANSWER_CUT, spot)

    def found(self) -> tuple[Lengths | None, TextUse | None]:
        """The lengths, and what the tokenizer did to the text of the first rows of the sample."""
        try:
            if self._waiting:
                self._encode()
            use = None if self.trouble else self._use.found()
        except Unencodable as error:
            self.trouble = str(error)
        if self.trouble:
            return None, None
        return self._lengths(), use if use is not None and use.tokens else None

    def _lengths(self) -> Lengths | None:
        if self._longest_at is None:
            return None
        return Lengths(
            sampled=self._sampled,
            answered=self._answered,
            longest=self._longest,
            longest_at=self._longest_at,
            mean=self._tokens / self._sampled,
            rendered=self._rendered,
            closed=self._closed,
            max_len=self._max_len,
            source=self._source if self._max_len is not None else "",
        )


def message(turn: Turn) -> dict[str, Any]:
    """A turn as chat templates get it."""
    return {"role": turn.plays or turn.role, "content": turn.text, **turn.more}


def _renderer(loaded: Loaded) -> Renderer | None:
    """None without a template, without Jinja, and for a template that is none."""
    if loaded.template is None:
        return None
    try:
        templates = import_module("trainproof.tokenization.templates")
        renderer: Renderer = templates.Renderer(loaded.template, loaded.bos, loaded.eos)
    except ImportError:
        return None
    except templates.Refused:
        return None
    return renderer


def ends(facts: Tokenizer) -> frozenset[int]:
    """Tokens that can end an answer: the end of text, and special tokens without another role."""
    roles = (Special.EOS, Special.SEP, None)
    return frozenset(one.id for one in facts.specials if one.role in roles and one.id is not None)
