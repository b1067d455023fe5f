"""Contrasts of several arms: pairs are their two-term case, weights are laws of algebra, what is missing is named."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.lab.statistics import contrast, holm, holm_by_family, paired

A, B = {0: 0.31, 1: 0.35, 2: 0.30, 3: 0.33}, {0: 0.27, 1: 0.30, 2: 0.29, 3: 0.28}
C, D = {0: 0.22, 1: 0.21, 2: 0.25, 3: 0.24}, {0: 0.20, 1: 0.22, 2: 0.21, 3: 0.20}
FIGURES = ("n", "mean", "sd", "t", "p", "low", "high", "positive")


def figures(found: object) -> list[float]:
    return [getattr(found, name) for name in FIGURES]


def test_a_difference_of_pairs_is_the_contrast_of_two_terms() -> None:
    found = contrast([(1, A), (-1, B)], names=("a", "b"))
    assert vars(found) == vars(paired(A, B))
    turned = contrast([(-1, B), (1, A)])
    assert figures(turned) == figures(found)
    assert turned.relative == found.relative


arms = st.lists(
    st.tuples(*[st.floats(-1, 1, allow_subnormal=False)] * 4).filter(lambda row: len(set(row)) == 4),
    min_size=2,
    max_size=8,
)


@given(arms)
def test_an_interaction_is_the_pairs_of_two_differences(rows: list[tuple[float, ...]]) -> None:
    a, b, c, d = (dict(enumerate(column)) for column in zip(*rows, strict=True))
    found = contrast([(1, a), (-1, b), (-1, c), (1, d)])
    exact = [Fraction(w) - Fraction(x) - Fraction(y) + Fraction(z) for w, x, y, z in rows]
    mean = sum(exact) / len(exact)
    assert found.mean == pytest.approx(float(mean), rel=1e-12, abs=1e-14)
    assert found.sd**2 == pytest.approx(float(sum((e - mean) ** 2 for e in exact) / (len(exact) - 1)), abs=1e-14)
    if found.t is not None:
        assert found.t == pytest.approx(found.mean / (found.sd / math.sqrt(found.n)))
    assert found.relative is None
    assert not found.material
    back = contrast([(-1, a), (1, b), (1, c), (-1, d)])
    assert (back.mean, back.low, back.high, back.p) == (-found.mean, -found.high, -found.low, found.p)


@given(arms, st.sampled_from([-4.0, -0.5, 0.25, 2.0]))
def test_weights_scale_all_but_t_and_p(rows: list[tuple[float, ...]], times: float) -> None:
    """Powers of two, so that it holds to the last bit."""
    columns = [dict(enumerate(column)) for column in zip(*rows, strict=True)]
    weights = (1, -1, 0.5, -0.5)
    found = contrast(list(zip(weights, columns, strict=True)))
    scaled = contrast([(times * weight, column) for weight, column in zip(weights, columns, strict=True)])
    assert (scaled.n, scaled.p, scaled.mean, scaled.sd) == (
        found.n,
        found.p,
        times * found.mean,
        abs(times) * found.sd,
    )
    assert sorted((scaled.low, scaled.high)) == sorted((times * found.low, times * found.high))


def test_a_main_effect_is_the_mean_of_two_differences() -> None:
    found = contrast([(0.5, A), (0.5, C), (-0.5, B), (-0.5, D)])
    means = {seed: (A[seed] - B[seed] + C[seed] - D[seed]) / 2 for seed in A}
    other = contrast([(1, means)])
    assert found.mean == pytest.approx(other.mean)
    assert (found.t, found.p) == (pytest.approx(other.t), pytest.approx(other.p))
    assert found.relative is other.relative is None


def test_sums_equal_but_for_rounding_have_no_t() -> None:
    """(v + c) − v − (w + c) + w is 0 but for rounding, whatever the three are."""
    v, w = {0: 0.1, 1: 0.7, 2: 0.3}, {0: 0.2, 1: 0.1, 2: 0.45}
    found = contrast(
        [(1, {s: x + 0.6 for s, x in v.items()}), (-1, v), (-1, {s: x + 0.6 for s, x in w.items()}), (1, w)]
    )
    assert (found.mean, found.sd, found.t, found.p, found.positive) == (0, 0, None, 1, 0)
    assert any((v[s] + 0.6) - v[s] - (w[s] + 0.6) + w[s] != 0 for s in v)


def test_missing_keys_are_named_term_by_term() -> None:
    found = contrast(
        [(1, A), (-1, {**B, 3: None}), (-1, {**C, 7: 0.1}), (1, D)], names=("rpr masked", "iid masked", "rpr", "iid")
    )
    assert (found.n, found.without) == (3, ((7,), (3, 7), (), (7,)))
    assert found.missing == "rpr masked has no value for 7; iid masked has no value for 3, 7; iid has no value for 7"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: contrast([]), "a contrast has one term or more, each with a name; got 0 and 0 names"),
        (lambda: contrast([(1, A)], names=("a", "b")), "got 1 and 2 names"),
        (lambda: contrast([(0, A), (1, B)]), "a weight is a number up to 1e+06 in size and not 0, got 0"),
        (lambda: contrast([(math.nan, A)]), "not 0, got nan"),
        (lambda: contrast([(1, A), (-1, {0: math.inf, 1: 1.0})]), "term 2 has inf for 0"),
        (
            lambda: contrast([(1, A), (-1, B), (1, {0: 1.0})]),
            "paired statistics need at least 2 keys with a value in every term, got 1: term 3 has no value for 1, 2, 3",
        ),
        (lambda: contrast([(1, A)], confidence=0), "confidence must be between 0 and 1, got 0"),
        (lambda: holm_by_family(["x"], [1.5]), "a p-value lies between 0 and 1, got 1.5"),
    ],
)
def test_bad_values_are_named(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=re.escape(said)):
        call()


tests_of_families = st.lists(
    st.tuples(st.sampled_from([None, "x", "y", "z"]), st.one_of(st.none(), st.floats(0, 1))), max_size=12
)


@given(tests_of_families)
def test_families_are_corrected_each_for_itself(tests: list[tuple[str | None, float | None]]) -> None:
    found = holm_by_family([family for family, _ in tests], [p for _, p in tests])
    assert len(found) == len(tests)
    for name in ("x", "y", "z"):
        members = [index for index, (family, p) in enumerate(tests) if family == name and p is not None]
        assert [found[index] for index in members] == holm([tests[index][1] or 0.0 for index in members])
    assert all(p is None for p, (family, q) in zip(found, tests, strict=True) if family is None or q is None)
