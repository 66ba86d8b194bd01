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
from .threads import LARGE, in_threads
from .torch_objects import Tensor
from .views import Block as Part
from .views import Passing, Read, View, blocks, measure_blocks


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of one storage. ``pieces`` start on multiples of 64 bytes.

    ``read``: random access, None where there is none (compressed). ``start``: their first byte
    in the file, None where they are not there as they are. ``shared``: whether other blocks may be
    read meanwhile.
    """

    size: int
    pieces: Callable[[], Iterator[memoryview]]
    read: Read | None
    start: int | None = None
    shared: bool = False


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
    large = [key for key, block in storages.items() if block.shared and block.size >= LARGE]
    planned = (work.plan(key, storages[key], views.pop(key, ())) for key in large)
    done = {one.key: one for one in in_threads(_Pass.run, planned, len(large))}
    for key, block in storages.items():
        one = done.pop(key) if key in done else work.plan(key, block, views.pop(key, ())).run()
        work.take(one)
    for found in views.values():
        work.measured.unread.update(dict.fromkeys(found, "its storage is not in the file"))
    return work.measured


@dataclass(slots=True)
class _Pass:
    """One storage: what is to be found out about it, and then what was."""

    key: str
    views: tuple[View, ...]
    big: bool
    pieces: Iterator[memoryview] = field(default_factory=lambda: iter(()))
    passing: list[Passing] = field(default_factory=list)
    gapped: list[tuple[View, Iterator[Part], Read]] = field(default_factory=list)
    stats: dict[View, TensorStats] = field(default_factory=dict)
    crc: int = 0
    damage: Damage | None = None

    def run(self) -> _Pass:
        """Uses nothing that other passes use."""
        if self.damage is not None:
            return self
        try:
            self.crc = run(self.pieces, self.passing)
            self.stats = {one.view: one.stats() for one in self.passing}
            for view, made, read in self.gapped:
                self.stats[view] = measure_blocks(view, made, read, self.big)
        except Damage as damage:
            self.damage = damage
        self.passing, self.gapped = [], []
        return self


@dataclass(slots=True)
class _Work:
    measured: Measured
    big: bool
    budget: int
    limits: Limits

    def plan(self, key: str, block: Block, views: Iterable[View]) -> _Pass:
        """Decide what is read of one storage, as far as the budget goes."""
        made = _Pass(key, tuple(views), self.big)
        if block.start is not None and not self.big:
            self.measured.starts[key] = block.start
        for view in made.views:
            self._sort(view, block, made)
        try:
            made.pieces = block.pieces()
        except Damage as damage:
            made.damage = damage
        return made

    def _sort(self, view: View, block: Block, made: _Pass) -> None:
        dense = view.dense() if view.elements else (0, 0)
        if view.elements and (view.last + 1) * view.itemsize > block.size:
            self.measured.unread[view] = "its bytes are not all in the file"
        elif dense is None:
            self._sort_gapped(view, block, made)
        elif dense[1] > self.budget:
            self.measured.unread[view] = "more overlapping views than the limit"
        else:
            self.budget -= dense[1]
            made.passing.append(Passing(view, *dense, self.big))

    def _sort_gapped(self, view: View, block: Block, made: _Pass) -> None:
        cost, parts = blocks(view, self.limits)
        if block.read is None:
            self.measured.unread[view] = "a view with gaps of a compressed storage"
        elif cost > self.budget:
            self.measured.unread[view] = "a view with more gaps than the limit"
        else:
            self.budget -= cost
            made.gapped.append((view, parts, block.read))

    def take(self, done: _Pass) -> None:
        if done.damage is None:
            self.measured.crcs[done.key] = done.crc
            self.measured.stats.update(done.stats)
        else:
            self.measured.broken[done.key] = done.damage
            self.measured.unread.update(dict.fromkeys(done.views, done.damage.what))


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
