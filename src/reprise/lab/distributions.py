"""Student's t and the limit of a standard deviation, by SciPy, which comes with the extra `stats`."""

from __future__ import annotations

import math
from typing import Any

from reprise.core.extras import NotInstalled, not_installed


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


def t_factor(confidence: float, n: int) -> float:
    """How many standard errors an interval from n values reaches to either side of their mean.

    >>> round(t_factor(0.95, 10), 3)
    2.262
    """
    return -t_quantile((1 - checked_confidence(confidence)) / 2, n - 1)


def deviation_limit(sd: float, n: int, confidence: float = 0.95) -> float:
    """What the true standard deviation stays below with this confidence, where n values show `sd`.

    The values are taken as normal: (n − 1) sd² over the true variance has the χ² distribution.

    >>> round(deviation_limit(1.0, 10), 3)
    1.645
    """
    degrees = _degrees(n - 1)
    return sd * math.sqrt(degrees / float(_special().chdtri(degrees, checked_confidence(confidence))))


def deviation_interval(sd: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a true standard deviation where n values, taken as normal, show `sd`.

    >>> low, high = deviation_interval(1.0, 10)
    >>> round(low, 3), round(high, 3)
    (0.688, 1.826)
    """
    beyond = (1 - checked_confidence(confidence)) / 2
    return deviation_limit(sd, n, beyond), deviation_limit(sd, n, 1 - beyond)


def checked_confidence(confidence: float) -> float:
    """A confidence, if it is between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    return confidence


def _degrees(df: float) -> float:
    if not 0 < df < math.inf:
        raise ValueError(f"degrees of freedom must be a number above 0, got {df!r}")
    return df


def lacking() -> str:
    """Why comparisons cannot be made here, in words; empty if they can."""
    try:
        _special()
    except ImportError as error:  # not installed, or installed and broken
        return str(error)
    return ""


def _special() -> Any:
    """SciPy's distributions, or a sentence that says how to get them; `scipy.stats` has them too, and takes seconds."""
    try:
        import scipy.special
    except ModuleNotFoundError as error:
        if error.name not in ("scipy", "scipy.special"):
            raise
        raise NotInstalled(not_installed("paired statistics need SciPy", "stats"), name="scipy") from None
    return scipy.special
