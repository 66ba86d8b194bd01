"""Pass once over every block of bytes: its checksum, and the tensors that are views of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from trainproof.model.tensors import TensorStats

from .checksum import crc32
from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .scan import combined, scan_of
from .source import Damage
from .torch_objects import Tensor
from .views import Passing, Read, View, blocks, measure_blocks


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of one storage. ``pieces`` start on multiples of 64 bytes.

    ``read``: random access, None where there is none (compressed). ``start``: their first byte
    in the file, None where they are not there as they are.
    """

    size: int
    pieces: Callable[[], Iterator[memoryview]]
    read: Read | None
    start: int | None = None


@dataclass(slots=True)
class Measured:
    """What was found out: by view, and by storage its checksum and its first byte in the file."""

    stats: dict[View, TensorStats] = field(default_factory=dict)
    unread: dict[View, str] = field(default_factory=dict)
    crcs: dict[str, int] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    broken: dict[str, Damage] = field(default_factory=dict)

    def of(self, tensor: Tensor) -> tuple[TensorStats | None, str]:
        """The statistics of a tensor, or the reason why there are none."""
        if tensor.unread:
            return None, tensor.unread
        if tensor.data is not None:
            scan = scan_of(DTYPES[tensor.dtype], tensor.big_endian)
            scan.add(tensor.data)
            return scan.stats(), ""
        parts = [self.stats[view] for view in tensor.views if view in self.stats]
        if not parts or len(parts) != len(tensor.views):
            why = [self.unread[view] for view in tensor.views if view in self.unread]
            return None, why[0] if why else "its values are not in the file"
        return reduce(combined, parts), ""

    def crc_of(self, tensor: Tensor) -> int | None:
        """The checksum of a tensor that fills its storage."""
        if len(tensor.views) != 1:
            return None
        view = tensor.views[0]
        filled = view.dense() == (0, view.capacity * view.itemsize)
        return self.crcs.get(view.storage) if filled else None

    def place_of(self, tensor: Tensor, base: int) -> int | None:
        """The first byte in the file of a tensor whose elements lie there in order; ``base``: that
        of its source."""
        if len(tensor.views) != 1:
            return None
        view = tensor.views[0]
        start = self.starts.get(view.storage)
        if start is None or view not in self.stats or view.times > 1 or not view.in_order():
            return None
        return base + start + view.offset * view.itemsize


def measure(
    tensors: Iterable[Tensor],
    storages: Mapping[str, Block],
    big_endian: bool,
    budget: int,
    limits: Limits = LIMITS,
) -> Measured:
    """Measure every view of the storages. ``budget``: bytes, beyond which views stay unread."""
    work = _Work(Measured(), big_endian, budget, limits)
    views: defaultdict[str, dict[View, None]] = defaultdict(dict)
    for tensor in tensors:
        for view in tensor.views:
            views[view.storage].setdefault(view)
    for key, block in storages.items():
        work.storage(key, block, list(views.pop(key, ())))
    for found in views.values():
        work.measured.unread.update(dict.fromkeys(found, "its storage is not in the file"))
    return work.measured


@dataclass(slots=True)
class _Work:
    measured: Measured
    big: bool
    budget: int
    limits: Limits

    def storage(self, key: str, block: Block, views: list[View]) -> None:
        """One storage and its views."""
        passing: list[Passing] = []
        others: list[View] = []
        if block.start is not None and not self.big:
            self.measured.starts[key] = block.start
        for view in views:
            self._sort(view, block, passing, others)
        try:
            self.measured.crcs[key] = run(block.pieces(), passing)
        except Damage as damage:
            self.measured.broken[key] = damage
            self.measured.unread.update(dict.fromkeys(views, damage.what))
            return
        self.measured.stats.update((one.view, one.stats()) for one in passing)
        for view in others:
            self._blockwise(view, block)

    def _sort(self, view: View, block: Block, passing: list[Passing], others: list[View]) -> None:
        dense = view.dense() if view.elements else (0, 0)
        if view.elements and (view.last + 1) * view.itemsize > block.size:
            self.measured.unread[view] = "its bytes are not all in the file"
        elif dense is None:
            others.append(view)
        elif dense[1] > self.budget:
            self.measured.unread[view] = "more overlapping views than the limit"
        else:
            self.budget -= dense[1]
            passing.append(Passing(view, *dense, self.big))

    def _blockwise(self, view: View, block: Block) -> None:
        cost, made = blocks(view, self.limits)
        if block.read is None:
            self.measured.unread[view] = "a view with gaps of a compressed storage"
        elif cost > self.budget:
            self.measured.unread[view] = "a view with more gaps than the limit"
        else:
            self.budget -= cost
            self.measured.stats[view] = measure_blocks(view, made, block.read, self.big)


def run(pieces: Iterator[memoryview], passing: list[Passing]) -> int:
    """Show every piece to the views that it belongs to; the checksum of all. Raises Damage."""
    waiting = sorted(passing, key=lambda one: one.start, reverse=True)
    active: list[Passing] = []
    at = crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
        end = at + len(piece)
        while waiting and waiting[-1].start < end:
            active.append(waiting.pop())
        for one in active:
            one.see(at, piece)
        active = [one for one in active if one.stop > end]
        at = end
    return crc
