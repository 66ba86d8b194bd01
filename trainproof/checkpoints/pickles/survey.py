"""All the pickles of one file: what they import, and whether loading them is safe."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from trainproof.checkpoints.limits import LIMITS, Limits
from trainproof.checkpoints.source import Damage
from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode, GlobalUse, Safety

from .allowlist import classify, loads_weights_only, objects_in, storage_key
from .nodes import Persistent
from .walker import Raw, Walked, walk

_LONG = "the pickle is longer than the limit"
_RANK = (Safety.SAFE, Safety.UNKNOWN, Safety.UNSAFE)


class Survey(msgspec.Struct):
    """Filled one pickle at a time. ``safety`` only ever gets worse.

    ``storages``: the keys of all that are mentioned, in objects that are not read as well.
    """

    limits: Limits = LIMITS
    safety: Safety | None = None
    weights_only: bool | None = None
    defects: list[Defect] = msgspec.field(default_factory=list)
    storages: set[str] = msgspec.field(default_factory=set)
    _globals: dict[GlobalUse, None] = msgspec.field(default_factory=dict)

    @property
    def globals(self) -> tuple[GlobalUse, ...]:
        """What is not safe comes first: the list may be cut."""
        ordered = sorted(self._globals, key=lambda use: -_RANK.index(use.safety))
        return tuple(ordered[: self.limits.globals])

    def worsen(self, safety: Safety) -> None:
        if self.safety is None or _RANK.index(safety) > _RANK.index(self.safety):
            self.safety = safety

    def pickle(
        self,
        data: bytes,
        entry: str = "",
        at: int = 0,
        *,
        raw: Raw | None = None,
        whole: bool = True,
    ) -> Walked:
        """One pickle that is loaded. A damage is recorded here; the caller sees it too.

        ``whole``: False where the data were cut at a limit, so that their end is none of the file.
        """
        walked = walk(data, at, self.limits, raw)
        if not whole and walked.damage is not None and walked.damage.code is FaultCode.TRUNCATED:
            walked = replace(walked, damage=Damage(FaultCode.TOO_LARGE, _LONG))
        self._add(walked, entry)
        objects = list(objects_in(walked.root, self.limits.visits))
        references = [one for one in objects if isinstance(one, Persistent)]
        self.storages.update(filter(None, map(storage_key, references)))
        accepted = loads_weights_only(walked, objects)
        self.weights_only = accepted and self.weights_only is not False
        if walked.damage is not None:
            self._damaged(walked, walked.damage, entry)
        elif walked.leftover:
            what = f"{walked.leftover} values are left over at its end"
            self.defects.append(Defect(DefectCode.PICKLE_TAIL, what, entry))
        return walked

    def rest(self, data: bytes, at: int, entry: str = "") -> None:
        """What comes after the pickle that is loaded: programs that read on would run it."""
        if at >= len(data):
            return
        what = f"{len(data) - at} bytes after the end of the pickle"
        self.defects.append(Defect(DefectCode.PICKLE_TAIL, what, entry))
        for _ in range(self.limits.pickles):
            walked = walk(data, at, self.limits)
            self._add(walked, entry)
            at = walked.end
            if walked.damage is not None or at >= len(data):
                return

    def merge(self, uses: Iterable[GlobalUse]) -> None:
        for use in uses:
            self._use(use)

    def _add(self, walked: Walked, entry: str) -> None:
        self.worsen(Safety.SAFE)
        for module, name in walked.globals:
            path = f"{module}.{name}"[: self.limits.label]
            self._use(GlobalUse(path, classify(module, name), entry))

    def _use(self, use: GlobalUse) -> None:
        self._globals.setdefault(use)
        self.worsen(use.safety)

    def _damaged(self, walked: Walked, damage: Damage, entry: str) -> None:
        """What comes after the damage is not known, so it cannot be called safe."""
        self.worsen(Safety.UNSAFE if walked.overwrites else Safety.UNKNOWN)
        if damage.code is not FaultCode.TOO_LARGE:
            self.defects.append(Defect(DefectCode.PICKLE, damage.what, entry))
