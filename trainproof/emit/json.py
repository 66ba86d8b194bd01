"""The report as JSON, and back."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from trainproof.model.report import SCHEMA_VERSION, Report

from .schema import report_schema
from .view import json_number, safe

__all__ = ["ReportError", "parse_report", "report_json", "report_schema"]

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class ReportError(ValueError):
    """These bytes are not a report that this version of trainproof reads."""


class _Head(msgspec.Struct):
    schema_version: int


def report_json(report: Report) -> bytes:
    """UTF-8 JSON, keys sorted, indented by two, ended by a line feed.

    orjson would write NaN as null and refuse lone surrogates; ``publish`` leaves neither, and
    here they are spelled once more so that no report is ever lost to them.
    """
    return orjson.dumps(_spelled(msgspec.to_builtins(report)), option=_OPTIONS)


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {safe(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return json_number(value) if isinstance(value, int | float) else value


def parse_report(data: bytes) -> Report:
    """The report in ``data``. Raises ReportError for anything else, with the reason."""
    try:
        version = msgspec.json.decode(data, type=_Head).schema_version
        if version != SCHEMA_VERSION:
            raise ReportError(f"report schema {version}; this version reads {SCHEMA_VERSION}")
        return msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"not a trainproof report: {error}") from error
