"""How many seeds: the least that is enough, more for a wider spread or a narrower interval, right on the average."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from reprise.lab.distributions import deviation_limit, t_factor
from reprise.lab.sample_size import seeds_needed
from reprise.lab.statistics import contrast

CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99])
RATIOS = st.floats(1e-3, 1e4)


def half_width(sd: float, n: int, confidence: float) -> float:
    return float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / math.sqrt(n)


@given(RATIOS, CONFIDENCES)
def test_it_is_the_least_that_is_enough(ratio: float, confidence: float) -> None:
    needed = seeds_needed(ratio, 1.0, confidence=confidence).needed
    assert half_width(ratio, needed, confidence) <= 1 + 1e-9
    assert needed == 2 or half_width(ratio, needed - 1, confidence) > 1 - 1e-9


@given(RATIOS, RATIOS, st.integers(2, 40), CONFIDENCES)
def test_more_for_a_wider_spread_or_a_narrower_interval(x: float, y: float, n: int, confidence: float) -> None:
    low, high = sorted((x, y))
    small, large = (seeds_needed(sd, 1.0, confidence=confidence, n=n) for sd in (low, high))
    wide, narrow = (seeds_needed(1.0, width, confidence=confidence, n=n) for width in (high, low))
    for fewer, more in ((small, large), (wide, narrow)):
        assert fewer.needed <= more.needed
        assert fewer.safe is not None
        assert more.safe is not None
        assert fewer.safe <= more.safe
    assert large.more == max(0, large.needed - n)
    if confidence > 0.6:  # below, the limit may be less than the estimate
        assert large.safe is not None
        assert large.safe >= large.needed


def test_an_estimate_from_many_seeds_is_nearly_safe() -> None:
    found = seeds_needed(1.0, 0.1, n=100_000)
    assert found.safe is not None
    assert found.needed <= found.safe <= 1.02 * found.needed
    assert (found.more, found.safe_more) == (0, 0)
    assert seeds_needed(1.0, 0.1).safe is seeds_needed(1.0, 0.1).more is seeds_needed(1.0, 0.1).safe_more is None


def test_limit_of_a_deviation_is_that_of_chi_square() -> None:
    for n in (2, 10, 40):
        for confidence in (0.5, 0.95, 0.99):
            expected = 3 * math.sqrt((n - 1) / scipy.stats.chi2.ppf(1 - confidence, n - 1))
            assert deviation_limit(3.0, n, confidence) == pytest.approx(expected, rel=1e-9)


def test_simulated_intervals_are_as_wide_as_was_asked_for() -> None:
    """Of 400 simulated contrasts of σ 0.7 with the seeds needed for ±0.25, the mean half-width is that, near enough.

    The mean of s is σ (1 − 1/(4n)), a little below σ; its error over 400 contrasts is σ / √(2n · 400).
    """
    sd, width = 0.7, 0.25
    n = seeds_needed(sd, width).needed
    values = np.random.default_rng(7).normal(0.3, sd, (400, n))
    widths = [(found.high - found.low) / 2 for row in values if (found := contrast([(1, dict(enumerate(row)))]))]
    expected = t_factor(0.95, n) * sd * (1 - 1 / (4 * n)) / math.sqrt(n)
    assert np.mean(widths) == pytest.approx(expected, rel=4 / math.sqrt(2 * n * 400))
    assert np.mean(widths) <= width


def test_safe_number_is_enough_as_often_as_it_says() -> None:
    """A standard deviation found from 10 seeds is below its limit in 95 of 100 cases, and the seeds are then enough."""
    rng, trials = np.random.default_rng(8), 2000
    enough = seeds_needed(1.0, 0.4).needed
    pilots = rng.normal(0, 1, (trials, 10)).std(axis=1, ddof=1)
    hits = sum((seeds_needed(float(sd), 0.4, n=10).safe or 0) >= enough for sd in pilots)
    assert hits / trials >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / trials)


def test_without_spread_two_seeds_are_enough() -> None:
    assert seeds_needed(0.0, 0.1, n=5).needed == seeds_needed(0.0, 0.1, n=5).safe == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sd": -1.0, "width": 1.0}, "a standard deviation is a number of 0 or more, got -1.0"),
        ({"sd": math.nan, "width": 1.0}, "a standard deviation is a number of 0 or more, got nan"),
        ({"sd": 1.0, "width": 0.0}, "the width must be a number above 0 and above 1e-09 of sd, got 0.0"),
        ({"sd": 1.0, "width": 1e-12}, "above 1e-09 of sd, got 1e-12"),
        ({"sd": 1.0, "width": math.nan}, "above 1e-09 of sd, got nan"),
        ({"sd": 1.0, "width": 1.0, "n": 1}, "found from 2 seeds or more, got 1"),
        ({"sd": 1.0, "width": 1.0, "confidence": 1}, "confidence must be between 0 and 1, got 1"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        seeds_needed(**arguments)  # type: ignore[arg-type]
