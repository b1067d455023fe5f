"""Paired statistics: the distribution beside SciPy's and formulas, figures by hand, rounding, what is missing named."""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist, fmean

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from reprise.lab.statistics import ROUNDING, holm, paired, t_quantile, two_sided

DEGREES = (1, 2, 3, 4, 9, 19, 39, 100, 999, 1e7, 1e12, 0.5, 2.7)
POINTS = (0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 1.7, 2.262, 3.0, 5.0, 12.0, 50.0, 1e4)
PROBABILITIES = (1e-6, 0.01, 0.025, 0.2, 0.4999, 0.5, 0.7, 0.95, 0.975, 0.995, 0.999999)


@pytest.mark.parametrize("df", DEGREES)
def test_distribution_agrees_with_scipy(df: float) -> None:
    for point in POINTS:
        assert two_sided(point, df) == two_sided(-point, df)
        assert two_sided(point, df) == pytest.approx(2 * scipy.stats.t.sf(point, df), rel=1e-9, abs=1e-12)
    for probability in PROBABILITIES:
        expected = scipy.stats.t.ppf(probability, df)
        assert t_quantile(probability, df) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_distribution_agrees_with_formulas() -> None:
    """Student's t is Cauchy's for one degree of freedom, has a closed form for two, and nears the normal for many."""
    for t in (1e-3, 0.5, 2.0, 50.0, 1e4):
        assert two_sided(t, 1) == pytest.approx(2 * math.atan2(1, t) / math.pi, rel=1e-12)
        # 1 − t/√(2 + t²), without the loss of digits
        assert two_sided(t, 2) == pytest.approx(2 / (math.hypot(t, math.sqrt(2)) * (math.hypot(t, math.sqrt(2)) + t)))
    for probability in (0.01, 0.7, 0.975):
        assert t_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)))
        normal = NormalDist().inv_cdf(probability)
        for df in (1e5, 1e6, 1e7, 1e9, 1e12, 1e15, 1e100):  # Cornish and Fisher's expansion, good to 1/df²
            expected = normal + (normal**3 + normal) / (4 * df)
            assert t_quantile(probability, df) == pytest.approx(expected, rel=1e-12, abs=20 / df**2)


def test_quantile_of_nine_degrees_is_the_paper_s() -> None:
    assert f"{t_quantile(0.975, 9):.3f}" == "2.262"


def test_infinite_t_has_no_tail() -> None:
    assert two_sided(math.inf, 3) == two_sided(-math.inf, 3) == 0


@given(
    st.lists(
        st.tuples(st.floats(-100, 100, allow_subnormal=False), st.floats(1, 100, allow_subnormal=False)),
        min_size=2,
        max_size=12,
    )
)
def test_pairs_agree_with_scipy(values: list[tuple[float, float]]) -> None:
    a, b = ({seed: pair[side] for seed, pair in enumerate(values)} for side in (0, 1))
    found = paired(a, b)
    differences = [x - y for x, y in values]
    assert (found.n, found.positive) == (
        len(values),
        sum(d > ROUNDING * (abs(x) + y) for d, (x, y) in zip(differences, values, strict=True)),
    )
    assert found.mean == pytest.approx(sum(differences) / len(values), abs=1e-9)
    assert found.relative == pytest.approx(found.mean / (sum(y for _, y in values) / len(values)))
    if found.sd < 1e-9:  # SciPy loses digits here; the laws of rounding below do not
        return
    theirs = scipy.stats.ttest_rel([x for x, _ in values], [y for _, y in values])
    assert found.t == pytest.approx(theirs.statistic, rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)
    interval = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9, abs=1e-9)


def test_pairs_by_hand() -> None:
    found = paired({1: 12.0, 2: 14.0, 3: 13.0}, {3: 12.0, 1: 10.0, 2: 11.0})  # differences 2, 3, 1
    assert (found.n, found.mean, found.sd, found.positive) == (3, 2.0, 1.0, 3)
    assert found.t == pytest.approx(2 * math.sqrt(3))
    assert found.high - found.low == pytest.approx(2 * 4.302652729911275 / math.sqrt(3))
    assert found.relative == pytest.approx(2 / 11)
    assert not found.clear
    assert not found.material
    assert found.missing == ""


def test_wider_interval_for_more_confidence() -> None:
    a, b = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 0.5, 2: 1.0}
    narrow, usual, wide = (paired(a, b, confidence=share) for share in (0.5, 0.95, 0.99))
    assert wide.low < usual.low < narrow.low < usual.mean < narrow.high < usual.high < wide.high


