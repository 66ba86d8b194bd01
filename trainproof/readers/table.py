"""All built-in readers, in order of claim."""

from __future__ import annotations

from .bare_numbers import BareNumbers
from .catboost import CatBoostDocument, CatBoostTable
from .catboost_console import CatBoostConsole
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
    CatBoostConsole(),
    YoloResults(),
    Monitor(),
    JsonDocument(),
    JsonLines(),
    JsonSettings(),
    YamlSettings(),
    BareNumbers(),
    ConsoleText(),
    Delimited(),
)
"""The first that claims a file reads it: those with a mark of their own, then the general."""
