"""The few shared estimators. All are deterministic, take float64 arrays and never raise.

They are robust (medians, ranks), because a loss has heavy tails, and cheap, because they are
called on millions of series. Sums and differences may overflow to infinity or NaN; every
comparison with a NaN is false, and rules are written so that false never means clean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from trainproof.model.data import Floats, Ints, Role, Series

Mask = NDArray[np.bool_]
T = TypeVar("T")

NORMAL_MAD = 1.4826
"""Standard deviation of a normal sample over its median absolute deviation."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, normal samples: sqrt(pi / 2)."""

_OF_DIFFERENCES = NORMAL_MAD / math.sqrt(2)
"""Standard deviation of white noise over the median absolute deviation of its differences."""

_OF_CURVATURE = NORMAL_MAD / math.sqrt(6)
"""The same of its second differences, of which the median is zero."""

_OF_TWO = math.sqrt(2) * MEDIAN_ERROR
"""Standard error of the difference of two medians over that of a mean."""

MOST_BLOCKS = 20
LEAST_WIDTH = 5
_SMALL = 32
"""Up to so many numbers, a list is sorted sooner than an array is searched."""

_SORTED = 256
"""Up to so many numbers, an array is sorted sooner than it is searched for two of them."""

_SAMPLE = 512
_DIGITS = 8
_EXACT = 60


def once_per_series(function: Callable[[Series], T]) -> Callable[[Series], T]:
    """Share what several rules need to know of one series, for as long as the series lives.

    The result must not refer to the series.
    """

    @wraps(function)
    def remembered(series: Series) -> T:
        derived = series.derived
        if function in derived:
            known: T = derived[function]
            return known
        result = derived[function] = function(series)
        return result

    return remembered


# --- location and spread ---------------------------------------------------------------------


def median(values: Floats) -> float:
    """Median by selection, O(n). NaN when empty."""
    return _selected(values if len(values) <= _SMALL else values.copy())


def least_of(values: Floats) -> float:
    """The least value, NaN where one is NaN: for a third of the price of ``values.min()``, which
    decides between zeros of both signs."""
    return values.item(values.argmin()) or float(values.min())


def greatest_of(values: Floats) -> float:
    """The greatest value, in the same way."""
    return values.item(values.argmax()) or float(values.max())


def _median_size(values: Floats) -> float:
    """Median of the absolute values, which take the place of the values, in another order."""
    return _mid(np.abs(values, values))


def _mid(values: Floats) -> float:
    """Median, NaN when empty, but for the sign of a zero; values are left in another order."""
    count = len(values)
    if not count or count > _SORTED:
        return _selected(values)
    values.sort()
    half = count // 2
    return values.item(half) if count % 2 else _middle(values.item(half - 1), values.item(half))


def _selected(values: Floats) -> float:
    """Median, NaN when empty; many values are left in another order."""
    count = len(values)
    if count <= _SMALL:
        return _of_sorted(sorted(values.tolist()))
    half = count // 2
    if count % 2:
        values.partition(half)
        return float(values[half])
    values.partition((half - 1, half))
    return _middle(*values[half - 1 : half + 1].tolist())


def _of_sorted(ordered: Sequence[float]) -> float:
    if not ordered:
        return math.nan
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else _middle(ordered[half - 1], ordered[half])


def _middle(low: float, high: float) -> float:
    return 0.5 * low + 0.5 * high  # the sum of both may overflow


def noise(values: Floats) -> float:
    """Standard deviation of one point around its trend: 1.4826 MAD(first differences) / sqrt 2.

    Differences cancel the trend and the median ignores spikes and level shifts (von Neumann's
    mean square successive difference, made robust). 0 for fewer than three points.
    """
    if len(values) < 3:
        return 0.0
    return _OF_DIFFERENCES * _deviation(values[1:] - values[:-1])


def deviation(values: Floats) -> float:
    """Median absolute deviation from the median. NaN when empty."""
    return _deviation(values.copy())


def _deviation(values: Floats) -> float:
    """The same, from an array that is lost."""
    values -= _mid(values)
    return _median_size(values)


def curvature_noise(values: Floats, lag: int = 1) -> float:
    """Like ``noise``, from second differences over ``lag``: for what moves steadily.

    The second difference of white noise has variance 6. 0 where fewer than two can be formed.
    """
    if len(values) < 2 * lag + 2:
        return 0.0
    return _OF_CURVATURE * _median_size(_second_differences(values, lag))


