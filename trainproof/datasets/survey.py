"""Everything that is measured of a dataset, row by row, in bounded memory."""

from __future__ import annotations

from typing import Protocol

from trainproof.model.dataset import Dataset, Issue, Shape, Spot

from .classes import Classes
from .forms import Forms
from .places import Issues
from .repeats import TELLING, Memory
from .rows import Fields, Unusable
from .sources import Form, Source
from .targets import Supervision
from .turns import Content


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
        self._classes = Classes()
        self._targets = Supervision(issues, ends)
        self._sample = sample
        self._rows = self._held = self._unusable = self._characters = self._files = 0
        self._number = 0
        self._source: Source | None = None
        self._memory = self._trained
        self._least = 1

    def file(self, source: Source) -> None:
        """The rows that come next are of this file."""
        self._source, self._number = source, 0
        self._files += 1
        self._memory = self._held_out if source.held_out else self._trained
        self._memory.file(source.artifact)
        self._least = TELLING if source.held_out else 1

    def form(self, form: Form) -> None:
        """Lines of plain text repeat each other where they are short, and no harm is done."""
        if form is Form.TEXT:
            self._least = TELLING

    def unusable(self, item: Unusable) -> None:
        self._number += 1
        self._unusable += 1
        self.issues.add(item.issue, self._spot(item.line))

    def row(self, line: int | None, fields: Fields, issues: tuple[Issue, ...] = ()) -> None:
        self._number += 1
        source = self._source
        assert source is not None
        form = self._forms.of(fields, source.artifact, line, self._number)
        content = form.read(fields)
        text = content.text
        if issues or content.issues or "\x00" in text or not text.isascii():
            self._look(line, content, issues)
        if text:
            self._characters += len(text)
            whole = f"{text}\n{content.beside}" if content.beside else text
            self._memory.add(whole, line, self._number, self._least)
        if source.held_out:
            self._held += 1
            return
        self._rows += 1
        if form.label:
            self._classes.add(form.label, fields, self._spot(line))
        if form.shape is Shape.TOKENS:
            self._targets.add(fields, self._spot(line))
        elif self._sample is not None and text and not issues:
            self._sample.add(content, self._spot(line))

    def _spot(self, line: int | None) -> Spot:
        assert self._source is not None
        return Spot(self._source.artifact, line or self._number, line is not None)

    def _look(self, line: int | None, content: Content, issues: tuple[Issue, ...]) -> None:
        """Rows of which something is wrong, or may be."""
        for issue in (*issues, *content.issues):
            self.issues.add(issue, self._spot(line))
        if "\x00" in content.text:
            self.issues.add(Issue.NUL, self._spot(line))
        if "\ufffd" in content.text and Issue.ENCODING not in issues:
            self.issues.add(Issue.REPLACEMENT, self._spot(line))

    def found(self, name: str) -> Dataset:
        """What has come together; the tokenizer's part is added by who has one."""
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
            targets=self._targets.found(),
            signatures_dropped=self._forms.dropped,
        )
