"""What was measured of a dataset before it is trained on: counts, and the first few places."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from .tokenizer import Tokenizer


class Shape(StrEnum):
    """What one row is to a trainer. ``FIELDS``: none of the shapes that are known by name."""

    TEXT = "text"
    PROMPT = "prompt-only"
    ANSWER = "prompt-completion"
    INSTRUCTION = "instruction"
    CHAT = "chat"
    PREFERENCE = "preference"
    TOKENS = "tokens"
    FIELDS = "fields"


class Issue(StrEnum):
    """What can be wrong with one row."""

    SYNTAX = "syntax"
    NOT_OBJECT = "not-object"
    ENCODING = "encoding"
    TOO_LONG = "too-long"
    ARITY = "arity"
    QUOTES = "quotes"

    EMPTY_TEXT = "empty-text"
    EMPTY_ANSWER = "empty-answer"
    EMPTY_TURN = "empty-turn"
    EMPTY_ASKED = "empty-asked"
    NO_TEXT = "no-text"
    NULL_TEXT = "null-text"
    NOT_TEXT = "not-text"

    SURROGATE = "surrogate"
    REPLACEMENT = "replacement"
    NUL = "nul"
    MOJIBAKE = "mojibake"
    NOT_A_NUMBER = "not-a-number"

    BAD_TURN = "bad-turn"
    UNKNOWN_ROLE = "unknown-role"
    LATE_SYSTEM = "late-system"
    REPEATED_ROLE = "repeated-role"
    STARTS_ANSWERED = "starts-answered"
    ENDS_UNANSWERED = "ends-unanswered"

    CALL_ARGUMENTS = "call-arguments"
    CALL_UNKNOWN = "call-unknown"
    CALL_UNDECLARED = "call-undeclared"

    NO_ANSWER = "no-answer"
    ALL_IGNORED = "all-ignored"
    UNEQUAL_LENGTHS = "unequal-lengths"
    SAME_PAIR = "same-pair"

    OVERFLOW = "overflow"
    ANSWER_CUT = "answer-cut"
    DOUBLE_BOS = "double-bos"
    TEMPLATE_BOS = "template-bos"
    ID_RANGE = "id-range"
    NOT_RENDERED = "not-rendered"


class Spot(msgspec.Struct, frozen=True):
    """A row. ``number`` is 1-based: of the line; of the row where ``lined`` is false."""

    artifact: str
    number: int
    lined: bool = True

    @property
    def line(self) -> int | None:
        """1-based, None for formats without lines."""
        return self.number if self.lined else None

    def __str__(self) -> str:
        return f"{'line' if self.lined else 'row'} {self.number}"


class Tally(msgspec.Struct, frozen=True):
    """How many rows, and the first few of them."""

    rows: int = 0
    spots: tuple[Spot, ...] = ()


class FieldFacts(msgspec.Struct, frozen=True):
    """One named field: in how many rows it is, with which types of JSON (null apart)."""

    name: str
    rows: int
    nulls: int
    types: Mapping[str, int]
    first: Mapping[str, Spot]
    """Of each type, the first row."""
    first_without: Spot | None = None


class Repeats(msgspec.Struct, frozen=True):
    """Rows whose text was there before. ``compared``: rows whose text was remembered.

    ``normalised``: equal but for case and white space, and not equal. ``firsts``: of each spot
    of ``exact``, where its text stood first.
    """

    compared: int = 0
    exact: Tally = Tally()
    firsts: tuple[Spot, ...] = ()
    normalised: Tally = Tally()


class Overlap(msgspec.Struct, frozen=True):
    """Held-out rows whose text is in the training rows as well, but for case and white space.

    ``compared``: held-out rows long enough to say anything; ``short``: the others. ``spots`` of
    ``shared`` are held-out rows; ``trained``: of each, a training row with its text.
    """

    compared: int
    short: int
    shared: Tally
    trained: tuple[Spot, ...] = ()


class Labels(msgspec.Struct, frozen=True):
    """The classes of a field. ``runs``: stretches of rows of one class; ``expected`` and ``z``:
    what a random order would give, and how many standard deviations the runs are off."""

    field: str
    rows: int
    classes: int
    most: str
    most_rows: int
    least: str
    least_rows: int
    runs: int
    expected: float
    z: float
    longest: int
    longest_at: Spot


class Answers(msgspec.Struct, frozen=True):
    """Answers of training rows. ``most``: the beginning of the one that most rows give.
    ``long``: answers of 20 characters or more; ``within``: of these, those that stand at the end
    of their prompt as well."""

    rows: int
    most: str
    most_rows: int
    most_at: Spot
    long: int = 0
    within: Tally = Tally()


class Lengths(msgspec.Struct, frozen=True):
    """What the tokenizer made of a sample of the rows. ``max_len``: in tokens, with where it
    comes from. ``rendered``: conversations that went through the template; ``closed``: those in
    which a special token follows the last answer."""

    sampled: int
    answered: int
    longest: int
    longest_at: Spot
    mean: float
    rendered: int = 0
    closed: int = 0
    max_len: int | None = None
    source: str = ""


class Targets(msgspec.Struct, frozen=True):
    """Of rows that are tokens already. ``labelled``: rows with labels, to which ``tokens`` and
    ``supervised`` refer; 0 where labels are of another kind than the tokens (tags, translations).
    ``ended``: rows with a token among the targets that can end an answer, None where it is not
    known which tokens those are. ``largest``: of all ids."""

    rows: int
    labelled: int
    tokens: int
    supervised: int
    ended: int | None
    largest: int
    first: Spot


class Dataset(msgspec.Struct, frozen=True):
    """``rows``: usable training rows. ``issues``: of both, training and held-out rows."""

    name: str
    rows: int
    held_out: int = 0
    unusable: int = 0
    files: int = 1
    characters: int = 0
    shapes: Mapping[Shape, int] = msgspec.field(default_factory=dict)
    shape_at: Mapping[Shape, Spot] = msgspec.field(default_factory=dict)
    fields: tuple[FieldFacts, ...] = ()
    issues: Mapping[Issue, Tally] = msgspec.field(default_factory=dict)
    repeats: Repeats = Repeats()
    overlap: Overlap | None = None
    labels: Labels | None = None
    answers: Answers | None = None
    calling: int | None = None
    """Conversations in which tools are called; None without any."""
    lengths: Lengths | None = None
    targets: Targets | None = None
    tokenizer: Tokenizer | None = None
    tokenizer_asked: bool = False
    documents: Tally = Tally()
    """Files named as JSON lines that hold a document: a list, or records over several lines."""
    lined: Tally = Tally()
    """Files named as JSON that hold a record a line."""
    signatures_dropped: int = 0
    """Rows of so many different forms that the rest was not told apart."""

    @property
    def seen(self) -> int:
        """All rows and lines that were looked at."""
        return self.rows + self.held_out + self.unusable