@pytest.mark.parametrize(
    ("differences", "clear", "material"),
    [
        ((0.5, 0.6, 0.7), True, False),  # clear of 0, and 0.6 % of 100
        ((5.0, 6.0, 7.0), True, True),
        ((-5.0, -6.0, -7.0), True, True),
        ((-5.0, 6.0, 20.0), False, False),  # 7 %, and anywhere
    ],
)
def test_material_is_clear_and_large(differences: tuple[float, ...], clear: bool, material: bool) -> None:
    found = paired({s: 100 + d for s, d in enumerate(differences)}, dict.fromkeys(range(3), 100.0))
    assert (found.clear, found.material) == (clear, material)


def test_equal_differences_have_no_t() -> None:
    apart, same = paired({0: 3.0, 1: 4.0}, {0: 1.0, 1: 2.0}), paired({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    assert (apart.t, apart.p, apart.low, apart.high, apart.clear) == (None, 0.0, 2.0, 2.0, True)
    assert (same.t, same.p, same.low, same.high, same.clear) == (None, 1.0, 0.0, 0.0, False)


@pytest.mark.parametrize(
    ("a", "b", "mean"),
    [
        ((0.3, 0.4), (0.1, 0.2), 0.2),  # 0.19999999999999998 and 0.2
        ((0.1 + 0.2, 0.3), (0.3, 0.3), 0.0),
        ((0.1 + 0.2, 0.1 + 0.7, 0.5), (0.3, 0.8, 0.5), 0.0),
        ((0.6871, 0.6712, 0.6804), (0.6371, 0.6212, 0.6304), 0.05),
        ((1e-200 + 1e-202, 2e-200 + 1e-202), (1e-200, 2e-200), 1e-202),
        ((1e16 + 2, 1.0, 1.0), (1e16, 0.0, 0.0), 1.0),  # the first is known to a few units only
    ],
)
def test_differences_equal_but_for_rounding_have_no_t(a: tuple[float, ...], b: tuple[float, ...], mean: float) -> None:
    found, back = paired(dict(enumerate(a)), dict(enumerate(b))), paired(dict(enumerate(b)), dict(enumerate(a)))
    assert (found.t, found.sd, found.p) == (back.t, back.sd, back.p) == (None, 0.0, float(mean == 0))
    assert found.mean == found.low == found.high == pytest.approx(mean, rel=1e-12, abs=0)
    assert -back.mean == found.mean
    assert found.clear == back.clear == (mean > 0)


SIZES = st.sampled_from([1e-280, 1e-12, 0.01, 1.0, 100.0, 1e9, 1e280])
VALUES = st.floats(-1, 1)


@given(st.lists(VALUES, min_size=2, max_size=8), VALUES, SIZES, SIZES, st.randoms(use_true_random=False))
def test_one_shift_of_all_values_has_no_t(shares: list[float], share: float, size: float, by: float, random) -> None:  # type: ignore[no-untyped-def]
    """Pairs (v + c, v) differ in rounding alone, whatever v and c, and in whatever order they come."""
    values, shift = {seed: size * one for seed, one in enumerate(shares)}, by * share
    moved = {seed: value + shift for seed, value in values.items()}
    found = paired(moved, values)
    assert (found.t, found.sd) == (None, 0.0)
    assert found.mean == found.low == found.high
    rounded = min(ROUNDING * (abs(moved[seed]) + abs(values[seed])) for seed in values)
    assert found.mean == pytest.approx(shift, rel=0, abs=2 * rounded + 4 * sys.float_info.min)
    assert found.p == float(found.mean == 0) == float(not found.clear)
    assert found.positive in ((0,) if found.mean <= 0 else range(len(values) + 1))
    seeds = list(values)
    random.shuffle(seeds)
    assert paired({seed: moved[seed] for seed in seeds}, values) == found


@given(st.lists(VALUES, min_size=2, max_size=8), VALUES, SIZES, st.floats(8, 1e6), st.integers(0, 7))
def test_what_differs_by_more_than_rounding_has_a_t(
    shares: list[float], share: float, size: float, times: float, which: int
) -> None:
    """One pair moved by eight times the rounding of the largest values, or by more, and t is what exact sums give."""
    values = {seed: size * one for seed, one in enumerate(shares)}
    moved = {seed: value + size * share for seed, value in values.items()}
    largest = max(abs(one) for one in (size * 1e-3, *values.values(), *moved.values()))
    moved[which % len(values)] += times * 2 * ROUNDING * largest
    found = paired(moved, values)
    exact = [Fraction(moved[seed] - values[seed]) for seed in values]
    mean = sum(exact) / len(exact)
    square = mean * mean * len(exact) * (len(exact) - 1) / sum((one - mean) ** 2 for one in exact)
    assert found.t is not None
    assert found.sd > 0
    if abs(mean) <= ROUNDING * fmean(abs(moved[seed]) + abs(values[seed]) for seed in values):
        assert (found.mean, found.t, found.p) == (0, 0, 1)
    else:
        assert found.t == pytest.approx(math.copysign(math.sqrt(square), mean), rel=1e-9)


def test_mean_of_zero_but_for_rounding_is_zero() -> None:
    found = paired({0: 0.01, 1: 0.02, 2: 0.01}, {0: 0.01, 1: 0.015, 2: 0.015})  # 0, 0.005 and −0.005
    assert (found.mean, found.t, found.p, found.positive) == (0, 0, pytest.approx(1), 1)
    assert -found.low == found.high > 0
    assert fmean((0.01 - 0.01, 0.02 - 0.015, 0.01 - 0.015)) != 0


def test_two_pairs_have_one_degree_of_freedom() -> None:
    found = paired({0: 3.0, 1: 5.0}, {0: 2.0, 1: 2.0})  # differences 1 and 3: mean 2, standard error 1
    assert (found.t, found.positive) == (pytest.approx(2), 2)
    assert found.p == pytest.approx(2 * math.atan2(1, 2) / math.pi)
    assert found.high - found.mean == pytest.approx(math.tan(math.pi * 0.475))


def test_many_pairs_have_the_normal_s_interval() -> None:
    n = 200_000
    found = paired({key: float(key % 2) for key in range(n)}, dict.fromkeys(range(n), 0.25))
    assert (found.n, found.mean, found.positive) == (n, 0.25, n // 2)
    assert found.high - found.mean == pytest.approx(1.95996398 * 0.5 / math.sqrt(n), rel=1e-4)
    assert found.p == 0


@pytest.mark.parametrize("confidence", [1e-300, 0.5, 1 - 2**-53])
def test_every_confidence_has_an_interval(confidence: float) -> None:
    found = paired({0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 0.5, 2: 1.0}, confidence=confidence)
    assert -math.inf < found.low <= found.mean <= found.high < math.inf


def test_no_relative_effect_beside_nothing() -> None:
    found = paired({0: 1.0, 1: 1.5}, {0: 0.0, 1: 0.0})
    assert found.relative is None
    assert not found.material
    rounded = {0: 0.1 + 0.2, 1: -0.3}  # their mean is 3e-17
    assert paired({0: 1.0, 1: 1.5}, rounded).relative is None
    assert fmean(rounded.values()) != 0


def test_missing_pairs_are_named() -> None:
    found = paired({0: 1.0, 1: 2.0, 2: 3.0, 5: None}, {1: 1.0, 2: 1.5, 4: 9.0, 5: 2.0})
    assert found.n == 2
    assert (found.without_a, found.without_b) == ((4, 5), (0,))
    assert found.missing == "a has no value for 4, 5; b has no value for 0"


def test_too_few_pairs_is_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match=r"at least 2 pairs, got 1: a has no value for 7; b has no value for 3, 4$"):
        paired({0: 1.0, 3: 2.0, 4: 1.0}, {0: 1.0, 7: 2.0})
    with pytest.raises(ValueError, match=r"at least 2 pairs, got 0$"):
        paired({}, {})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_value_that_is_no_number_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"b has {bad} for 1")):
        paired({0: 1.0, 1: 1.0}, {0: 1.0, 1: bad})


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.02, 1.0])), max_size=6))
def test_holm_is_the_closed_test_of_bonferroni_s(p_values: list[float]) -> None:
    """A hypothesis is rejected if Bonferroni's test rejects every set of hypotheses that it belongs to."""
    sets = [one for size in range(1, len(p_values) + 1) for one in combinations(range(len(p_values)), size)]
    bonferroni = {one: min(1.0, len(one) * min(p_values[place] for place in one)) for one in sets}
    expected = [max(p for one, p in bonferroni.items() if place in one) for place in range(len(p_values))]
    assert holm(p_values) == expected


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    said = (
        r"^paired statistics need SciPy, which is not installed; the extra 'stats' brings it: pip install '\.\[stats\]'"
    )
    with pytest.raises(ModuleNotFoundError, match=said):
        paired({0: 1.0, 1: 2.0}, {0: 0.0, 1: 0.5})
    assert holm([0.1]) == [0.1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: holm([0.5, 1.5]), "a p-value lies between 0 and 1, got 1.5"),
        (lambda: t_quantile(1.0, 3), "probability must be between 0 and 1, got 1.0"),
        (lambda: holm([math.nan]), "a p-value lies between 0 and 1, got nan"),
        (lambda: two_sided(1.0, 0), "degrees of freedom must be a number above 0, got 0"),
        (lambda: t_quantile(0.5, math.nan), "degrees of freedom must be a number above 0, got nan"),
        (lambda: two_sided(math.nan, 3), "t must be a number, got nan"),
        (lambda: paired({0: 1, 1: 2}, {0: 1, 1: 1}, confidence=1.0), "confidence must be between 0 and 1, got 1.0"),
    ],
)
def test_bad_values_are_named(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=said):
        call()
