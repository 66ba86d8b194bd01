"""Ranges of releases, and the table of those with public reports."""

from __future__ import annotations

import re

import pytest

from trainproof.model.versions import KNOWN_BAD, WATCHED, Range, cuda, known_bad, release


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.5.1", (2, 5, 1)),
        ("2.5.0", (2, 5)),
        ("2.5.0rc1+cu121", (2, 5)),
        ("v1.2", (1, 2)),
        ("1!4.0", (4,)),
        ("2.4.0a0+git123", (2, 4)),
        ("unknown", None),
        ("", None),
    ],
)
def test_the_release_of_a_version(version: str, numbers: tuple[int, ...] | None) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("version", "held"),
    [("4.45.2", False), ("4.46.0", True), ("4.47.1", True), ("4.48.0", False), ("x", False)],
)
def test_a_range_holds_its_first_and_not_its_fixed_release(version: str, held: bool) -> None:
    one = Range("transformers", first=(4, 46), fixed=(4, 48))
    assert one.holds({"transformers": version}) is held
    assert not one.holds({"other": version})


@pytest.mark.parametrize(
    ("versions", "sources"),
    [
        ({"torch": "2.2.2", "numpy": "1.26.4"}, []),
        ({"torch": "2.2.2", "numpy": "2.0.0"}, ["pytorch #107302, #132179"]),
        ({"torch": "2.3.0", "numpy": "2.0.0"}, []),
        ({"torch": "2.5.0+cu124"}, ["pytorch #139298, diffusers #9768"]),
        ({"torch": "2.5.0+cpu"}, []),
        ({"torch": "2.5.1+cu124"}, []),
        ({"torch": "2.13.0+cpu"}, []),
        ({"torch": "2.13.0"}, ["pytorch #196678, trl #7181"]),
        ({"tensorboard": "2.11.2", "protobuf": "4.21.1"}, ["tensorboard #5703, #5708"]),
        ({"tensorboard": "2.11.2", "protobuf": "3.20.3"}, []),
        (
            {"transformers": "4.52.3", "torch": "2.5.1"},
            ["transformers PR #37785, LlamaFactory #8379"],
        ),
        ({"transformers": "5.1.0", "torch": "2.9.1", "numpy": "2.3.0"}, []),
    ],
)
def test_what_is_known(versions: dict[str, str], sources: list[str]) -> None:
    assert [one.source for one in known_bad(versions)] == sources


def test_every_entry_has_a_public_number_and_is_looked_for() -> None:
    for one in KNOWN_BAD:
        assert re.search(r"\w #\d+", one.source)
        assert {part.package for part in one.all_of} <= set(WATCHED)


@pytest.mark.parametrize(
    ("versions", "built"),
    [
        ({"torch": "2.5.1+cu124"}, (12, 4)),
        ({"torch": "2.9.0+cu130"}, (13, 0)),
        ({"torch": "2.5.1+cpu", "nvidia-cuda-runtime-cu12": "12.4.127"}, None),
        ({"torch": "2.5.1", "nvidia-cuda-runtime-cu12": "12.4.127"}, (12, 4, 127)),
        ({"torch": "2.13.0", "nvidia-cuda-runtime": "13.0.96"}, (13, 0, 96)),
        ({"torch": "2.5.1"}, None),
        ({"torch": "2.5.1+rocm6.2"}, None),
        ({"nvidia-cuda-runtime": "13.0.96"}, None),
    ],
)
def test_the_cuda_of_torch(versions: dict[str, str], built: tuple[int, ...] | None) -> None:
    assert cuda(versions) == built
