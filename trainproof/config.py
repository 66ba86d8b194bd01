"""Settings: a file and flags to one frozen Config, validated before anything is read."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec.structs import replace

from . import readers
from .model.data import Role
from .model.outcome import Value
from .model.report import Anchor, FailOn
from .model.rule import Threshold
from .model.tensors import Depth
from .rules import REGISTRY

FILES = ("trainproof.toml", "pyproject.toml")
"""Where settings are looked for: the first that has any; in the second, [tool.trainproof]."""

MAPPABLE = tuple(
    str(role) for role in Role if role not in (Role.STEP, Role.EPOCH, Role.OTHER, Role.UNKNOWN)
)


NO_CHECKPOINTS = "none"
CHECKPOINTS = (NO_CHECKPOINTS, *map(str, Depth))
"""What an audit may read of checkpoints."""


class ConfigError(Exception):
    """The settings cannot be honoured: exit code 2 before any run is read."""


class Config(msgspec.Struct, frozen=True):
    """What to audit and how.

    ``select`` and ``ignore`` are rule ids or globs of them; ``include`` and ``exclude`` are
    globs on paths below a root; ``tags`` are (role, logged tag) pairs; ``timeout`` is in seconds
    for one file or one rule; ``baseline`` is the path of what each run is compared with;
    ``checkpoints``: how much is read of those that a run keeps, "none" for not at all;
    ``checkpoint_limit``: bytes of a checkpoint, beyond which an audit reads its structure alone, 0
    for none; ``memory_limit`` is in bytes for one worker, 0 for none; ``jobs`` 0 means one worker
    per processor.
    """

    paths: tuple[str, ...] = (".",)
    select: tuple[str, ...] = ("*",)
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_symlinks: bool = False
    tags: tuple[tuple[str, str], ...] = ()
    format_hint: str | None = None
    baseline: str | None = None
    checkpoints: str = Depth.TENSORS.value
    checkpoint_limit: int = 4 * 1024**3
    jobs: int = 0
    timeout: float = 120.0
    memory_limit: int = 4 * 1024**3
    isolation: bool = True
    fail_on: FailOn = FailOn.FAIL
    thresholds: Mapping[str, Mapping[str, Value]] = msgspec.field(default_factory=dict)
    anchors: Mapping[str, Anchor] = msgspec.field(default_factory=dict)
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for pattern in (*self.select, *self.ignore):
            _require(
                any(fnmatchcase(id, pattern) for id in REGISTRY), f"no rule matches {pattern!r}"
            )
        for role, tag in self.tags:
            _require(role in MAPPABLE and bool(tag), f"cannot map {role}={tag}: {_roles()}")
        if self.format_hint is not None:
            _check_format(self.format_hint)
        _require(self.checkpoints in CHECKPOINTS, f"checkpoints must be one of {CHECKPOINTS}")
        _require(self.checkpoint_limit >= 0, "the limit of checkpoints must not be negative")
        _require(self.timeout > 0, "the timeout must be positive")
        _require(self.memory_limit >= 0 and self.jobs >= 0, "limits must not be negative")
        for id, values in self.thresholds.items():
            _check_thresholds(id, values)

    @property
    def rules(self) -> tuple[str, ...]:
        """The selected rule ids, in the order of the registry."""
        return tuple(
            id for id in REGISTRY if _matches(id, self.select) and not _matches(id, self.ignore)
        )


def _roles() -> str:
    return "the role must be one of " + ", ".join(MAPPABLE)


def _matches(id: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(id, pattern) for pattern in patterns)


def _check_format(name: str) -> None:
    try:
        readers.reader(name)
    except KeyError:
        known = (*readers.READERS, *readers.third_party().readers)
        names = ", ".join(sorted(one.name for one in known))
        raise ConfigError(f"unknown format {name!r}: {names}") from None


def _check_thresholds(id: str, values: Mapping[str, Value]) -> None:
    _require(id in REGISTRY, f"unknown rule {id!r}")
    declared = {t.name: t for t in REGISTRY[id].info.thresholds}
    for name, value in values.items():
        threshold = declared.get(name)
        if threshold is None:
            raise ConfigError(f"{id} has no threshold {name!r}: {sorted(declared)}")
        _check_threshold(f"{id}.{name}", threshold, value)


def _check_threshold(name: str, threshold: Threshold, value: Value) -> None:
    kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}[threshold.type]
    is_bool = isinstance(value, bool) and threshold.type != "bool"
    _require(isinstance(value, kinds) and not is_bool, f"{name} must be of type {threshold.type}")
    if isinstance(value, int | float):
        _require(threshold.ge is None or value >= threshold.ge, f"{name} < {threshold.ge}")
        _require(threshold.le is None or value <= threshold.le, f"{name} > {threshold.le}")


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise ConfigError(message)


# --- the file -------------------------------------------------------------------------------

_NOT_IN_FILE = frozenset({"paths", "plugins"})


def parse(name: str, text: str) -> Config | None:
    """The settings in a TOML file, None where it has none. Raises ConfigError."""
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None
    if name.endswith("pyproject.toml"):
        table = table.get("tool", {}).get("trainproof", {})
        if not table:
            return None
    known = set(Config.__struct_fields__) - _NOT_IN_FILE
    unknown = sorted({key.replace("-", "_") for key in table} - known)
    _require(not unknown, f"{name}: unknown settings {unknown}")
    return replace(Config(), **{k.replace("-", "_"): _typed(name, k, v) for k, v in table.items()})


def _typed(name: str, key: str, value: Any) -> Any:
    """TOML's types to the Config's. Raises ConfigError."""
    match key.replace("-", "_"):
        case "select" | "ignore" | "include" | "exclude":
            _require(
                isinstance(value, list) and all(isinstance(v, str) for v in value),
                f"{name}: {key} must be a list of strings",
            )
            return tuple(value)
        case "tags":
            _require(isinstance(value, dict), f"{name}: {key} must be a table role = tag")
            return tuple((str(role), str(tag)) for role, tag in value.items())
        case "fail_on":
            _require(
                value in list(FailOn), f"{name}: {key} must be one of {list(map(str, FailOn))}"
            )
            return FailOn(value)
        case "anchors":
            _require(isinstance(value, dict), f"{name}: {key} must be a table root = 'file:line'")
            return {root: anchor(str(place)) for root, place in value.items()}
        case "thresholds":
            nested = isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())
            _require(nested, f"{name}: {key} must be tables by rule id")
            return value
        case setting:
            return _scalar(f"{name}: {key}", value, getattr(Config(), setting))


def _scalar(what: str, value: Any, default: Any) -> Any:
    kind = str if default is None else type(default)
    exact = type(value) is kind or (kind is float and type(value) is int)
    _require(exact, f"{what} must be a {kind.__name__}")
    return value


def anchor(place: str) -> Anchor:
    """``FILE:LINE`` (or ``FILE``). Raises ConfigError."""
    path, _, line = place.rpartition(":")
    if not path:
        return Anchor(place)
    _require(line.isdigit() and int(line) > 0, f"{place!r} is not FILE:LINE")
    return Anchor(path, int(line))
