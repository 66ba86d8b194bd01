"""Any damage to a file of any layout ends in facts: no exception, no hang."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.checkpoints import read
from tests.support.mutations import SEEDS, Seed, check, mutated
from trainproof.model.tensors import Extent, Safety

by_name = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)


@by_name
def test_the_whole_file_is_read(seed: Seed) -> None:
    facts = read(seed.data, seed.name, beside=seed.beside).facts
    assert facts.extent is not Extent.NOT_CHECKED
    assert (facts.safety is Safety.UNSAFE) == (b"getpid" in seed.data or seed.name == "packed.pt")


@by_name
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 2**32))
def test_a_damaged_file_ends_in_facts(seed: Seed, number: int) -> None:
    check(seed, mutated(seed.data, random.Random(number)))


@by_name
def test_a_file_that_is_cut_anywhere_ends_in_facts(seed: Seed) -> None:
    for end in range(0, len(seed.data), max(1, len(seed.data) // 40)):
        check(seed, seed.data[:end])
