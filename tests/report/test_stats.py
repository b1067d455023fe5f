"""Paired statistics: the distribution beside SciPy's, the figures by hand, and what is missing named."""

from __future__ import annotations

import math
import random

import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from reprise.report.stats import holm, paired, t_cdf, t_quantile, two_sided

DEGREES = (1, 2, 3, 4, 9, 19, 39, 100, 999, 0.5, 2.7)
POINTS = (0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 1.7, 2.262, 3.0, 5.0, 12.0, 50.0, 1e4)


@pytest.mark.parametrize("df", DEGREES)
def test_distribution_agrees_with_scipy(df: float) -> None:
    for point in POINTS:
        for t in (point, -point):
            assert t_cdf(t, df) == pytest.approx(scipy.stats.t.cdf(t, df), abs=1e-9)
        # Small tails keep their digits: a tail is compared in proportion. SciPy's own t gives up some of them, its
        # incomplete beta function does not.
        expected = scipy.special.betainc(df / 2, 0.5, df / (df + point * point))
        assert two_sided(point, df) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("df", DEGREES)
def test_quantile_agrees_with_scipy(df: float) -> None:
    for probability in (1e-6, 0.01, 0.025, 0.2, 0.4999, 0.5, 0.7, 0.95, 0.975, 0.995, 0.999999):
        expected = scipy.stats.t.ppf(probability, df)
        assert t_quantile(probability, df) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_quantile_of_nine_degrees_is_the_paper_s() -> None:
    assert f"{t_quantile(0.975, 9):.3f}" == "2.262"


def test_infinite_t_has_no_tail() -> None:
    assert two_sided(math.inf, 3) == 0
    assert (t_cdf(math.inf, 3), t_cdf(-math.inf, 3)) == (1, 0)


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
    assert (found.n, found.positive) == (len(values), sum(d > 0 for d in differences))
    assert found.mean == pytest.approx(sum(differences) / len(values), abs=1e-9)
    assert found.relative == pytest.approx(found.mean / (sum(y for _, y in values) / len(values)))
    if found.sd < 1e-9:
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


def test_no_relative_effect_beside_nothing() -> None:
    found = paired({0: 1.0, 1: 1.5}, {0: 0.0, 1: 0.0})
    assert found.relative is None
    assert not found.material


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


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_value_that_is_no_number_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match=f"b has {bad} for 1"):
        paired({0: 1.0, 1: 1.0}, {0: 1.0, 1: bad})


def test_holm_agrees_with_its_definition() -> None:
    source = random.Random(0)
    for size in range(8):
        p_values = [round(source.random() ** 3, 2) for _ in range(size)]
        adjusted = holm(p_values)
        # The definition: at level α, hypotheses are rejected in order of p as long as p(k) ≤ α / (m − k + 1).
        for level in (0.01, 0.05, 0.1, 0.3, 0.9):
            rejected = set()
            for rank, place in enumerate(sorted(range(size), key=lambda place: p_values[place])):
                if (size - rank) * p_values[place] > level:
                    break
                rejected.add(place)
            assert rejected == {place for place in range(size) if adjusted[place] <= level}
        assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: holm([0.5, 1.5]), "a p-value lies between 0 and 1, got 1.5"),
        (lambda: t_quantile(1.0, 3), "probability must be between 0 and 1, got 1.0"),
        (lambda: t_cdf(1.0, 0), "degrees of freedom must be a number above 0, got 0"),
        (lambda: two_sided(math.nan, 3), "t must be a number, got nan"),
        (lambda: paired({0: 1, 1: 2}, {0: 1, 1: 1}, confidence=1.0), "confidence must be between 0 and 1, got 1.0"),
    ],
)
def test_bad_values_are_named(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=said):
        call()
