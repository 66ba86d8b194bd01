"""Readers: the table of built-ins, in order of claim; ``plugins`` adds those of third parties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .catboost import CatBoostDocument, CatBoostTable
from .console import ConsoleText
from .coqui import Coqui
from .delimited import Delimited
from .gbdt import BoostingLog, EvalsResult
from .hf_trainer import HfTrainer
from .interface import Reader
from .json_document import JsonDocument
from .jsonl import JsonLines
from .mlflow import MlflowMetric, MlflowParam, MlflowRun
from .mlflow_db import MlflowDatabase
from .monitor import Monitor
from .named_only import Aim
from .offline import ClearMl, Neptune
from .sacred import SacredMetrics, SacredRun
from .settings import JsonSettings, YamlSettings
from .tfevents import TfEvents
from .wandb import Wandb, WandbSummary
from .yolo import YoloResults

if TYPE_CHECKING:
    from .plugins import ThirdParty

READERS: tuple[Reader, ...] = (
    TfEvents(),
    HfTrainer(),
    Coqui(),
    MlflowMetric(),
    MlflowRun(),
    MlflowParam(),
    MlflowDatabase(),
    Aim(),
    Neptune(),
    ClearMl(),
    Wandb(),
    WandbSummary(),
    CatBoostTable(),
    CatBoostDocument(),
    SacredMetrics(),
    SacredRun(),
    EvalsResult(),
    BoostingLog(),
    YoloResults(),
    Monitor(),
    JsonDocument(),
    JsonLines(),
    JsonSettings(),
    YamlSettings(),
    ConsoleText(),
    Delimited(),
)
"""The first that claims a file reads it: those with a mark of their own, then the general."""


def third_party() -> ThirdParty:
    """The readers of installed packages, for one audit. Imports those packages."""
    from .plugins import ThirdParty  # noqa: PLC0415 - only audits look for plug-ins

    return ThirdParty(frozenset(one.name for one in READERS))


def reader(name: str) -> Reader:
    """The reader of this public name, be it of a third party. Raises KeyError."""
    for one in READERS:
        if one.name == name:
            return one
    for one in third_party().readers:
        if one.name == name:
            return one
    raise KeyError(name)
