"""Files of settings that lie beside a log: what the run was told to do.

``training_args.json`` and ``args.json`` of Hugging Face users, ``config.json``, ``hparams.yaml`` of
Lightning, ``args.yaml`` and ``opt.yaml`` of Ultralytics and YOLOv5, ``.hydra/config.yaml``,
``params.yaml`` of DVC, ``config.yaml`` of W&B (in which each value is ``{desc: null, value: 1}``).
They are told from other JSON and YAML by what they say: two things that ``Facts`` has a place
for, or one under a name that is used for settings.

A file that cannot be read tells nothing. That is no fault of the run: it is named as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import FaultCode, Item, NotJudgeable

from .hyperparameters import facts_of, fields_of, nested
from .interface import HEAD, Options
from .json_object import begun_object, read_object
from .text import FaultLog, TextSource, decode_head, read_document

MAX_SETTINGS = 1 << 20
"""Bytes of a file of settings."""

NAMES = re.compile(r"(?:.*_)?(?:args?|config(?:uration)?|cfg|opts?|params|h(?:yper_?)?params|hyp)")
"""Stems of the names that are used for settings."""

ENOUGH = 2

KEY = re.compile(r"""^ *(["']?)([A-Za-z_][\w./-]*)\1 *:(?: (.*))?$""", re.MULTILINE)
"""A key of a block mapping, on a line of its own, and the scalar after it."""

MAPPING = re.compile(r"""(?:[ #!%]|---|- |["']?[A-Za-z_][^:]*:(?:\s|$)|$)""")
"""How the lines of a YAML file begin whose outermost node is a block mapping."""

WRAPPED = frozenset({"desc", "value"})
OTHERS = frozenset({"hydra", "_wandb"})
"""Sections in which the tools keep their own settings."""


class JsonSettings:
    """An object of settings."""

    name = "json-settings"
    kind = Kind.CONFIG

    def claims(self, path: str, head: bytes) -> bool:
        stem, suffix = _name(path)
        return suffix == "json" and _are_settings(stem, nested(_own(begun_object(head))))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        yield from _items(read_object(stream, faults, MAX_SETTINGS).members, faults)


class YamlSettings:
    """A mapping of settings."""

    name = "yaml-settings"
    kind = Kind.CONFIG

    def claims(self, path: str, head: bytes) -> bool:
        stem, suffix = _name(path)
        if suffix not in ("yaml", "yml"):
            return False
        lines = decode_head(head).split("\n")
        whole = lines[:-1] if len(head) >= HEAD else lines
        return all(map(MAPPING.match, whole)) and _are_settings(stem, _begun("\n".join(whole)))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        from .yaml_mapping import read_mapping  # noqa: PLC0415 - loads PyYAML

        faults = FaultLog(artifact.path)
        data = read_document(TextSource(stream, faults).chunks(), faults, MAX_SETTINGS)
        settings: Mapping[str, object] = {}
        try:
            settings = read_mapping((data or b"").decode("utf-8", "replace"))
        except ValueError as error:
            faults.add(FaultCode.CORRUPT, str(error))
        yield from _items(settings, faults)


def _name(path: str) -> tuple[str, str]:
    stem, _, suffix = path.rpartition("/")[2].lower().rpartition(".")
    return stem, suffix


def _are_settings(stem: str, settings: Iterator[tuple[str, object]]) -> bool:
    return len(fields_of(settings)) >= (1 if NAMES.fullmatch(stem) else ENOUGH)


def _begun(text: str) -> Iterator[tuple[str, str]]:
    """Keys and scalars by their looks: heads are not parsed."""
    outer = ""
    for _, name, scalar in KEY.findall(text):
        if name not in WRAPPED:
            outer = name
        if name != "desc":
            yield outer, scalar.strip(" '\"")


def _items(settings: Mapping[str, object], faults: FaultLog) -> Iterator[Item]:
    """What the settings say; only a disk that fails is a fault."""
    failures = [fault for fault in faults if fault.code is FaultCode.IO]
    others = [fault for fault in faults if fault.code is not FaultCode.IO]
    if failures:
        yield from failures
    elif others:
        yield NotJudgeable(Content.UNSUPPORTED, others[0].detail)
    else:
        yield facts_of(nested(_own(settings)))


def _own(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of the run, without what W&B wraps them in."""
    return {name: _unwrapped(value) for name, value in settings.items() if name not in OTHERS}


def _unwrapped(value: object) -> object:
    if isinstance(value, Mapping) and "value" in value and value.keys() <= WRAPPED:
        return value["value"]
    return value
