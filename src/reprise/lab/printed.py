"""Statistics from a printed mean and standard deviation, and between what bounds their rounding leaves them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from reprise.lab.distributions import t_factor, two_sided
from reprise.lab.statistics import holm

_TINY = 1e-9  # of a figure's size, so that an end of exactly half a digit is not lost to binary fractions


@dataclass(frozen=True)
class Summary:
    """What a mean and a standard deviation over n seeds amount to."""

    mean: float
    sd: float
    n: int
    confidence: float
    t: float | None
    """Mean over its standard error; None where the standard deviation is 0."""
    p: float
    """Two-sided probability of such a t by chance; where there is no t, 1 if the mean is 0 and 0 if not."""
    low: float
    high: float
    """The ends of the interval."""


@dataclass(frozen=True)
class Range:
    """The numbers that a figure may be, as rounding of what it is made of leaves it."""

    low: float
    high: float

    def holds(self, printed: str) -> bool:
        """Whether a figure of this range may have been printed so, rounded to the digits that are there."""
        return self.apart(printed) == 0

    def apart(self, printed: str) -> float:
        """How far a printed figure, with its own rounding, lies outside; 0 if it does not.

        >>> Range(2.262, 2.264).apart("2.26"), round(Range(2.262, 2.264).apart("2.25"), 6)
        (0.0, 0.007)
        """
        value, half = float(printed), half_unit(printed)
        slack = _TINY * (abs(value) + half)
        far = max(self.low - (value + half), (value - half) - self.high, 0.0)
        return far if far > slack else 0.0


@dataclass(frozen=True)
class SummaryRanges:
    """What a printed mean and standard deviation amount to, as far as their rounding lets one say."""

    t: Range
    p: Range
    low: Range
    high: Range
    """The ends of the interval."""


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit: how far rounding may have moved a figure.

    >>> half_unit("6.63"), half_unit("427.4"), half_unit("9"), half_unit("1.76e-4")
    (0.005, 0.05, 0.5, 5e-07)
    """
    return float(Decimal((0, (5,), int(Decimal(printed).as_tuple().exponent) - 1)))


def from_summary(mean: float, sd: float, n: int, confidence: float = 0.95) -> Summary:
    """t, p and the interval from the mean and the standard deviation of a contrast over n seeds.

    >>> found = from_summary(1.191, 0.616, 10)
    >>> print(f"t {found.t:.3f}, p {found.p:.2e}, from {found.low:.2f} to {found.high:.2f}")
    t 6.114, p 1.76e-04, from 0.75 to 1.63
    """
    _check(mean, sd, n)
    error = sd / math.sqrt(n)
    half = t_factor(confidence, n) * error
    t = mean / error if error else None
    p = two_sided(t, n - 1) if t is not None else float(mean == 0)
    return Summary(mean, sd, n, confidence, t, p, mean - half, mean + half)


def from_printed(mean: str, sd: str, n: int, confidence: float = 0.95) -> SummaryRanges:
    """As `from_summary`, with the ranges that the figures may have: each input is known to half its last digit.

    Every figure rises or falls with the mean and with the standard deviation alone, so the ends of these are enough.
    Where the standard deviation may be 0, t is unbounded.

    >>> found = from_printed("1.191", "0.616", 10)
    >>> print(f"t from {found.t.low:.3f} to {found.t.high:.3f}", found.t.holds("6.114"), found.t.holds("6.124"))
    t from 6.107 to 6.122 True False
    """
    _check(float(mean), float(sd), n)
    means = Range(float(mean) - half_unit(mean), float(mean) + half_unit(mean))
    sds = Range(max(0.0, float(sd) - half_unit(sd)), float(sd) + half_unit(sd))
    t = Range(-_largest(-means.low, sds, n), _largest(means.high, sds, n))
    far = max(-t.low, t.high)
    near = 0.0 if t.low <= 0 <= t.high else min(abs(t.low), abs(t.high))
    reach = t_factor(confidence, n) / math.sqrt(n)
    return SummaryRanges(
        t=t,
        p=Range(two_sided(far, n - 1), two_sided(near, n - 1)),
        low=Range(means.low - reach * sds.high, means.high - reach * sds.low),
        high=Range(means.low + reach * sds.low, means.high + reach * sds.high),
    )


def holm_ranges(p_values: Sequence[Range]) -> list[Range]:
    """The ranges of Holm's adjusted p-values: each of them rises, or stays, when any p-value rises."""
    ends = zip(holm([p.low for p in p_values]), holm([p.high for p in p_values]), strict=True)
    return [Range(low, high) for low, high in ends]


def _largest(mean: float, sds: Range, n: int) -> float:
    """The largest t that a mean has, over the standard deviations of a range."""
    sd = sds.low if mean > 0 else sds.high
    return mean / sd * math.sqrt(n) if sd else math.inf  # the upper end is above 0


def _check(mean: float, sd: float, n: int) -> None:
    if not math.isfinite(mean):
        raise ValueError(f"a mean is a number, got {mean!r}")
    if not 0 <= sd < math.inf:
        raise ValueError(f"a standard deviation is a number of 0 or more, got {sd!r}")
    if n < 2:
        raise ValueError(f"statistics need at least 2 seeds, got {n}")
