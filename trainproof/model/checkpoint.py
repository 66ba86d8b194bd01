"""One saved checkpoint as rules see it: its files with their tensors, and the sets they form; and
what is between it and another one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from .tensors import CheckpointDirectory, CheckpointFacts, Depth, TensorInfo


class SavedFile(msgspec.Struct, frozen=True, eq=False):
    """One file that was read, as far as it could be."""

    facts: CheckpointFacts
    tensors: tuple[TensorInfo, ...] = ()


class TokenRow(msgspec.Struct, frozen=True):
    """The row of an embedding that stands for an added token.

    ``used``: whether the chat template names the token, or it begins or ends every text. ``zero``:
    whether the row is zero throughout. ``apart``: Euclidean distance to the nearest row of another
    added token, NaN where there is none that is neither zero nor infinite.
    """

    id: int
    text: str
    used: bool
    zero: bool
    apart: float


class TokenRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of one embedding or output layer. ``others``: rows of other tokens, evenly spread, that
    were looked at; ``typical``: the median of their distances to the nearest of them.
    """

    tensor: TensorInfo
    tokens: tuple[TokenRow, ...]
    others: int
    typical: float


class Checkpoint(msgspec.Struct, frozen=True, eq=False):
    """Files that are judged together.

    ``depth``: what the caller asked for. ``directories``: the sets that the files form. ``lost``:
    paths of files that could not be opened, or whose reading ended the process. ``step``: how far
    the training had come, as far as the checkpoint tells. ``limited``: whether it was read to a
    lesser depth because of its size. ``rows``: those of tokens that were added to the vocabulary.
    """

    files: tuple[SavedFile, ...]
    depth: Depth = Depth.TENSORS
    directories: tuple[CheckpointDirectory, ...] = ()
    lost: tuple[str, ...] = ()
    step: int | None = None
    limited: bool = False
    rows: tuple[TokenRows, ...] = ()

    @property
    def tensors(self) -> Iterator[TensorInfo]:
        for file in self.files:
            yield from file.tensors


class Change(StrEnum):
    """What became of a tensor of the reference.

    SAME: every byte is equal. MOVED: some are not. RETYPED, RESHAPED: its type or its shape is
    another one, so that its values are not compared. UNKNOWN: nothing shows which of the two it is.
    """

    SAME = "same"
    MOVED = "moved"
    RETYPED = "retyped"
    RESHAPED = "reshaped"
    UNKNOWN = "unknown"


class Twin(msgspec.Struct, frozen=True, eq=False):
    """One tensor of a checkpoint beside the same one of the reference, ``before``.

    ``compared``: elements that were compared bit by bit, evenly spread over the tensor where these
    are not all of them; ``identical`` of these. ``norm``, ``norm_before`` and ``distance``:
    Euclidean norms over those of them that are finite in both, of the tensor, of the one before and
    of the difference; NaN where they were not computed. ``unread``: why values were not compared,
    "" where they were or need not be.
    """

    tensor: TensorInfo
    before: TensorInfo
    change: Change
    compared: int = 0
    identical: int = 0
    norm: float = math.nan
    norm_before: float = math.nan
    distance: float = math.nan
    unread: str = ""


class RowDrift(msgspec.Struct, frozen=True, eq=False):
    """Rows of an embedding that moved. ``tokens``: added ones that were looked at; ``still``: those
    of them whose row is bit by bit what it was. ``others`` looked at, of which ``moved`` changed.
    """

    tensor: TensorInfo
    tokens: int
    still: tuple[TokenRow, ...]
    others: int
    moved: int


class Drift(msgspec.Struct, frozen=True, eq=False):
    """A checkpoint against a reference, most often an earlier one of the same run.

    ``reference``: its name. ``before``: what was read of it. ``added`` and ``gone``: tensors that
    only the checkpoint or only the reference has. ``prefix`` and ``prefix_before``: what had to be
    taken off the names of either for them to meet. ``distance``: steps from the reference to the
    checkpoint, None where either does not tell. ``rows``: of embeddings that moved.
    """

    reference: str
    before: Checkpoint
    twins: tuple[Twin, ...] = ()
    added: tuple[TensorInfo, ...] = ()
    gone: tuple[TensorInfo, ...] = ()
    prefix: str = ""
    prefix_before: str = ""
    distance: int | None = None
    rows: tuple[RowDrift, ...] = ()


class Kept(msgspec.Struct, frozen=True):
    """A checkpoint as the run sees that keeps it.

    ``step``: how far the training had come, None where it does not tell. ``damaged``: rules that
    found that it cannot be used. ``nonfinite``: values of its weights that are not finite, None
    where not all were read. ``files``: names of all files beside one another in its directory.
    """

    id: str
    step: int | None = None
    damaged: tuple[str, ...] = ()
    nonfinite: int | None = None
    files: tuple[str, ...] = ()
