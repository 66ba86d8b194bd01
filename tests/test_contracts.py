"""What CONTRACTS.md promises to those who used the version before."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainproof.rules import REGISTRY

ROOT = Path(__file__).parents[1]
IDS = (ROOT / "tests/data/ids_of_0_22.txt").read_text("utf-8").split()


@pytest.mark.parametrize("id", IDS)
def test_an_id_that_users_know_is_a_rule_or_a_change_that_is_told(id: str) -> None:
    assert id in REGISTRY or f"`{id}`" in (ROOT / "CONTRACTS.md").read_text("utf-8")