def _second_differences(values: Floats, lag: int) -> Floats:
    if lag == 1:
        steps = values[1:] - values[:-1]
        return steps[1:] - steps[:-1]
    return values[2 * lag :] - 2 * values[lag:-lag] + values[: -2 * lag]


def wander(values: Floats) -> float:
    """How far a level strays without any trend: a standard deviation, in the unit of the values.

    Second differences cancel a straight trend, and where neighbours remember each other they grow
    with the lag. The greatest noise over lags up to an eighth of the series counts; where it grew
    like a power of the lag (at most a random walk's, 1/2), it is carried on to a third of the
    series. For white noise it is the noise of one point. Looks at 512 evenly spaced values.
    """
    sample = values[:: max(1, len(values) // _SAMPLE)]
    lags = _lags(len(sample))
    spreads = curvature_noises(sample)
    most, least = max(spreads), spreads[0]
    at = lags[spreads.index(most)]
    if at == 1 or not least > 0:
        return most
    power = min(0.5, math.log(most / least) / math.log(at))
    return float(most * max(1.0, len(sample) / 3 / at) ** power)


def curvature_noises(values: Floats) -> list[float]:
    """``curvature_noise`` at lag 1 and, growing by half each, at those up to an eighth of the
    values: of each lag, the differences are a row of one table, filled up with NaN, which sorts
    behind all numbers."""
    count = len(values)
    if count < _TWICE:
        return [curvature_noise(values)]
    plan = _laid_out(count)
    padded = np.concatenate((values, plan.gap))
    once = padded[plan.once]
    table = padded[plan.twice] - (once + once) + values[:-2]
    table[0] = _second_differences(values, 1)
    np.abs(table, table)
    table.sort(axis=1)
    item = table.item
    return [
        _OF_CURVATURE * (item(low) if low == high else _middle(item(low), item(high)))
        for low, high in plan.middles
    ]


_TWICE = 16
"""The least number of values that are looked at with more than one lag."""


class _LaidOut(msgspec.Struct, frozen=True, eq=False):
    """Where the second differences of a number of values are found, a row for each lag.

    ``once``, ``twice``: (lags, values), places once and twice the lag ahead. ``gap``: NaN, for
    places behind the last value. ``middles``: the two places, in the flat table, between which
    half of the differences of a row lie; one of odd many.
    """

    once: Ints
    twice: Ints
    gap: Floats
    middles: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def _laid_out(count: int) -> _LaidOut:
    lags, width = _lags(count), count - 2
    places, ahead = np.arange(width), np.array(lags)[:, None]
    counts = [(row * width, count - 2 * lag) for row, lag in enumerate(lags)]
    middles = tuple((begin + (many - 1) // 2, begin + many // 2) for begin, many in counts)
    gap = np.full(2 * lags[-1] - 2, np.nan)
    return _LaidOut(places + ahead, places + 2 * ahead, gap, middles)


@lru_cache(maxsize=64)
def _lags(count: int) -> tuple[int, ...]:
    """1 and, growing by half each, the lags up to an eighth of ``count``."""
    lags = [1]
    while (lag := max(lags[-1] + 1, lags[-1] * 3 // 2)) * 8 <= count:
        lags.append(lag)
    return tuple(lags)


def printed_quantum(values: Floats) -> float | None:
    """The unit of the last printed decimal, 10**-d, or None for numbers of full precision.

    Numbers that were rounded and then stored with 24 bits (event files, tensors) are those
    nearest to their decimals. Looks at ``_SAMPLE`` evenly spaced values: a log prints all its
    rows alike.
    """
    sample = values[:: max(1, len(values) // _SAMPLE)]
    sample = sample[np.isfinite(sample)]
    if not len(sample) or (most := float(np.abs(sample).max())) > 1e6:
        return None
    printed, digits = _printed, _DIGITS
    if not printed(sample, digits):
        printed, digits = _stored_single, _single_digits(most)
        if digits < 0 or not printed(sample, digits):
            return None
    return float(10.0 ** -next(d for d in range(digits + 1) if printed(sample, d)))


def least_change(values: Floats, at: float) -> float:
    """By how much values that were logged can differ at all from ``at``: the unit of the last
    printed decimal, or the spacing of half precision where each is such a number; 0 for full
    precision."""
    return max(printed_quantum(values) or 0.0, _half_spacing(values, at))


def _half_spacing(values: Floats, at: float) -> float:
    """Spacing, at a value, of bfloat16 or float16 where that type holds all of the values; else 0.
    One or two values may be such numbers by chance: there must be three.

    A half-precision loss is 2**-8 to 2**-11 of itself away from the next, and has as many decimals
    as any other where it is printed.
    """
    finite = values[np.isfinite(values)]
    if not len(finite) or not _half_bits(finite[:1]) or len(np.unique(finite)) < 3:
        return 0.0
    bits = _half_bits(finite)
    return math.ldexp(1.0, math.frexp(at)[1] - bits) if bits else 0.0


_BFLOAT16_BITS, _FLOAT16_BITS = 8, 11
"""Bits of the significand, the first one, which is not stored, among them (IEEE 754)."""


def _half_bits(values: Floats) -> int:
    """Those of the half-precision type that holds all of the values; 0 where none does."""
    if _is_bfloat16(values):
        return _BFLOAT16_BITS
    return _FLOAT16_BITS if _is_float16(values) else 0


def _is_bfloat16(values: Floats) -> bool:
    """The upper half of a number of single precision."""
    single = values.astype(np.float32)
    return bool((single == values).all()) and not (single.view(np.uint32) & 0xFFFF).any()


def _is_float16(values: Floats) -> bool:
    return bool((values.astype(np.float16) == values).all())


def at_least_printed(sigma: float, values: Floats) -> float:
    """``sigma``, or the unit of the last printed decimal where that is greater. Mostly the first
    value rules that out."""
    first = abs(values.item(0))
    for unit, scale in _UNITS:
        if not unit > sigma:
            return sigma
        scaled = first * scale
        # Within what printing leaves of a number, or storing it with 24 bits (6e-8 of it).
        if not scaled < math.inf or abs(scaled - round(scaled)) <= 1e-6 * max(scaled, 1.0):
            break
    return max(sigma, printed_quantum(values) or 0.0)


_UNITS = tuple((10.0**-digits, 10.0**digits) for digits in range(_DIGITS + 1))


def _printed(values: Floats, digits: int) -> bool:
    """Whether all values are whole numbers of 10**-digits. The first one mostly tells."""
    if not _one_printed(float(values[0]), digits):
        return False
    scaled = np.abs(values * 10.0**digits)
    return bool((np.abs(scaled - np.rint(scaled)) <= 1e-6 * np.minimum(scaled, 1)).all())


def _one_printed(value: float, digits: int) -> bool:
    scaled = abs(value * 10.0**digits)
    return scaled < math.inf and abs(scaled - round(scaled)) <= 1e-6 * min(scaled, 1.0)


def _stored_single(values: Floats, digits: int) -> bool:
    """Whether all values are those numbers of single precision that are nearest to a whole number
    of 10**-digits. The first one mostly tells."""
    if not _one_stored_single(float(values[0]), digits):
        return False
    unit = 10.0**digits
    nearest = (np.rint(values * unit) / unit).astype(np.float32)
    return bool((nearest == values).all())


def _one_stored_single(value: float, digits: int) -> bool:
    unit = 10.0**digits
    scaled = value * unit
    return abs(scaled) < math.inf and float(np.float32(round(scaled) / unit)) == value


def _single_digits(most: float) -> int:
    """Decimals that show up in numbers of single precision up to ``most``: below 32 of their
    spacings, too many numbers lie at a decimal by chance. -1 where not even the units do."""
    spacing = float(np.spacing(np.float32(most)))
    return min(_DIGITS, math.floor(-math.log10(32 * spacing)))


MOST_CASES = 2000


def counting_error(values: Floats) -> float:
    """Standard deviation of a share that was counted over n cases, 0 where values show no such n.

    Finite values from 0 to 1 of which all are multiples of 1/n, five different ones at least, are
    shares of n cases: sqrt(p (1 - p) / n) at their median p (binomial). A unit that is that of the
    last printed decimal says nothing about n.
    """
    levels = np.unique(values)
    if len(levels) < 5 or levels[0] < 0 or levels[-1] > 1:
        return 0.0
    apart, quantum, share = float(np.diff(levels).min()), printed_quantum(values), median(values)
    for units in range(1, 9):  # the nearest two of a few values may lie several units apart
        cases = round(units / apart)
        counts = levels * cases
        if cases > MOST_CASES or cases * 1.5 * (quantum or 0.0) > 1:
            break
        if bool((np.abs(counts - np.rint(counts)) < 1e-6 * cases).all()):
            return math.sqrt(share * (1 - share) / cases)
    return 0.0


# --- runs of a condition -----------------------------------------------------------------------


class Stretches(msgspec.Struct, frozen=True):
    """Where a condition holds: ``starts`` and ``lengths`` of its unbroken stretches."""

    starts: Ints
    lengths: Ints
    points: int

    @property
    def longest(self) -> int:
        return int(self.lengths.max()) if len(self.lengths) else 0

    @property
    def tail(self) -> int:
        """Length of the stretch that reaches the end, 0 if none does."""
        if not len(self.starts) or self.starts[-1] + self.lengths[-1] < self.points:
            return 0
        return int(self.lengths[-1])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts.tolist(), self.lengths.tolist(), strict=True)


def stretches(mask: Mask) -> Stretches:
    if not np.count_nonzero(mask):
        return Stretches(_NOWHERE, _NOWHERE, len(mask))
    padded = np.zeros(len(mask) + 2, np.int8)
    padded[1:-1] = mask
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return Stretches(edges[::2], edges[1::2] - edges[::2], len(mask))


_NOWHERE: Ints = np.zeros(0, np.int64)
_NOWHERE.flags.writeable = False


def tail_at(values: Floats, value: float) -> int:
    """How many of the last points are equal to a value. Mostly the last two tell."""
    if not len(values) or values.item(-1) != value:
        return 0
    if len(values) > 1 and values.item(-2) != value:
        return 1
    return tail_of(values == value)


def tail_of(mask: Mask) -> int:
    """At how many of the last points the condition holds without a break."""
    if not len(mask) or not mask[-1]:
        return 0
    broken = int(mask[::-1].argmin())  # the first of the least: 0 where it holds everywhere
    return broken or len(mask)


# --- trend ---------------------------------------------------------------------------------------


def kendall(values: Floats) -> int:
    """Kendall's S: rising pairs minus falling pairs. O(n^2); for at most a few hundred points."""
    count = len(values)
    greater = values > values[:, None]
    # The later is greater in rising pairs above the diagonal, and in falling ones below it: what
    # differs from the diagonal's upper half are all pairs but the rising ones, and the falling.
    unlike = int(np.count_nonzero(greater != _above_diagonal(count)))
    return count * (count - 1) // 2 - unlike


@lru_cache(maxsize=32)
def _above_diagonal(count: int) -> Mask:
    return np.triu(np.ones((count, count), np.bool_), 1)


@lru_cache(maxsize=_EXACT + 1)
def _survival(count: int) -> tuple[float, ...]:
    """P(at least k falling pairs) for k = 0, 1, …, of ``count`` points in random order.

    Inversions of a random permutation are a sum of independent uniforms on 0..i-1
    (Mann 1945; Kendall 1975, section 5.2).
    """
    mass = np.ones(1)
    for i in range(2, count + 1):
        mass = np.convolve(mass, np.full(i, 1.0 / i))
    return tuple(np.cumsum(mass[::-1])[::-1].tolist())


def falling_p(s: int, count: int) -> float:
    """One-sided p of a fall at least as strong as Kendall's S: exact up to 60 points.

    With ties the exact distribution without ties is wider, so the p is not too small. NaN
    comparisons count as ties.
    """
    if count < 2:
        return 1.0
    if count <= _EXACT:
        falls = math.ceil((count * (count - 1) // 2 - s) / 2)
        return _survival(count)[falls]
    sd = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return normal_tail((-s - 1) / sd)


def theil_sen(values: Floats) -> float:
    """Median of all pairwise slopes, per index (Theil 1950, Sen 1968). 0 below two points."""
    if len(values) < 2:
        return 0.0
    i, j = np.triu_indices(len(values), 1)
    return median((values[j] - values[i]) / (j - i))


def normal_tail(z: float) -> float:
    """P(Z >= z) of a standard normal."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def higher_p(low: Floats, high: Floats) -> float:
    """One-sided Mann-Whitney p that ``high`` is not above ``low``: normal approximation with
    the correction for ties and for continuity (Mann and Whitney 1947)."""
    m, n = len(low), len(high)
    if not m or not n:
        return 1.0
    ordered = np.sort(np.concatenate((low, high)))
    below = np.searchsorted(ordered, high, "left") + np.searchsorted(ordered, high, "right")
    u = float(below.sum()) / 2 - n * n / 2  # mid-ranks: the sum of ranks minus n(n + 1)/2
    total = m + n
    ties = np.diff(np.flatnonzero(np.concatenate(([True], np.diff(ordered) != 0, [True]))))
    shared = float((ties.astype(np.float64) ** 3 - ties).sum()) / (total * (total - 1))
    variance = m * n / 12 * (total + 1 - shared)
    return normal_tail((u - m * n / 2 - 0.5) / math.sqrt(variance)) if variance > 0 else 1.0


# --- the shape of one series ----------------------------------------------------------------------


class Profile(msgspec.Struct, frozen=True, eq=False):
    """What shape rules share about one series of finite values.

    ``values``: of the series. ``edges``: block borders, K + 1 indices; ``medians``: of the K
    blocks. ``first`` and ``last``: level at the two ends. ``sigma``: noise of one point, at least
    the printed quantum. ``rho``: lag-1 autocorrelation of the residual. ``error``: standard error
    of the difference of two levels: from the noise, inflated for autocorrelation, and at least what
    neighbouring blocks differ by. ``drift``: how far two levels stray from each other without any
    trend, 0 below twenty points. ``p_fall``, ``p_rise``: one-sided Mann-Kendall p, over 20 block
    medians or, below 100 points, over the points.
    """

    values: Floats
    edges: tuple[int, ...]
    medians: Floats
    first: float
    last: float
    sigma: float
    rho: float
    error: float
    drift: float
    p_fall: float
    p_rise: float

    @property
    def points(self) -> int:
        return len(self.values)

    @property
    def quantum(self) -> float:
        """The unit of the last printed decimal, 0 for full precision."""
        return printed_quantum(self.values) or 0.0

    @property
    def blocks(self) -> int:
        return len(self.medians)

    @property
    def negated(self) -> Profile:
        """The profile of the same values with the other sign."""
        return replace(
            self,
            values=-self.values,
            medians=-self.medians,
            first=-self.first,
            last=-self.last,
            p_fall=self.p_rise,
            p_rise=self.p_fall,
        )

    @property
    def doubt(self) -> float:
        """The standard error, or half of the drift: six of them are three of what levels stray."""
        return max(self.error, self.drift / 2)


@once_per_series
def profile(series: Series) -> Profile:
    """The profile of a series of finite values. Overflow is silent: it ends in NaN or infinity."""
    with np.errstate(all="ignore"):
        return measure(series.values)


FEW = 4 * LEAST_WIDTH
"""Below this many points the ends are medians of three and the noise is from curvature."""


class Trend(msgspec.Struct, frozen=True, eq=False):
    """The part of a ``Profile`` that is measured without the noise: levels and their trend."""

    edges: tuple[int, ...]
    medians: Floats
    first: float
    last: float
    p_fall: float
    p_rise: float


def trend(values: Floats) -> Trend:
    """``values``: finite, at least one."""
    count = len(values)
    edges = block_edges(count)
    medians = block_medians(values, edges)
    if count < FEW:
        first, last = median(values[:3]), median(values[-3:])
    else:
        first, last = float(medians[0]), float(medians[-1])
    ranked = medians if len(medians) == MOST_BLOCKS else values
    s, n = kendall(ranked), len(ranked)
    return Trend(edges, medians, first, last, falling_p(s, n), falling_p(-s, n))


def measure(values: Floats) -> Profile:
    """``values``: finite, at least one."""
    count = len(values)
    seen = trend(values)
    medians = seen.medians
    if count < FEW:
        sigma, rho, width = curvature_noise(values), 0.0, 3.0
    else:
        sigma, rho = _noise_and_memory(values, seen.edges, medians)
        width = count / len(medians)
    sigma = at_least_printed(sigma, values)
    error = _OF_TWO * sigma * inflation(rho) / math.sqrt(width)
    if len(medians) == MOST_BLOCKS:  # batch means: memory that is longer than a block
        error = max(error, math.sqrt(2) * noise(medians))
        drift = math.sqrt(2) * max(curvature_noise(medians), curvature_noise(medians, 2))
    else:
        drift = wander(values) if count >= FEW else 0.0
    return Profile(
        values,
        seen.edges,
        medians,
        seen.first,
        seen.last,
        sigma,
        rho,
        error,
        drift,
        seen.p_fall,
        seen.p_rise,
    )


@lru_cache(maxsize=256)
def block_edges(count: int) -> tuple[int, ...]:
    """Borders of at most 20 equal blocks of at least five points; one block when fewer."""
    return equal_parts(count, max(1, min(MOST_BLOCKS, count // LEAST_WIDTH)))


@lru_cache(maxsize=256)
def equal_parts(count: int, parts: int) -> tuple[int, ...]:
    """Borders of ``parts`` blocks of ``count`` points."""
    return tuple(count * i // parts for i in range(parts + 1))


@lru_cache(maxsize=64)
def widths(edges: tuple[int, ...]) -> Ints:
    """How many points each block has."""
    return np.diff(edges)


def block_medians(values: Floats, edges: tuple[int, ...]) -> Floats:
    if len(values) > _SMALL * MOST_BLOCKS:
        return np.array([median(values[a:b]) for a, b in pairwise(edges)])
    width = edges[1]
    if width and edges == tuple(range(0, len(values) + 1, width)):
        return _row_medians(values.reshape(-1, width))
    listed = values.tolist()  # for short series, slices of lists are much cheaper than of arrays
    return np.array([_of_sorted(sorted(listed[a:b])) for a, b in pairwise(edges)])


def _row_medians(table: Floats) -> Floats:
    ordered, half = table.copy(), table.shape[1] // 2
    ordered.sort(axis=1)
    if table.shape[1] % 2:
        return ordered[:, half]
    return 0.5 * ordered[:, half - 1] + 0.5 * ordered[:, half]


def _noise_and_memory(
    values: Floats, edges: tuple[int, ...], medians: Floats
) -> tuple[float, float]:
    """Noise of one point, and the lag-1 autocorrelation of what is left without the trend.

    Loggers that print running averages make differences small and the residual smooth: where
    the residual remembers, its own spread is the noise.
    """
    sigma = noise(values)
    residual = values - np.interp(_places(len(values)), _middles(edges), medians)
    sizes = np.abs(residual)
    most, spread = greatest_of(sizes), NORMAL_MAD * _mid(sizes)
    limit = 4 * spread
    if not most <= limit:
        residual = np.minimum(np.maximum(residual, -limit), limit)  # half the price of np.clip
    rho = _memory(residual)
    return (max(sigma, spread) if rho > REMEMBERS else sigma), rho


@lru_cache(maxsize=64)
def _places(count: int) -> Floats:
    return np.arange(count, dtype=np.float64)


@lru_cache(maxsize=64)
def _middles(edges: tuple[int, ...]) -> Floats:
    """The index, or half of one, in the middle of each block."""
    borders = np.array(edges)
    return np.asarray((borders[1:] + borders[:-1] - 1) / 2)


def _memory(residual: Floats) -> float:
    """The lag-1 autocorrelation; what is far below ``REMEMBERS`` may be off in its last bits."""
    if len(residual) <= _ONE_THREAD:  # of BLAS: half the price
        power = float(residual.dot(residual))
        shared = float(residual[1:].dot(residual[:-1]))
        if shared < 0.9 * REMEMBERS * power:
            return shared / power
    power = _product(residual, residual)
    return _product(residual[1:], residual[:-1]) / power if power > 0 else 0.0


_ONE_THREAD = 10_000


def _product(one: Floats, other: Floats) -> float:
    """The inner product, without the threads of BLAS: beside other work they wait for a core."""
    return float(np.einsum("i,i->", one, other))


REMEMBERS = 0.2
_MOST_INFLATION = 20.0


def inflation(rho: float) -> float:
    """Factor on a standard error for an AR(1) residual: sqrt((1 + rho) / (1 - rho)), 1 to 20."""
    if not rho > REMEMBERS:
        return 1.0
    return min(_MOST_INFLATION, math.sqrt((1 + rho) / (1 - rho))) if rho < 1 else _MOST_INFLATION


SPIKE_BLOCK = 50


class Spikes(msgspec.Struct, frozen=True, eq=False):
    """``mask``: rows far above the hundred rows before them. ``levels``: median of those, one
    for each block of fifty rows from row ``first`` on; rows before it are not judged."""

    mask: Mask
    levels: Floats
    first: int = 2 * SPIKE_BLOCK

    def level(self, row: int) -> float:
        return float(self.levels[(row - self.first) // SPIKE_BLOCK])


def spikes(values: Floats, sigmas: float) -> Spikes:
    """Rows more than ``sigmas`` robust standard deviations above the median of the two blocks
    of fifty rows before their own. ``values``: finite, more than a hundred. O(n)."""
    blocks = len(values) // SPIKE_BLOCK
    whole = values[: blocks * SPIKE_BLOCK].reshape(blocks, SPIKE_BLOCK)
    before = np.concatenate((whole[:-1], whole[1:]), axis=1)
    levels = _upper_medians(before)
    spread = NORMAL_MAD * _upper_medians(np.abs(before - levels[:, None]))
    least = least_change(values, float(np.abs(levels).max()))
    spread = np.maximum(spread, np.maximum(least, 1e-3 * np.abs(levels)))
    limits = np.repeat(levels + sigmas * spread, SPIKE_BLOCK)[: len(values) - 2 * SPIKE_BLOCK]
    mask = np.zeros(len(values), np.bool_)
    mask[2 * SPIKE_BLOCK :] = values[2 * SPIKE_BLOCK :] > limits
    return Spikes(mask, levels)


def _upper_medians(table: Floats) -> Floats:
    """Upper median of each row: one selection."""
    half = table.shape[1] // 2
    return np.asarray(np.partition(table, half, axis=1)[:, half])


class Shared(msgspec.Struct, frozen=True, eq=False):
    """Positions, in each of two series, of the steps that both hold."""

    here: Ints
    there: Ints


def shared_steps(one: Series, other: Series) -> Shared:
    """Steps must rise within each series, as they do after segmentation."""
    a, b = one.steps, other.steps
    if a is b or (len(a) == len(b) and not np.count_nonzero(a != b)):
        every = np.arange(len(a))
        return Shared(every, every)
    at = np.minimum(np.searchsorted(b, a), len(b) - 1)
    here = np.flatnonzero(b[at] == a)
    return Shared(here, at[here])


def median_of_three(values: Floats) -> Floats:
    """Running median of three neighbours, n - 2 values: one lucky or unlucky point vanishes."""
    a, b, c = values[:-2], values[1:-1], values[2:]
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


# --- what a series is not -------------------------------------------------------------------------


class Screen(msgspec.Struct, frozen=True):
    """What decides whether a series may be judged: how much of it is not finite, and what a
    series that is logged as a loss looks like instead."""

    nonfinite: int
    looks_like: str | None


@once_per_series
def screen(series: Series) -> Screen:
    values = series.values
    finite = int(np.count_nonzero(np.isfinite(values)))
    looks_like = not_a_loss(values) if series.role is Role.LOSS else None
    return Screen(len(values) - finite, looks_like)


@once_per_series
def rises(series: Series) -> bool:
    """Whether each step is greater than the one before."""
    steps = series.steps
    return int(np.count_nonzero(steps[1:] > steps[:-1])) == len(steps) - 1


def not_a_loss(values: Floats) -> str | None:
    """What a series that is logged as a loss looks like instead, or None.

    Powers of two from 16 up are a mixed-precision loss scale (836 of 836 published series of
    that kind, 0 of 1,695 losses); strictly rising integers are a counter.
    """
    first = float(values[0]) if len(values) else 0.0
    if math.isfinite(first) and not first.is_integer():
        return None
    finite = values[np.isfinite(values)]
    if len(finite) < 5 or finite.min() < 0:
        return None
    whole = finite == np.floor(finite)
    if not whole.all():
        return None
    if finite.min() >= 16 and bool(np.all(np.frexp(finite)[0] == 0.5)):
        return "a loss scale (every value is a power of two)"
    if bool((finite[1:] > finite[:-1]).all()):
        return "a counter (every value is a greater integer)"
    return None
