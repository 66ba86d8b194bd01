"""Tokens that were added to a vocabulary, out of the files of its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from trainproof.checkpoints.vocabulary import AddedToken, added_tokens


def found(**files: object) -> list[AddedToken]:
    """``files``: their contents by name, without the suffix."""
    names = {"chat_template": "chat_template.jinja"}
    given = {
        names.get(name, f"{name}.json"): one if isinstance(one, bytes) else json.dumps(one).encode()
        for name, one in files.items()
    }
    return added_tokens(lambda name, count: given.get(name, b"")[:count])


def fast(*tokens: tuple[int, str]) -> Mapping[str, object]:
    added = [{"id": id, "content": text, "special": True} for id, text in tokens]
    return {"version": "1.0", "added_tokens": added, "model": {"vocab": {"a": 0}}}


def test_tokens_of_a_fast_tokenizer_with_those_its_template_names() -> None:
    got = found(
        tokenizer=fast((7, "<|user|>"), (3, "</s>"), (9, "word")),
        tokenizer_config={"eos_token": {"content": "</s>"}},
        chat_template=b"{{ '<|user|>' }}",
    )
    assert got == [
        AddedToken(3, "</s>", True),
        AddedToken(7, "<|user|>", True),
        AddedToken(9, "word", False),
    ]


def test_tokens_of_a_slow_tokenizer() -> None:
    template = [{"name": "default", "template": "<|user|>"}]
    decoder = {"5": {"content": "<|user|>"}, "x": {"content": "no"}}
    got = found(
        tokenizer_config={"added_tokens_decoder": decoder, "chat_template": template},
        added_tokens={"word": 6, "odd": "7"},
    )
    assert got == [AddedToken(5, "<|user|>", True), AddedToken(6, "word", False)]


@pytest.mark.parametrize(
    "text",
    ["<pad>", "[UNK]", "<mask>", "<|reserved_special_token_3|>", "<extra_id_9>", "<unused1>"],
)
def test_fillers_and_tokens_for_later_are_left_out(text: str) -> None:
    assert found(tokenizer=fast((1, text))) == []


def test_whatever_stands_for_padding_is_left_out() -> None:
    config = {"pad_token": "<|end|>", "unk_token": "<u>"}
    assert found(tokenizer=fast((1, "<|end|>"), (2, "<u>")), tokenizer_config=config) == []


@pytest.mark.parametrize("text", ["<tool_call>", "<|image|>", "<think>"])
def test_tokens_of_some_conversations_only_are_not_used_in_all(text: str) -> None:
    (token,) = found(tokenizer=fast((1, text)), chat_template=text.encode())
    assert not token.used


def test_a_large_tokenizer_is_read_as_far_as_its_added_tokens() -> None:
    text = json.dumps(fast((1, "<|user|>"))).encode()
    assert [one.id for one in found(tokenizer=text[: text.index(b"model")])] == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"added_tokens": [{"id": 1',
        b'{"added_tokens": ' + b"[" * 100_000,
        b'{"added_tokens": [1, {}, {"id": "1", "content": 2}, {"id": -1, "content": "a"}]}',
        b'{"added_tokens": [{"id": 1, "content": ""}]}',
        b"\xff\xfe",
    ],
    ids=range(8),
)
def test_what_is_no_list_of_tokens_has_none(data: bytes) -> None:
    assert found(tokenizer=data, tokenizer_config=data, added_tokens=data) == []


def test_names_of_any_type_are_no_tokens() -> None:
    config = {"eos_token": ["a"], "pad_token": {"content": ["b"]}, "chat_template": [1, "x"]}
    assert found(tokenizer=fast((1, "a")), tokenizer_config=config) == [AddedToken(1, "a", False)]
