"""What the files beside a vocabulary say: special tokens, what is added, the chat template."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainproof.model.tokenizer import Special

_MAX_SIZE = 64 << 20
_MAX_TEMPLATE = 1 << 20
_TOKENS = 10_000
_ROLES = {f"{role}_token": role for role in Special}
_UNBOUNDED = 10**9
"""Lengths beyond this say that nobody declared one."""


@dataclass(frozen=True, slots=True)
class Beside:
    """``roles``: the text of each role's token; ``extra``: special tokens without a role;
    ``added``: tokens beside the vocabulary, with their numbers.

    ``add_bos`` and ``add_eos``: as configured, None where it is not. ``embedding``: rows of the
    model's embedding. ``found``: whether anything declares roles; classes of
    transformers have defaults for those that a configuration does not name (GPT-2's, BERT's).
    """

    found: bool = False
    roles: Mapping[Special, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    added: Mapping[str, int] = field(default_factory=dict)
    add_bos: bool | None = None
    add_eos: bool | None = None
    embedding: int | None = None
    model_max_length: int | None = None
    template: str | None = None
    template_source: str = ""


def beside(directory: str) -> Beside:
    """The settings in a directory. Files that are not there, or no JSON, say nothing."""
    config = _object(directory, "tokenizer_config.json")
    tokens = _object(directory, "special_tokens_map.json")
    said = {**(tokens or {}), **(config or {})}
    template, source = _template(directory, said)
    return Beside(
        found=not said.keys().isdisjoint(_ROLES),
        roles=_roles(said),
        extra=tuple(dict.fromkeys(_extra(said)))[:_TOKENS],
        added=_added(directory, said),
        add_bos=_flag(said.get("add_bos_token")),
        add_eos=_flag(said.get("add_eos_token")),
        embedding=_embedding(_object(directory, "config.json") or {}),
        model_max_length=_length(said.get("model_max_length")),
        template=template,
        template_source=source,
    )


def text_of(path: str, most: int = _MAX_SIZE) -> str | None:
    """The text of a file of a bounded size; None where there is none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > most:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def _object(directory: str, name: str) -> dict[str, Any] | None:
    text = text_of(os.path.join(directory, name))
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _roles(said: Mapping[str, Any]) -> dict[Special, str]:
    found: dict[Special, str] = {}
    for name, role in _ROLES.items():
        text = _token(said.get(name))
        if text:
            found[role] = text
    return found


def _token(value: Any) -> str | None:
    """A token is its text, or an object that holds it."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _extra(said: Mapping[str, Any]) -> Iterator[str]:
    for name in ("additional_special_tokens", "extra_special_tokens"):
        listed = said.get(name)
        values = listed.values() if isinstance(listed, dict) else listed
        if isinstance(listed, (list, dict)):
            yield from (text for one in values or () if (text := _token(one)))


def _added(directory: str, said: Mapping[str, Any]) -> dict[str, int]:
    """Tokens that a library adds when it loads the vocabulary."""
    listed = _object(directory, "added_tokens.json") or {}
    found = {text: id for text, id in listed.items() if _is_id(id)}
    decoder = said.get("added_tokens_decoder")
    for id, token in (decoder if isinstance(decoder, dict) else {}).items():
        text = _token(token)
        if text and str(id).isdecimal() and _is_id(int(id[:12])):
            found[text] = int(id[:12])
    return dict(list(found.items())[:_TOKENS])


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < _UNBOUNDED


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _length(value: Any) -> int | None:
    if isinstance(value, (int, float)) and 0 < value < _UNBOUNDED:
        return int(value)
    return None


def _embedding(config: Mapping[str, Any]) -> int | None:
    """``vocab_size``, of the text part where the model has several."""
    for part in (config, config.get("text_config"), config.get("llm_config")):
        size = part.get("vocab_size") if isinstance(part, dict) else None
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            return size
    return None


def _template(directory: str, said: Mapping[str, Any]) -> tuple[str | None, str]:
    text = text_of(os.path.join(directory, "chat_template.jinja"), _MAX_TEMPLATE)
    if text is not None:
        return text, "chat_template.jinja"
    value = said.get("chat_template")
    if isinstance(value, list):
        named = {one.get("name"): one.get("template") for one in value if isinstance(one, dict)}
        value = named.get("default")
    if isinstance(value, str) and len(value) <= _MAX_TEMPLATE:
        return value, "tokenizer_config.json"
    return None, ""
