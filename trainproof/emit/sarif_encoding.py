"""sarif_om objects to JSON data.

sarif_om 1.0.4 has the names of the standard's object model and no serialiser. The one that is
made for it leaves out a level that equals SARIF's default, although the default that counts is
the rule's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import attr

from trainproof.model.text import json_number, safe

_ALWAYS = frozenset(
    {
        ("Result", "level"),
        ("Result", "kind"),
        ("Notification", "level"),
        ("ReportingConfiguration", "level"),
    }
)
"""Written even where they are the default: a rule's own default level would replace them."""

_RENAMED = {("Suppression", "state"): "status"}
"""sarif_om 1.0.4 has the name of a draft, which the schema of the standard refuses."""


@cache
def _members(kind: Any) -> tuple[tuple[str, str, object], ...]:
    """(attribute, JSON name, value to leave out) of a sarif_om class."""
    members = []
    for one in attr.fields(kind):
        spelled = one.metadata["schema_property_name"]
        key = (kind.__name__, spelled)
        factory = getattr(one.default, "factory", None)
        default = factory() if factory else one.default
        omitted = None if key in _ALWAYS or default is attr.NOTHING else default
        members.append((one.name, _RENAMED.get(key, spelled), omitted))
    return tuple(members)


def plain(value: Any) -> Any:
    """JSON data without nulls (upload-sarif refuses them) and without the sentinels, such as
    rank -1.0, that sarif_om gives to what was not set. Keys of mappings stay as they are."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int | float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {safe(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    kind: Any = type(value)
    if not attr.has(kind):
        return value
    found = {}
    for attribute, spelled, omitted in _members(kind):
        item = getattr(value, attribute)
        if item is not None and not (type(item) is type(omitted) and item == omitted):
            found[spelled] = plain(item)
    return found
