"""Statistics of pairs: the mean difference of two arms over seeds, its Student-t interval, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

MATERIAL = 0.02
"""A relative effect beyond this, with an interval that excludes 0, is called material."""


@dataclass(frozen=True)
class Paired:
    """What a difference a − b of pairs amounts to; the pairs share a key, such as the seed of a run."""

    n: int
    """Pairs."""
    mean: float
    """Mean of the differences a − b."""
    sd: float
    """Their standard deviation, with n − 1 below the line."""
    t: float | None
    """Mean over its standard error; None where all differences are equal."""
    p: float
    """Two-sided probability of such a t by chance; where all differences are equal, 1 if they are 0 and 0 if not."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    confidence: float
    """How often such intervals hold the true mean."""
    positive: int
    """Pairs whose difference is above 0."""
    relative: float | None
    """The mean difference over the mean of b; None where that mean is 0."""
    without_a: tuple[Hashable, ...]
    """Keys of b that have no value in a: pairs that are missing."""
    without_b: tuple[Hashable, ...]
    """Keys of a that have no value in b."""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def material(self) -> bool:
        """Whether the interval excludes 0 and the mean difference is more than 2% of b's mean."""
        return self.clear and self.relative is not None and abs(self.relative) > MATERIAL

    @property
    def missing(self) -> str:
        """A sentence that names the missing pairs; empty if there are none."""
        return _missing(self.without_a, self.without_b)


def paired(a: Mapping[Key, float | None], b: Mapping[Key, float | None], *, confidence: float = 0.95) -> Paired:
    """Compare two arms pair by pair; each maps a key, such as a seed, to its value, or to None if it has none.

    A key with a value in one arm alone is a missing pair: it takes no part, and the result names it.

    >>> found = paired({0: 0.20, 1: 0.23, 2: 0.21}, {0: 0.18, 1: 0.20, 2: 0.20})
    >>> print(f"{found.mean:+.3f} from {found.low:+.3f} to {found.high:+.3f}, {found.positive} of {found.n} above 0")
    +0.020 from -0.005 to +0.045, 3 of 3 above 0
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    first, second = _values(a, "a"), _values(b, "b")
    keys = [key for key in first if key in second]
    without_a = tuple(key for key in second if key not in first)
    without_b = tuple(key for key in first if key not in second)
    if len(keys) < 2:
        said = f"paired statistics need at least 2 pairs, got {len(keys)}"
        raise ValueError(f"{said}: {note}" if (note := _missing(without_a, without_b)) else said)
    differences = [first[key] - second[key] for key in keys]
    n, mean, sd = len(keys), fmean(differences), stdev(differences)
    error = sd / math.sqrt(n)
    t = mean / error if error else None
    half = t_quantile((1 + confidence) / 2, n - 1) * error
    base = fmean(second[key] for key in keys)
    return Paired(
        n=n,
        mean=mean,
        sd=sd,
        t=t,
        p=two_sided(t, n - 1) if t is not None else float(mean == 0),
        low=mean - half,
        high=mean + half,
        confidence=confidence,
        positive=sum(difference > 0 for difference in differences),
        relative=mean / base if base else None,
        without_a=without_a,
        without_b=without_b,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of a family of tests, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value lies between 0 and 1, got {p!r}")
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def t_cdf(t: float, df: float) -> float:
    """The probability that Student's t with `df` degrees of freedom is at most t."""
    tail = two_sided(t, df) / 2
    return 1 - tail if t > 0 else tail


def two_sided(t: float, df: float) -> float:
    """The probability that Student's t with `df` degrees of freedom is as far from 0 as t."""
    if not df > 0 or math.isinf(df):
        raise ValueError(f"degrees of freedom must be a number above 0, got {df!r}")
    if math.isnan(t):
        raise ValueError("t must be a number, got nan")
    if math.isinf(t):
        return 0.0
    # Both shares are given, since 1 − x would lose the digits of a small one.
    square = t * t
    return _incomplete_beta(df / (df + square), square / (df + square), df / 2, 0.5)


def t_quantile(probability: float, df: float) -> float:
    """The value that Student's t with `df` degrees of freedom stays below with this probability.

    >>> round(t_quantile(0.975, 9), 3)
    2.262
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
    both = 2 * min(probability, 1 - probability)  # of the two tails beyond ±t
    low, high = 0.0, 1.0
    while two_sided(high, df) > both:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:  # until no number lies between
        low, high = (middle, high) if two_sided(middle, df) > both else (low, middle)
    return high if probability > 0.5 else -high if probability < 0.5 else 0.0


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at x = 1 − rest."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, its mirror image does not
        return 1 - _incomplete_beta(rest, x, b, a)
    scale = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale) / a * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """The function's continued fraction, front to back (Lentz's method as modified by Thompson and Barnett)."""
    tiny = 1e-300
    upper, lower = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = lower
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            upper = (1 + term / upper) or tiny
            lower = 1 / ((1 + term * lower) or tiny)
            value *= upper * lower
        if abs(upper * lower - 1) < 1e-16:
            break
    return value


def _values(arm: Mapping[Key, float | None], name: str) -> dict[Key, float]:
    found = {key: float(value) for key, value in arm.items() if value is not None}
    for key, value in found.items():
        if not math.isfinite(value):
            raise ValueError(f"values must be finite, or None where there is none; {name} has {value} for {key!r}")
    return found


def _missing(without_a: Sequence[Hashable], without_b: Sequence[Hashable]) -> str:
    parts = [
        f"{name} has no value for {', '.join(map(str, keys))}"
        for name, keys in (("a", without_a), ("b", without_b))
        if keys
    ]
    return "; ".join(parts)
