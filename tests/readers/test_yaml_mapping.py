"""YAML as settings: plain values only, nothing constructed, everything bounded."""

from __future__ import annotations

import pytest

from trainproof.readers.yaml_mapping import MAX_NODES, MAX_SCALAR, read_mapping


def test_numbers_stay_text_and_words_are_what_they_mean() -> None:
    text = "lr: 1e-4\nsteps: 10\nfp16: yes\nbf16: False\nseed: null\nname: ~\nempty:\nmode: 'no'\n"
    assert read_mapping(text) == {
        "lr": "1e-4",
        "steps": "10",
        "fp16": True,
        "bf16": False,
        "seed": None,
        "name": None,
        "empty": None,
        "mode": "no",
    }


def test_mappings_nest_and_sequences_are_left_out() -> None:
    text = "optim: {lr: 0.1, betas: [0.9, 0.95]}\nlayers:\n- {lr: 1}\n? [1, 2]\n: 3\nyes: 4\n"
    assert read_mapping(text) == {"optim": {"lr": "0.1", "betas": None}, "layers": None, "yes": "4"}


def test_an_alias_is_what_its_anchor_is_and_a_merge_gives_way_to_what_is_said() -> None:
    text = "a: &base {lr: 1, seed: 2}\nb: *base\nc: {seed: 3, <<: *base}\nd: {<<: *base, lr: 4}\n"
    base = {"lr": "1", "seed": "2"}
    assert read_mapping(text) == {
        "a": base,
        "b": base,
        "c": {"seed": "3", "lr": "1"},
        "d": {"lr": "4", "seed": "2"},
    }


def test_tags_construct_nothing() -> None:
    text = (
        "!!python/object:argparse.Namespace\n"
        "lr: 0.1\n"
        "path: !!python/object/apply:os.system [exit 3]\n"
        "size: !!python/tuple [1, 2]\n"
        "model: !!python/object:nowhere.Model {depth: 3}\n"
        "odd: !unknown 5\n"
    )
    assert read_mapping(text) == {
        "lr": "0.1",
        "path": None,
        "size": None,
        "model": {"depth": "3"},
        "odd": "5",
    }


def test_only_the_first_document_is_read() -> None:
    assert read_mapping("%YAML 1.1\n---\na: 1\n---\na: 2\n") == {"a": "1"}
    assert read_mapping("- a: 1\n") == read_mapping("words\n") == read_mapping("") == {}


@pytest.mark.parametrize("kind", ["mapping", "sequence"])
def test_a_few_lines_cannot_stand_for_a_billion_nodes(kind: str) -> None:
    lines = ["a0: &a0 {x: lol}"] if kind == "mapping" else ["a0: &a0 [lol]"]
    for level in range(1, 10):
        parts = [f"*a{level - 1}"] * 10
        named = ", ".join(f"k{n}: {part}" for n, part in enumerate(parts))
        inner = f"{{{named}}}" if kind == "mapping" else f"[{', '.join(parts)}]"
        lines.append(f"a{level}: &a{level} {inner}")
    with pytest.raises(ValueError, match=f"more than {MAX_NODES} nodes"):
        read_mapping("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " * 2, "not YAML: mapping values are not allowed in this context in line 1"),
        ("a: [1\nb: 2\n", "not YAML: .* in line [23]"),
        ("a: \x00", "not YAML: "),
        ("{a: " * 70, "nested more than 64 deep"),
        ("[" * 1_000_000, "nest"),
        ("".join(f"k{n}: {n}\n" for n in range(MAX_NODES)), "more than 100000 nodes"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_mapping(text)


def test_an_anchor_within_itself_is_nothing() -> None:
    assert read_mapping("a: &a {b: *a, c: 1}\n") == {"a": {"b": None, "c": "1"}}


def test_long_scalars_are_no_settings() -> None:
    text = f"a: {'x' * MAX_SCALAR}\nb: {'x' * (MAX_SCALAR + 1)}\n{'y' * 900}: 1\n"
    assert list(read_mapping(text).items())[1:] == [("b", None), ("y" * 900, "1")]
