from __future__ import annotations

import pytest

from trainproof.rules.constants import EXACTLY, clamp_at, softmax_twice


@pytest.mark.parametrize(
    ("value", "name"),
    [(11.516, "-ln(1e-5)"), (16.118, "-ln(1e-7)"), (87.3365, "-ln(FLT_MIN)"), (100.0, "100")],
)
def test_a_value_at_a_clamp_is_named(value: float, name: str) -> None:
    assert clamp_at(value) == name
    assert clamp_at(value * 1.002) is None


@pytest.mark.parametrize("value", [16.118, 13.8155, 87.3365, 100.0, 27.631])
def test_printed_constants_are_recognised_exactly(value: float) -> None:
    assert clamp_at(value, EXACTLY) is not None
    assert clamp_at(value * 1.0001, EXACTLY) is None


@pytest.mark.parametrize(("classes", "floor"), [(2, 0.3133), (10, 1.4612), (1000, 5.9095)])
def test_the_floor_of_two_softmaxes(classes: int, floor: float) -> None:
    assert softmax_twice(classes) == pytest.approx(floor, abs=1e-4)
