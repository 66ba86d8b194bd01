"""Everything that is measured of a dataset, row by row, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from trainproof.model.dataset import Dataset, Issue, Shape, Spot

from .answers import Given
from .classes import Classes
from .forms import Form, Forms
from .places import Counted, Issues, spot_at
from .repeats import TELLING, Memory
from .rows import Fields, Unusable
from .shapes import is_mojibake, odd
from .sources import Form as FileForm
from .sources import Source, named
from .targets import Supervision
from .turns import Content

_BATCH = 512
_BATCH_SIZE = 1 << 20
"""Rows, and their characters, that are looked at together."""


_LEARNED = frozenset({Issue.EMPTY_TEXT, Issue.EMPTY_ANSWER, Issue.NO_ANSWER, Issue.NULL_TEXT})
"""Of no account in rows that nothing is learned from: test sets hide their answers."""


class Sample(Protocol):
    """Who gives rows to a tokenizer."""

    def add(self, content: Content, spot: Spot) -> None: ...


class Survey:
    """Takes rows of one dataset, file by file."""

    def __init__(
        self,
        issues: Issues,
        text_field: str | None,
        sample: Sample | None = None,
        ends: frozenset[int] = frozenset(),
    ) -> None:
        self.issues = issues
        self._forms = Forms(text_field)
        self._trained, self._held_out = Memory(), Memory()
        self._documents, self._lined = Counted(), Counted()
        self._classes = Classes()
        self._given = Given()
        self._calling = 0
        self._targets = Supervision(issues, ends)
        self._sample = sample
        self._rows = self._held = self._unusable = self._characters = self._files = 0
        self._number = 0
        self._source: Source | None = None
        self._memory = self._trained
        self._least = 1
        self._form: Form | None = None
        self._waiting: list[Fields] = []
        self._places: list[int] = []
        self._size = 0

    def file(self, source: Source) -> None:
        """The rows that come next are of this file."""
        self._flush()
        self._source, self._number = source, 0
        self._files += 1
        self._memory = self._held_out if source.held_out else self._trained
        self._memory.file(source.artifact)
        self._least = TELLING if source.held_out else 1

    def form(self, form: FileForm) -> None:
        """Lines of plain text repeat each other where they are short, and no harm is done."""
        assert self._source is not None
        if form is FileForm.TEXT:
            self._least = TELLING
        match named(self._source.path), form:
            case FileForm.JSON_LINES, FileForm.JSON:
                self._documents.add(spot_at(self._source.artifact, 1))
            case FileForm.JSON, FileForm.JSON_LINES:
                self._lined.add(spot_at(self._source.artifact, 1))

    def unusable(self, item: Unusable) -> None:
        self._number += 1
        self._unusable += 1
        self.issues.add(item.issue, self._spot(item.line or -self._number))

    def row(self, line: int | None, fields: Fields, issues: tuple[Issue, ...] = ()) -> None:
        """Rows that say nothing but text wait for others of their form."""
        self._number += 1
        place = line or -self._number
        assert self._source is not None
        form = self._forms.of(fields, self._source.artifact, place)
        if form is not self._form:
            self._flush()
            self._form = form
        parts = form.plan.parts
        if not parts or issues or self._sample is not None:
            self._flush()
            self._one(form, place, fields, issues)
            return
        self._waiting.append(fields)
        self._places.append(place)
        for name in parts:
            self._size += len(fields[name])
        if len(self._waiting) >= _BATCH or self._size >= _BATCH_SIZE:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting or self._form is None:
            return
        rows, places, form = self._waiting, self._places, self._form
        self._waiting, self._places, self._size = [], [], 0
        texts = form.plan.texts(rows)
        if texts is None:
            for place, fields in zip(places, rows, strict=True):
                self._one(form, place, fields, ())
            return
        self._memory.extend(texts, places, self._least)
        self._characters += sum(map(len, texts))
        self._count(len(texts))
        assert self._source is not None
        if not self._is_held_out and (given := form.plan.given(rows)):
            self._given.extend(self._source.artifact, given, places)
        if form.label and not self._is_held_out:
            for place, fields in zip(places, rows, strict=True):
                self._classes.add(form.label, fields, self._spot(place))

    @property
    def _is_held_out(self) -> bool:
        return self._memory is self._held_out

    def _count(self, rows: int) -> None:
        if self._is_held_out:
            self._held += rows
        else:
            self._rows += rows

    def _one(self, form: Form, place: int, fields: Fields, issues: tuple[Issue, ...]) -> None:
        content = form.plan.read(fields)
        text = content.text
        self._look(place, content, issues)
        self._count(1)
        if text:
            self._characters += len(text)
            whole = f"{text}\n{content.beside}" if content.beside else text
            self._memory.add(whole, place, self._least)
        if self._is_held_out:
            return
        if content.answer is not None and not content.issues:
            self._answered(content, place)
        if form.label:
            self._classes.add(form.label, fields, self._spot(place))
        if form.plan.shape is Shape.TOKENS:
            self._targets.add(fields, self._spot(place))
        elif self._sample is not None and text and not issues:
            self._sample.add(content, self._spot(place))

    def _answered(self, content: Content, place: int) -> None:
        assert self._source is not None
        text, at = content.text, content.answer
        given = text[: (at or 0) - 1], text[at:]
        self._given.extend(self._source.artifact, (given,), (place,))

    def _spot(self, place: int) -> Spot:
        assert self._source is not None
        return spot_at(self._source.artifact, place)

    def _look(self, place: int, content: Content, issues: tuple[Issue, ...]) -> None:
        """What may be wrong with a row."""
        for issue in (*issues, *content.issues):
            if not (self._is_held_out and issue in _LEARNED):
                self.issues.add(issue, self._spot(place))
        self._calling += content.calls
        if odd(content.text):
            for issue in _oddities(content.text):
                if issue is Issue.NUL or Issue.ENCODING not in issues:
                    self.issues.add(issue, self._spot(place))

    def found(self, name: str) -> Dataset:
        """What has come together; the tokenizer's part is added by who has one."""
        self._flush()
        shapes, shape_at = self._forms.shapes()
        return Dataset(
            name=name,
            rows=self._rows,
            held_out=self._held,
            unusable=self._unusable,
            files=self._files,
            characters=self._characters,
            shapes=shapes,
            shape_at=shape_at,
            fields=self._forms.fields(),
            issues=self.issues.tallies(),
            repeats=self._trained.repeats(),
            overlap=self._held_out.shared_with(self._trained) if self._held else None,
            labels=self._classes.found(),
            answers=self._given.found(),
            calling=self._calling or None,
            targets=self._targets.found(),
            documents=self._documents.tally(),
            lined=self._lined.tally(),
            signatures_dropped=self._forms.dropped,
        )


def _oddities(text: str) -> Iterator[Issue]:
    if "\x00" in text:
        yield Issue.NUL
    if "\ufffd" in text:
        yield Issue.REPLACEMENT
    if is_mojibake(text):
        yield Issue.MOJIBAKE
