"""Views cover the elements that numpy's own strides cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.checkpoints.limits import Limits
from trainproof.checkpoints.views import BadLayout, View, blocks, measure_blocks


def view(shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0, size: int = 100) -> View:
    return View("float32", shape, stride, offset, "0", size)


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [
        ((2, 3), (3, 1), (0, 24)),
        ((3, 2), (1, 3), (0, 24)),
        ((2, 1, 3), (3, 77, 1), (0, 24)),
        ((5, 3), (0, 1), (0, 12)),
        ((), (), (0, 4)),
        ((2, 3), (4, 1), None),
        ((3,), (2,), None),
    ],
)
def test_a_view_without_holes_is_one_stretch(
    shape: tuple[int, ...], stride: tuple[int, ...], dense: tuple[int, int] | None
) -> None:
    assert view(shape, stride).dense() == dense


def test_the_offset_moves_the_stretch() -> None:
    assert view((2, 3), (3, 1), 7).dense() == (28, 24)


@pytest.mark.parametrize(
    ("shape", "stride", "offset", "why"),
    [
        ((2, 3), (1,), 0, "2 sizes and 1 strides"),
        ((-1,), (1,), 0, "a size, a stride or the offset is negative"),
        ((2,), (-1,), 0, "a size, a stride or the offset is negative"),
        ((2,), (1,), -1, "a size, a stride or the offset is negative"),
        ((101,), (1,), 0, "it reaches element 100 of a storage of 100"),
        ((2,), (100,), 0, "it reaches element 100 of a storage of 100"),
        ((1 << 32, 1 << 32), (0, 0), 0, "more elements than can be counted"),
    ],
)
def test_impossible_views_are_refused(
    shape: tuple[int, ...], stride: tuple[int, ...], offset: int, why: str
) -> None:
    with pytest.raises(BadLayout, match=why):
        view(shape, stride, offset)


def test_a_view_without_elements_may_lie_anywhere() -> None:
    assert view((0, 5), (5, 1), 99).elements == 0


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=3),
    st.integers(0, 5),
    st.sampled_from([8, 32, 1 << 20]),
)
def test_blocks_show_every_element_as_often_as_the_view(
    dimensions: list[tuple[int, int]], offset: int, chunk: int
) -> None:
    data = np.arange(100, dtype=np.float32)
    shape = tuple(size for size, _ in dimensions)
    stride = tuple(step for _, step in dimensions)
    one = view(shape, stride, offset)
    expected = np.lib.stride_tricks.as_strided(
        data[offset:], shape, tuple(4 * step for step in stride)
    )
    _, made = blocks(one, Limits(chunk=chunk))
    raw = data.tobytes()
    stats = measure_blocks(one, made, lambda at, count: raw[at : at + count], False)
    assert stats.elements == math.prod(shape)
    assert stats.zeros == int(np.count_nonzero(expected == 0))
    assert (stats.min, stats.max) == (float(expected.min()), float(expected.max()))


def test_the_cost_of_a_view_counts_what_is_read_between_its_elements() -> None:
    far = View("float32", (1000, 1000), (1 << 20, 1 << 10), 0, "0", 1 << 40)
    assert blocks(far)[0] >= 1000 * (1 << 20)
