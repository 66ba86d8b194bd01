from __future__ import annotations

import pytest

from trainproof.rules.constants import clamp_at


@pytest.mark.parametrize(
    ("value", "name"),
    [(11.516, "-ln(1e-5)"), (16.118, "-ln(1e-7)"), (87.3365, "-ln(FLT_MIN)"), (100.0, "100")],
)
def test_a_value_at_a_clamp_is_named(value: float, name: str) -> None:
    assert clamp_at(value) == name
    assert clamp_at(value * 1.002) is None
