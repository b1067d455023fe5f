"""Statistics over seeds: contrasts of arms, pair by pair, their Student-t intervals, and Holm's correction.

Needs SciPy, which comes with the extra `stats`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

from reprise.lab.distributions import checked_confidence, t_factor, t_quantile, two_sided

__all__ = ["Contrast", "Paired", "contrast", "holm", "holm_by_family", "paired", "t_quantile", "two_sided"]

Key = TypeVar("Key", bound=Hashable)
Arm = Mapping[Key, "float | None"]
"""The values of an arm by key, such as a seed; None where there is no value."""

MATERIAL = 0.02
"""A relative effect beyond this, with an interval that excludes 0, is called material."""
ROUNDING = 2.0**-50
"""How much of its size a value may owe to rounding: eight times what one operation on floats may round off.

So a difference a − b is known to within 2⁻⁵⁰ (|a| + |b|), and differences are equal if one number lies that near to
all of them: 0.3 − 0.1 and 0.4 − 0.2 are, 0.3 − 0.1 and 0.4 − 0.2000000000001 are not.
"""

_LARGEST = 1e290  # so that neither differences nor their sums can be infinite
_LARGEST_WEIGHT = 1e6


@dataclass(frozen=True)
class Contrast:
    """What a sum of weighted arms amounts to, key by key; a key is what the arms share, such as the seed of a run."""

    n: int
    """Keys that have a value in every term."""
    mean: float
    """Mean of the sums; 0 where it is 0 but for rounding."""
    sd: float
    """Their standard deviation, with n − 1 below the line; 0 where all are equal but for rounding."""
    t: float | None
    """Mean over its standard error; None where all sums are equal but for rounding."""
    p: float
    """Two-sided probability of such a t by chance; where there is no t, 1 if all sums are 0 and 0 if not."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    confidence: float
    """How often such intervals hold the true mean."""
    positive: int
    """Keys whose sum is above 0, by more than rounding."""
    relative: float | None
    """Of a plain difference, the mean over the mean of the arm taken off; None where that is 0 but for rounding."""
    names: tuple[str, ...]
    """What the terms are called."""
    without: tuple[tuple[Hashable, ...], ...]
    """For each term, the keys of others that have no value in it: they take no part."""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def material(self) -> bool:
        """Whether the interval excludes 0 and a plain difference is more than 2% of the mean of the arm taken off."""
        return self.clear and self.relative is not None and abs(self.relative) > MATERIAL

    @property
    def missing(self) -> str:
        """A sentence that names the missing keys, term by term; empty if there are none."""
        return _missing(self.names, self.without)


@dataclass(frozen=True)
class Paired(Contrast):
    """A contrast that is the difference a − b of pairs."""

    @property
    def without_a(self) -> tuple[Hashable, ...]:
        """Keys of b that have no value in a: pairs that are missing."""
        return self.without[0]

    @property
    def without_b(self) -> tuple[Hashable, ...]:
        """Keys of a that have no value in b."""
        return self.without[1]


def paired(a: Arm[Key], b: Arm[Key], *, confidence: float = 0.95) -> Paired:
    """Compare two arms pair by pair; each maps a key, such as a seed, to its value, or to None if it has none.

    A key with a value in one arm alone is a missing pair: it takes no part, and the result names it.

    >>> found = paired({0: 0.20, 1: 0.23, 2: 0.21}, {0: 0.18, 1: 0.20, 2: 0.20})
    >>> print(f"{found.mean:+.3f} from {found.low:+.3f} to {found.high:+.3f}, {found.positive} of {found.n} above 0")
    +0.020 from -0.005 to +0.045, 3 of 3 above 0
    """
    return Paired(**vars(contrast([(1, a), (-1, b)], names=("a", "b"), confidence=confidence)))


