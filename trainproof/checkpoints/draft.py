"""One reading of one file: what every layout's reader starts from and fills in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from trainproof.model.data import Fault, FaultCode
from trainproof.model.tensors import (
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Layout,
    OptimizerState,
    Presence,
    Scalar,
    TensorInfo,
    Unread,
)

from .beside import Beside
from .limits import LIMITS, Limits
from .measure import Measured
from .pickles.survey import Survey
from .roles import group_of
from .source import Damage, Source
from .torch_contents import distinct_steps
from .torch_objects import Contents, Tensor

Item = TensorInfo | CheckpointFacts | Fault


@dataclass(slots=True)
class Draft:
    """The facts of a file while it is read. ``done`` makes them final.

    ``level``: of how many other files this one is a part. ``beside``: the files of its directory,
    None where the caller gives none. ``spent``: bytes that were measured where they may be shared,
    ``listed``: tensors that were listed one by one, ``chunks``: chunks of arrays.
    """

    artifact: str
    source: Source
    depth: Depth
    layout: Layout
    limits: Limits = LIMITS
    level: int = 0
    beside: Beside | None = None
    spent: int = 0
    listed: int = 0
    chunks: int = 0
    integrity: Integrity = Integrity.NOT_CHECKED
    survey: Survey = field(init=False)
    tensors: int = 0
    read: int = 0
    reason: str = ""
    code: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    optimizers: Sequence[OptimizerState] = ()
    scalars: Sequence[Scalar] = ()
    metadata: Sequence[Scalar] = ()
    unread: list[Unread] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.survey = Survey(self.limits)

    @property
    def values(self) -> bool:
        """Whether the caller wants the statistics of tensors."""
        return self.depth is Depth.TENSORS

    @property
    def budget(self) -> int:
        """Bytes of tensors that are measured; generous for small files."""
        beside = 0 if self.beside is None else self.beside.total
        return self.limits.rescan * (self.source.size + beside) + (64 << 20)

    def spend(self, count: int) -> bool:
        """Whether so many more bytes may be measured."""
        self.spent += count
        return self.spent <= self.budget

    def spend_chunks(self, count: int) -> bool:
        """Whether an array in so many chunks may be read besides."""
        self.chunks += count
        return self.chunks <= self.limits.chunks

    def fault(self, damage: Damage, fatal: bool = True) -> Fault:
        return Fault(damage.code, self.artifact, damage.what, fatal)

    def broken(self, damage: Damage) -> Iterator[Item]:
        """The end of a reading that cannot go on; what was read of it stands."""
        if damage.code is FaultCode.TRUNCATED:
            self.defects.append(Defect(DefectCode.TRUNCATED, damage.what))
        self.reason = damage.what
        yield self.fault(damage)
        yield self.done(Extent.STRUCTURE_ONLY if self.tensors else Extent.NOT_CHECKED)

    def tensor(self, info: TensorInfo) -> TensorInfo:
        """Count a tensor that is yielded."""
        self.tensors += 1
        self.read += info.stats is not None
        return info

    def contents(
        self, contents: Contents, measured: Measured, presence: dict[str, Presence]
    ) -> Iterator[TensorInfo]:
        """The tensors of a pickle, and everything else that it says.

        ``presence``: of storages that are not whole.
        """
        steps = {name: list(values) for name, values in contents.steps.items()}
        for name, tensor in contents.tensors.items():
            info = self.tensor(self._info(name, tensor, measured, presence))
            if info.stats is not None and name.endswith("/step") and info.stats.constant:
                steps.setdefault(name, []).append(info.stats.max or 0)
            yield info
        self.keys, self.scalars = contents.keys, contents.scalars
        self.unread.extend(contents.unread)
        self.defects.extend(contents.defects)
        self.optimizers = [_with_steps(one, steps) for one in contents.optimizers]

    def _info(
        self, name: str, tensor: Tensor, measured: Measured, presence: dict[str, Presence]
    ) -> TensorInfo:
        stats, why = measured.of(tensor) if self.values else (None, tensor.unread)
        storages = [view.storage for view in tensor.views]
        return TensorInfo(
            name,
            tensor.dtype,
            tensor.shape,
            tensor.nbytes,
            self.artifact,
            stats,
            why,
            tensor.kind,
            group_of(name, self.artifact),
            max((presence.get(key, Presence.WHOLE) for key in storages), key=_WORSE.index)
            if storages
            else Presence.WHOLE,
            storages[0] if len(storages) == 1 else None,
            measured.crc_of(tensor),
            tensor.subclass,
            measured.place_of(tensor, self.source.base),
        )

    def done(self, extent: Extent | None = None) -> CheckpointFacts:
        """Everything found. The extent follows from what was read, unless it is given."""
        extent, reason = (extent, self.reason) if extent else self._extent()
        limit = self.limits.defects
        return CheckpointFacts(
            self.artifact,
            self.layout,
            self.source.size,
            extent,
            reason,
            self.tensors,
            self.integrity,
            self.survey.safety,
            self.survey.weights_only,
            self.survey.globals,
            self.code,
            self.keys,
            tuple(self.optimizers),
            tuple(self.scalars),
            tuple(self.metadata),
            tuple(self.unread[: self.limits.unread]),
            tuple(_once([*self.defects, *self.survey.defects])[:limit]),
        )

    def _extent(self) -> tuple[Extent, str]:
        if not self.values:
            return Extent.STRUCTURE_ONLY, self.reason or f"read to the depth {self.depth}"
        if not self.read and (self.tensors or self.unread):
            return Extent.STRUCTURE_ONLY, self.reason or "no tensor could be measured"
        return Extent.READ, ""


_WORSE = (Presence.WHOLE, Presence.CUT, Presence.ABSENT)


def _once(defects: Iterable[Defect]) -> list[Defect]:
    return list(dict.fromkeys(defects))


def _with_steps(one: OptimizerState, steps: dict[str, list[int | float]]) -> OptimizerState:
    prefix = f"{one.name}/state/" if one.name else "state/"
    found = (value for name, values in steps.items() if name.startswith(prefix) for value in values)
    return replace(one, steps=distinct_steps(found))
