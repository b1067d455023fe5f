"""Statistics of pairs: the mean difference of two arms over seeds, its Student-t interval, and Holm's correction.

Needs SciPy, which comes with the extra `stats`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

from reprise.core.extras import NotInstalled, not_installed

Key = TypeVar("Key", bound=Hashable)

MATERIAL = 0.02
"""A relative effect beyond this, with an interval that excludes 0, is called material."""
ROUNDING = 2.0**-50
"""How much of its size a value may owe to rounding: eight times what one operation on floats may round off.

So a difference a − b is known to within 2⁻⁵⁰ (|a| + |b|), and differences are equal if one number lies that near to
all of them: 0.3 − 0.1 and 0.4 − 0.2 are, 0.3 − 0.1 and 0.4 − 0.2000000000001 are not.
"""

_LARGEST = 1e290  # so that neither differences nor their sums can be infinite


@dataclass(frozen=True)
class Paired:
    """What a difference a − b of pairs amounts to; the pairs share a key, such as the seed of a run."""

    n: int
    """Pairs."""
    mean: float
    """Mean of the differences a − b; 0 where it is 0 but for rounding."""
    sd: float
    """Their standard deviation, with n − 1 below the line; 0 where all are equal but for rounding."""
    t: float | None
    """Mean over its standard error; None where all differences are equal but for rounding."""
    p: float
    """Two-sided probability of such a t by chance; where there is no t, 1 if all differences are 0 and 0 if not."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    confidence: float
    """How often such intervals hold the true mean."""
    positive: int
    """Pairs whose difference is above 0, by more than rounding."""
    relative: float | None
    """The mean difference over the mean of b; None where that mean is 0 but for rounding."""
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
    slack = [_slack(abs(first[key]) + abs(second[key])) for key in keys]
    n, mean, t = len(keys), fmean(differences), None
    if abs(mean) <= fmean(slack):
        mean = 0.0
    # The numbers that all differences may be but for rounding, if there are any.
    least = max(difference - much for difference, much in zip(differences, slack, strict=True))
    most = min(difference + much for difference, much in zip(differences, slack, strict=True))
    if least <= most:
        mean = min(max(mean, least), most)
        sd = half = 0.0
    else:
        sd = _deviation(differences)
        error = sd / math.sqrt(n)
        t, half = mean / error, -t_quantile((1 - confidence) / 2, n - 1) * error
    base = fmean(second[key] for key in keys)
    size = fmean(abs(second[key]) for key in keys)
    return Paired(
        n=n,
        mean=mean,
        sd=sd,
        t=t,
        p=two_sided(t, n - 1) if t is not None else float(mean == 0),
        low=mean - half,
        high=mean + half,
        confidence=confidence,
        positive=sum(difference > much for difference, much in zip(differences, slack, strict=True)),
        relative=mean / base if abs(base) > _slack(size) else None,
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


def two_sided(t: float, df: float) -> float:
    """The probability that Student's t with `df` degrees of freedom is as far from 0 as t."""
    if math.isnan(t):
        raise ValueError("t must be a number, got nan")
    return 2 * float(_special().stdtr(_degrees(df), -abs(t)))


def t_quantile(probability: float, df: float) -> float:
    """The value that Student's t with `df` degrees of freedom stays below with this probability.

    >>> round(t_quantile(0.975, 9), 3)
    2.262
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
    return float(_special().stdtrit(_degrees(df), probability))


def _degrees(df: float) -> float:
    if not 0 < df < math.inf:
        raise ValueError(f"degrees of freedom must be a number above 0, got {df!r}")
    return df


def _special() -> Any:
    """SciPy's distributions, or a sentence that says how to get them; `scipy.stats` has them too, and takes seconds."""
    try:
        import scipy.special
    except ModuleNotFoundError as error:
        if error.name not in ("scipy", "scipy.special"):
            raise
        raise NotInstalled(not_installed("paired statistics need SciPy", "stats"), name="scipy") from None
    return scipy.special


def _slack(size: float) -> float:
    """What rounding may have done to a sum of values of this size; never below the least number of full precision."""
    return ROUNDING * size + sys.float_info.min


def _deviation(values: Sequence[float]) -> float:
    """Their standard deviation, of any size: squares of small numbers would vanish, and of large ones overflow."""
    exponent = math.frexp(max(map(abs, values)))[1]
    return math.ldexp(stdev(math.ldexp(value, -exponent) for value in values), exponent)


def _values(arm: Mapping[Key, float | None], name: str) -> dict[Key, float]:
    found = {key: float(value) for key, value in arm.items() if value is not None}
    for key, value in found.items():
        if not abs(value) <= _LARGEST:
            raise ValueError(
                f"values must be numbers up to {_LARGEST:g} in size, or None where there is none; "
                f"{name} has {value} for {key!r}"
            )
    return found


def _missing(without_a: Sequence[Hashable], without_b: Sequence[Hashable]) -> str:
    parts = [
        f"{name} has no value for {', '.join(map(str, keys))}"
        for name, keys in (("a", without_a), ("b", without_b))
        if keys
    ]
    return "; ".join(parts)