def contrast(
    terms: Sequence[tuple[float, Arm[Key]]], *, names: Sequence[str] | None = None, confidence: float = 0.95
) -> Contrast:
    """Add up weighted arms key by key, and say how far the mean of these sums is from 0.

    A term is a weight and an arm. A difference has the weights 1 and −1, an effect averaged over two halves ½, ½, −½
    and −½, and an interaction, a difference of differences, 1, −1, −1 and 1. A key without a value in some term takes
    no part, and the result names it; `names` are what the terms are called there.

    >>> iid, rpr = {0: 0.20, 1: 0.22, 2: 0.21}, {0: 0.22, 1: 0.25, 2: 0.22}
    >>> iid_masked, rpr_masked = {0: 0.30, 1: 0.31, 2: 0.29}, {0: 0.34, 1: 0.36, 2: 0.32}
    >>> found = contrast([(1, rpr_masked), (-1, iid_masked), (-1, rpr), (1, iid)])
    >>> print(f"{found.mean:+.3f} from {found.low:+.3f} to {found.high:+.3f}")
    +0.020 from +0.020 to +0.020
    """
    checked_confidence(confidence)
    names = tuple(names) if names is not None else tuple(f"term {number}" for number in range(1, len(terms) + 1))
    if not terms or len(names) != len(terms):
        raise ValueError(f"a contrast has one term or more, each with a name; got {len(terms)} and {len(names)} names")
    weights = [_weight(weight) for weight, _ in terms]
    arms = [_values(arm, name) for (_, arm), name in zip(terms, names, strict=True)]
    known = dict.fromkeys(key for arm in arms for key in arm)
    keys = [key for key in known if all(key in arm for arm in arms)]
    without = tuple(tuple(key for key in known if key not in arm) for arm in arms)
    if len(keys) < 2:
        what = "pairs" if len(terms) == 2 else "keys with a value in every term"
        said = f"paired statistics need at least 2 {what}, got {len(keys)}"
        raise ValueError(f"{said}: {note}" if (note := _missing(names, without)) else said)
    parts = [[weight * arm[key] for weight, arm in zip(weights, arms, strict=True)] for key in keys]
    sums = [math.fsum(part) for part in parts]
    slack = [_slack(math.fsum(map(abs, part))) for part in parts]
    n, mean, t = len(keys), fmean(sums), None
    if abs(mean) <= fmean(slack):
        mean = 0.0
    # The numbers that all sums may be but for rounding, if there are any.
    least = max(value - much for value, much in zip(sums, slack, strict=True))
    most = min(value + much for value, much in zip(sums, slack, strict=True))
    if least <= most:
        mean = min(max(mean, least), most)
        sd = half = 0.0
    else:
        sd = _deviation(sums)
        error = sd / math.sqrt(n)
        t, half = mean / error, t_factor(confidence, n) * error
    taken_off = arms[weights.index(-1)] if sorted(weights) == [-1, 1] else None
    return Contrast(
        n=n,
        mean=mean,
        sd=sd,
        t=t,
        p=two_sided(t, n - 1) if t is not None else float(mean == 0),
        low=mean - half,
        high=mean + half,
        confidence=confidence,
        positive=sum(value > much for value, much in zip(sums, slack, strict=True)),
        relative=None if taken_off is None else _relative(mean, [taken_off[key] for key in keys]),
        names=names,
        without=without,
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
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def holm_by_family(families: Sequence[str | None], p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values of tests of several families, in the order given.

    A test of no family (None) has no adjusted p-value. A test without a p-value is left out, and does not count.

    >>> holm_by_family(["draw", "seam", None, "draw", "draw"], [0.01, 0.04, 0.02, 0.03, None])
    [0.02, 0.04, None, 0.03, None]
    """
    adjusted: list[float | None] = [None] * len(p_values)
    members: dict[str, dict[int, float]] = {}
    for index, (family, p) in enumerate(zip(families, p_values, strict=True)):
        if family is not None and p is not None:
            members.setdefault(family, {})[index] = p
    for found in members.values():
        for index, p in zip(found, holm(list(found.values())), strict=True):
            adjusted[index] = p
    return adjusted


def _weight(weight: float) -> float:
    if not 0 < abs(weight) <= _LARGEST_WEIGHT:
        raise ValueError(f"a weight is a number up to {_LARGEST_WEIGHT:g} in size and not 0, got {weight!r}")
    return float(weight)


def _relative(mean: float, values: Sequence[float]) -> float | None:
    base = fmean(values)
    return mean / base if abs(base) > _slack(fmean(map(abs, values))) else None


def _slack(size: float) -> float:
    """What rounding may have done to a sum of values of this size; never below the least number of full precision."""
    return ROUNDING * size + sys.float_info.min


def _deviation(values: Sequence[float]) -> float:
    """Their standard deviation, of any size: squares of small numbers would vanish, and of large ones overflow."""
    exponent = math.frexp(max(map(abs, values)))[1]
    return math.ldexp(stdev(math.ldexp(value, -exponent) for value in values), exponent)


def _values(arm: Arm[Key], name: str) -> dict[Key, float]:
    found = {key: float(value) for key, value in arm.items() if value is not None}
    for key, value in found.items():
        if not abs(value) <= _LARGEST:
            raise ValueError(
                f"values must be numbers up to {_LARGEST:g} in size, or None where there is none; "
                f"{name} has {value} for {key!r}"
            )
    return found


def _missing(names: Sequence[str], without: Sequence[Sequence[Hashable]]) -> str:
    parts = [
        f"{name} has no value for {', '.join(map(str, keys))}"
        for name, keys in zip(names, without, strict=True)
        if keys
    ]
    return "; ".join(parts)
