"""The rows of a checkpoint's embeddings that stand for tokens added to its vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import BinaryIO

from trainproof.checkpoints.rows import has_rows, nearest, numbers, read_rows
from trainproof.checkpoints.source import Damage
from trainproof.checkpoints.vocabulary import AddedToken, added_tokens
from trainproof.model.artifact import Run
from trainproof.model.checkpoint import Checkpoint, RowDrift, TokenRow, TokenRows, Twin
from trainproof.model.tensors import Group, TensorInfo
from trainproof.stores import Store, StoreError

_EMBEDDING = re.compile(
    r"(^|[./])(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|shared|lm_head|embed_out)"
    r"(\.modules_to_save(\.default)?)?\.weight$"
)
_TENSORS = 8
_TOKENS = 256
"""Of more added tokens the first ones."""
_OTHERS = 128
"""Other rows, evenly spread, that these are held against."""

Open = Callable[[str], BinaryIO]


def token_rows(run: Run, saved: Checkpoint, store: Store) -> Iterator[TokenRows]:
    """Of a directory with the files of a tokenizer. Rows that cannot be read again are left out."""
    directory = "" if run.id == "." else f"{run.id}/"
    beside = set(run.beside)

    def head(name: str, count: int) -> bytes:
        path = directory + name
        return _head(store, path, count) if path in beside else b""

    embeddings = [one for one in saved.tensors if _is_embedding(one, directory)][:_TENSORS]
    padding = _padding(saved)
    listed = added_tokens(head) if embeddings else []
    tokens = [token for token in listed if token.id not in padding]
    for one in embeddings:
        assert one.shape is not None
        inside = [token for token in tokens if token.id < one.shape[0]][:_TOKENS]
        if inside:
            yield from _rows_of(store, one, inside)


def _padding(saved: Checkpoint) -> set[object]:
    """What the configuration says pads: its row is kept at zero."""
    said = (scalar for one in saved.directories for scalar in one.said)
    return {scalar.value for scalar in said if scalar.name == "config.json/pad_token_id"}


def _head(store: Store, path: str, count: int) -> bytes:
    try:
        with closing(store.open(path)) as stream:
            return stream.read(count)
    except (StoreError, OSError):
        return b""


def _is_embedding(one: TensorInfo, directory: str) -> bool:
    beside = one.artifact.rpartition("/")[0] == directory.rstrip("/")
    named = one.group is Group.MODEL and _EMBEDDING.search(one.name) is not None
    return beside and named and has_rows(one)


def _rows_of(store: Store, one: TensorInfo, tokens: Sequence[AddedToken]) -> Iterator[TokenRows]:
    others = list(_others(one, {token.id for token in tokens}))
    try:
        added = read_rows(store.open, one, [token.id for token in tokens])
        rest = read_rows(store.open, one, others)
    except (StoreError, Damage, OSError):
        return
    values = numbers(one, added)
    zero = [not row.any() for row in values]
    apart = iter(nearest(values[[not flag for flag in zero]]))
    yield TokenRows(
        one,
        tuple(
            TokenRow(token.id, token.text, token.used, flag, math.nan if flag else next(apart))
            for token, flag in zip(tokens, zero, strict=True)
        ),
        len(rest),
        _median(nearest(numbers(one, rest))) if rest else math.nan,
    )


def _others(one: TensorInfo, added: set[int]) -> Iterator[int]:
    assert one.shape is not None
    rows = one.shape[0]
    each = max(1, rows // _OTHERS)
    return (place for place in range(each // 2, rows, each) if place not in added)


def _median(values: Sequence[float]) -> float:
    known = sorted(value for value in values if not math.isnan(value))
    return known[len(known) // 2] if known else math.nan


def row_drift(found: TokenRows, twin: Twin, here: Open, there: Open) -> Iterator[RowDrift]:
    """Which of these rows are bit by bit those of the earlier checkpoint; nothing where they cannot
    be read. Raises what ``here`` and ``there`` do, but OSError."""
    one, before = found.tensor, twin.before
    if not has_rows(before):
        return
    others = list(_others(one, {token.id for token in found.tokens}))
    places = [*(token.id for token in found.tokens), *others]
    try:
        ours, theirs = read_rows(here, one, places), read_rows(there, before, places)
    except (Damage, OSError):
        return
    same = [row == earlier for row, earlier in zip(ours, theirs, strict=True)]
    count = len(found.tokens)
    still = tuple(token for token, flag in zip(found.tokens, same[:count], strict=True) if flag)
    yield RowDrift(one, count, still, len(others), len(others) - sum(same[count:]))
