"""Every reader meets every input: it yields typed items and raises nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainproof.model.artifact import Kind
from trainproof.readers import READERS, reader
from trainproof.readers.interface import HEAD, Reader

from .readings import read

NAMES = [one.name for one in READERS]

JUNK = st.one_of(
    st.binary(max_size=2000),
    st.text(max_size=500).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(max_size=200).map(lambda text: text.encode("utf-16", "surrogatepass")),
)

PIECES = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b",", b":", b'"', b"\n", b"\r", b"\0", b"\t", b";", b" ",
        b'"log_history"', b'"step"', b'"loss"', b"step", b"loss", b"epoch", b"1", b"-1", b"0.5",
        b"nan", b"NaN", b"inf", b"1e999", b"null", b"true", b"\xff\xfe", b"\xef\xbb\xbf",
        b"\n  \"log_history\": [\n    {\n", b"\n    },\n    {\n", b"\n    }\n  ]", b"\x1b[1m",
        b" | > loss: 1.0", b"   --> STEP: 1/2 -- GLOBAL_STEP: 3", b" > EPOCH: 0/9", b"'", b"\\",
        b"9" * 400, b"x" * 300,
    ]
)  # fmt: skip

SOUP = st.lists(PIECES, max_size=60).map(b"".join)

each = pytest.mark.parametrize("one", READERS, ids=NAMES)


def meets(one: Reader, data: bytes) -> None:
    one.claims("dir/log.csv", data[:HEAD])
    read(one, "dir/log.csv", data)


@each
@settings(max_examples=60, deadline=None)
@given(data=JUNK)
def test_random_bytes(one: Reader, data: bytes) -> None:
    meets(one, data)


@each
@settings(max_examples=150, deadline=None)
@given(data=SOUP)
def test_pieces_of_every_format(one: Reader, data: bytes) -> None:
    meets(one, data)


@each
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 10_000,
        b"\xff" * 10_000,
        b"x" * 9_000_000,
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'"' * 100_000,
        b"," * 100_000,
        b"\r" * 100_000,
        b'{"loss": "' + b"y" * 9_000_000 + b'"}',
        b'{"log_history": [' + b"{}," * 50_000 + b"{}]}",
        b"step,loss\n" + b'"\n' * 20_000,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        b"<!DOCTYPE html><html><body>404</body></html>",
    ],
    ids=str.split(
        "empty newline nul ff one-line braces brackets nested quotes commas returns long-string"
        " empty-rows lone-quotes pointer page"
    ),
)
def test_hostile_files(one: Reader, data: bytes) -> None:
    meets(one, data)


@each
def test_nothing_is_claimed_without_content(one: Reader) -> None:
    if one.kind is Kind.LOG:
        assert not one.claims("trainer_state.json", b"")
        assert not one.claims("metrics.csv", b"version https://git-lfs.github.com/spec/v1\n")


def test_names_are_unique_and_found() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(reader(one.name) is one for one in READERS)
    with pytest.raises(KeyError):
        reader("no such reader")
