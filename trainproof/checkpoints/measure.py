"""Pass once over every block of bytes: its checksum, and the tensors that are views of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce

import msgspec

from trainproof.model.tensors import TensorStats

from .checksum import crc32, joined_crc32
from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .parts import PART, parts
from .scan import combined, joined, scan_of
from .source import Damage, Source
from .threads import LARGE, in_threads
from .torch_objects import Tensor
from .views import Block as Part
from .views import Passing, Read, View, blocks, measure_blocks, shown

Stretches = Callable[[int, int], Iterator[memoryview]]
"""The pieces of so many bytes of a storage, from the given one on."""


def stretches(source: Source, start: int, size: int, chunk: int) -> Stretches | None:
    """Those of a storage that lies in a file as it is. None where it cannot be read in parts: by
    one reader only, or because it is not all there."""
    if not source.shared or start + size > source.size:
        return None
    return lambda at, count: source.chunks(start + at, count, chunk)


class Block(msgspec.Struct, frozen=True):
    """The bytes of one storage. ``pieces`` start on multiples of 64 bytes.

    ``read``: random access, None where there is none (compressed). ``start``: their first byte
    in the file, None where they are not there as they are. ``shared``: whether other blocks may be
    read meanwhile. ``stretch``: how it is read in parts, None where it is not.
    """

    size: int
    pieces: Callable[[], Iterator[memoryview]]
    read: Read | None
    start: int | None = None
    shared: bool = False
    stretch: Stretches | None = None


class Measured(msgspec.Struct):
    """What was found out: by view, and by storage its checksum and its first byte in the file."""

    stats: dict[View, TensorStats] = msgspec.field(default_factory=dict)
    unread: dict[View, str] = msgspec.field(default_factory=dict)
    crcs: dict[str, int] = msgspec.field(default_factory=dict)
    starts: dict[str, int] = msgspec.field(default_factory=dict)
    broken: dict[str, Damage] = msgspec.field(default_factory=dict)

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
    passes = (one for key in large for one in work.passes(key, storages[key], views.pop(key, ())))
    count = sum(len(_cut(storages[key])) for key in large)
    done: defaultdict[str, list[_Pass]] = defaultdict(list)
    for one in in_threads(_Pass.run, passes, count):
        done[one.key].append(one)
    for key, block in storages.items():
        if key not in done:
            done[key] = [one.run() for one in work.passes(key, block, views.pop(key, ()))]
        work.take(key, done.pop(key))
    for found in views.values():
        work.measured.unread.update(dict.fromkeys(found, "its storage is not in the file"))
    return work.measured


def _cut(block: Block) -> list[tuple[int, int]]:
    """The parts of a storage that are measured apart."""
    return [(0, block.size)] if block.stretch is None else list(parts(block.size))


class _Plan(msgspec.Struct):
    """What is to be found out about one storage: dense views with their first byte and the number
    of their bytes, and those with gaps."""

    views: tuple[View, ...]
    dense: list[tuple[View, int, int]] = msgspec.field(default_factory=list)
    gapped: list[tuple[View, Iterator[Part], Read]] = msgspec.field(default_factory=list)

    def by_part(self) -> Mapping[int, Sequence[tuple[View, int, int]]]:
        """The dense views by the number of each part that they have bytes in."""
        found: defaultdict[int, list[tuple[View, int, int]]] = defaultdict(list)
        for view, start, count in self.dense:
            for number in range(start // PART, (start + max(count, 1) - 1) // PART + 1):
                found[number].append((view, start, count))
        return found


class _Pass(msgspec.Struct):
    """A storage, or ``count`` bytes of it from ``start`` on: what is to be found out, and then
    what was. ``stats`` of dense views are those of their elements that are here."""

    key: str
    views: tuple[View, ...]
    big: bool
    start: int
    count: int
    pieces: Iterator[memoryview] = msgspec.field(default_factory=lambda: iter(()))
    passing: list[Passing] = msgspec.field(default_factory=list)
    gapped: list[tuple[View, Iterator[Part], Read]] = msgspec.field(default_factory=list)
    stats: dict[View, TensorStats] = msgspec.field(default_factory=dict)
    whole: dict[View, TensorStats] = msgspec.field(default_factory=dict)
    crc: int = 0
    damage: Damage | None = None

    def run(self) -> _Pass:
        """Uses nothing that other passes use."""
        if self.damage is not None:
            return self
        try:
            self.crc = run(self.pieces, self.passing, self.start)
            self.stats = {one.view: one.stats() for one in self.passing}
            for view, made, read in self.gapped:
                self.whole[view] = measure_blocks(view, made, read, self.big)
        except Damage as damage:
            self.damage = damage
        self.passing, self.gapped = [], []
        return self


class _Work(msgspec.Struct):
    measured: Measured
    big: bool
    budget: int
    limits: Limits

    def passes(self, key: str, block: Block, views: Iterable[View]) -> Iterator[_Pass]:
        """Decide what is read of one storage, as far as the budget goes; and its parts."""
        plan = _Plan(tuple(views))
        if block.start is not None and not self.big:
            self.measured.starts[key] = block.start
        for view in plan.views:
            self._sort(view, block, plan)
        try:
            pieces = block.pieces()
        except Damage as damage:
            yield _Pass(key, plan.views, self.big, 0, block.size, damage=damage)
            return
        whole = block.stretch is None
        cut, by_part = _cut(block), {} if whole else plan.by_part()
        for number, (start, count) in enumerate(cut):
            made = _Pass(key, plan.views, self.big, start, count, pieces)
            if block.stretch is not None:
                made.pieces = block.stretch(start, count)
            for view, first, nbytes in plan.dense if whole else by_part.get(number, ()):
                begin, end = max(first, start), min(first + nbytes, start + count)
                made.passing.append(Passing(view, begin, max(end - begin, 0), self.big))
            if not number:
                made.gapped = plan.gapped
            yield made

    def _sort(self, view: View, block: Block, plan: _Plan) -> None:
        dense = view.dense() if view.elements else (0, 0)
        if view.elements and (view.last + 1) * view.itemsize > block.size:
            self.measured.unread[view] = "its bytes are not all in the file"
        elif dense is None:
            self._sort_gapped(view, block, plan)
        elif dense[1] > self.budget:
            self.measured.unread[view] = "more overlapping views than the limit"
        else:
            self.budget -= dense[1]
            plan.dense.append((view, *dense))

    def _sort_gapped(self, view: View, block: Block, plan: _Plan) -> None:
        cost, made = blocks(view, self.limits)
        if block.read is None:
            self.measured.unread[view] = "a view with gaps of a compressed storage"
        elif cost > self.budget:
            self.measured.unread[view] = "a view with more gaps than the limit"
        else:
            self.budget -= cost
            plan.gapped.append((view, made, block.read))

    def take(self, key: str, done: Sequence[_Pass]) -> None:
        """What was found out about one storage, in the order of its parts."""
        first, *others = done
        damage = next((one.damage for one in done if one.damage is not None), None)
        if damage is not None:
            self.measured.broken[key] = damage
            self.measured.unread.update(dict.fromkeys(first.views, damage.what))
            return
        crc, stats = first.crc, first.stats
        for one in others:
            crc = joined_crc32(crc, one.crc, one.count)
            for view, more in one.stats.items():
                stats[view] = joined(stats[view], more) if view in stats else more
        self.measured.crcs[key] = crc
        self.measured.stats.update((view, shown(view, one)) for view, one in stats.items())
        self.measured.stats.update(first.whole)


def run(pieces: Iterator[memoryview], passing: list[Passing], start: int = 0) -> int:
    """Show every piece to the views that it belongs to; the checksum of all. Raises Damage.

    ``start``: where in the storage the first piece begins.
    """
    waiting = sorted(passing, key=lambda one: one.start, reverse=True)
    active: list[Passing] = []
    at, crc = start, 0
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
