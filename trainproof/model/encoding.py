"""Records of the report as JSON, with nothing lost that JSON has no form for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from .report import EncodedSubject, Head, Report, SubjectReport, Subjects
from .text import json_number, safe

_encode = msgspec.json.Encoder(order="deterministic").encode


def encoded(subject: SubjectReport, *, published: bool = False) -> EncodedSubject:
    """The subject's report as JSON: fields in the order of their declaration, keys of mappings
    sorted.

    ``published``: it comes from ``publish``, which leaves nothing that JSON cannot spell. In what
    others have made there may be something; it is spelled here: the encoder would write NaN as
    null, and lose the evidence.
    """
    head = msgspec.convert(subject, Head, from_attributes=True)
    return EncodedSubject(head, json_of(subject, published))


def all_encoded(subjects: Sequence[SubjectReport]) -> Iterable[EncodedSubject]:
    """The subjects as JSON, one after the other: as they are kept, or encoded now."""
    return subjects.encoded if isinstance(subjects, Subjects) else map(encoded, subjects)


def json_of(value: SubjectReport | Report, plain: bool = True) -> bytes:
    """``plain``: it holds no numbers but such as JSON has a form for, which readers in other
    languages take: none is longer than 64 bits."""
    if plain:
        try:
            return _encode(value)
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return msgspec.json.encode(_spelled(value))


def _spelled(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _spelled(item) for name, item in msgspec.structs.asdict(value).items()}
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, Mapping):
        spelled = {safe(key): _spelled(item) for key, item in value.items()}
        return dict(sorted(spelled.items()))
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return json_number(value) if isinstance(value, int | float) else value
