"""What the files beside a vocabulary say: special tokens, what is added, the chat template."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from trainproof.model.tokenizer import Special

from .classes import Declared, declared

_MAX_SIZE = 64 << 20
_MAX_TEMPLATE = 1 << 20
_TOKENS = 10_000
_ROLES = {
    f"{role}_token": role
    for role in (
        Special.BOS,
        Special.EOS,
        Special.UNK,
        Special.SEP,
        Special.PAD,
        Special.CLS,
        Special.MASK,
    )
}
"""In the order in which transformers adds tokens that a vocabulary lacks."""
_UNBOUNDED = 10**9
"""Lengths beyond this say that nobody declared one."""


class Token(msgspec.Struct, frozen=True):
    """A token as the ``tokenizers`` library adds it to a vocabulary, by the names it uses."""

    content: str
    special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class Options(msgspec.Struct, frozen=True):
    """How a class of transformers is set up. ``None``: as the class does it."""

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    add_prefix_space: bool = False


class Beside(msgspec.Struct, frozen=True):
    """``roles``: the text of each role's token; ``extra``: special tokens without a role;
    ``added``: tokens beside the vocabulary, with their numbers; ``tokens``: all that are added to
    a vocabulary without any, in the order in which transformers does it.

    ``add_bos`` and ``add_eos``: as configured, None where it is not. ``embedding``: rows of the
    model's embedding. ``found``: whether anything declares roles. ``declared``: the class, with
    tokens for roles that nothing else names.
    """

    found: bool = False
    roles: Mapping[Special, str] = msgspec.field(default_factory=dict)
    extra: tuple[str, ...] = ()
    added: Mapping[str, int] = msgspec.field(default_factory=dict)
    tokens: tuple[Token, ...] = ()
    declared: Declared = msgspec.field(default_factory=Declared)
    options: Options = msgspec.field(default_factory=Options)
    add_bos: bool | None = None
    add_eos: bool | None = None
    embedding: int | None = None
    model_max_length: int | None = None
    template: str | None = None
    template_source: str = ""

    @property
    def roles_of_class(self) -> dict[Special, str]:
        """With the tokens that the class has for roles which nothing names."""
        return {**self.declared.defaults, **self.roles}

    def room(self, size: int) -> bool:
        """Whether the embedding has rows beyond a vocabulary, or is not known."""
        return self.embedding is None or self.embedding > size


def beside(directory: str) -> Beside:
    """The settings in a directory. Files that are not there, or no JSON, say nothing."""
    said = _object(directory, "tokenizer_config.json") or {}
    if "added_tokens_decoder" not in said:  # of transformers before 4.34: the map is the last word
        said = said | (_object(directory, "special_tokens_map.json") or {})
    model = _object(directory, "config.json") or {}
    kind = declared(
        said.get("tokenizer_class") or model.get("tokenizer_class"), model.get("model_type")
    )
    template, source = _template(directory, said)
    return Beside(
        found=not said.keys().isdisjoint(_ROLES),
        roles=_roles(said),
        extra=tuple(dict.fromkeys(_extra(said)))[:_TOKENS],
        added=_added(directory, said),
        tokens=tuple(_tokens(directory, said, kind)),
        declared=replace(kind, defaults=_unnamed(kind, said)),
        options=Options(**_flags(Options, said)),
        add_bos=_flag(said.get("add_bos_token")),
        add_eos=_flag(said.get("add_eos_token")),
        embedding=_embedding(model),
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


def _tokens(directory: str, said: Mapping[str, Any], kind: Declared) -> Iterator[Token]:
    """First those with numbers, by number; then those with roles, and those without."""
    numbered = dict(_numbered(directory, said))
    roles = {f"{role}_token": text for role, text in _unnamed(kind, said).items()}
    named = (_as_token(said.get(name, roles.get(name))) for name in _ROLES)
    extra = map(Token, _extra(said))
    rest = {token.content: token for token in (*named, *extra) if token}
    known = {token.content for token in numbered.values()}
    ordered = [numbered[id] for id in sorted(numbered)]
    yield from [*ordered, *(one for text, one in rest.items() if text not in known)][:_TOKENS]


def _numbered(directory: str, said: Mapping[str, Any]) -> Iterator[tuple[int, Token]]:
    """``added_tokens.json`` is of before 4.34, and does not say how its tokens are matched."""
    if "added_tokens_decoder" not in said:
        special = {text for name in _ROLES if (text := _token(said.get(name)))} | set(_extra(said))
        for text, id in (_object(directory, "added_tokens.json") or {}).items():
            if _is_id(id):
                yield id, Token(text, text in special, normalized=text not in special)
    decoder = said.get("added_tokens_decoder")
    for id, value in (decoder if isinstance(decoder, dict) else {}).items():
        token = _as_token(value, special=False)
        if token and str(id).isdecimal() and _is_id(int(id[:12])):
            yield int(id[:12]), token


def _as_token(value: Any, special: bool = True) -> Token | None:
    """None for what is none. ``special``: where an object does not say it."""
    text = _token(value)
    if not text:
        return None
    said = {"special": special, **_flags(Token, value if isinstance(value, dict) else {})}
    return Token(text, **{"normalized": not said["special"], **said})


def _flags(kind: type[Token | Options], said: Mapping[str, Any]) -> dict[str, bool]:
    """The settings of a kind that are true or false."""
    named = {name: _flag(said.get(name)) for name in kind.__struct_fields__}
    return {name: value for name, value in named.items() if value is not None}


def _unnamed(kind: Declared, said: Mapping[str, Any]) -> dict[Special, str]:
    """What the class puts in the place of roles that are not named; null is a name, too."""
    return {role: text for role, text in kind.defaults.items() if f"{role}_token" not in said}


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
