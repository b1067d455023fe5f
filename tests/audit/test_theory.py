"""The theory's numbers, its limits, and simulations that follow its laws."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from reprise.audit import measure, theory

SETTINGS = ((100, 8), (100, 32), (200, 8), (200, 32))


def balanced_draws(classes, slots, steps, rng):
    return [rng.sample(range(classes), slots) for _ in range(steps)]


def passes(classes, slots, steps, rng):
    """Randomised passes over a fixed set, with more classes than slots."""
    deck, batches = [], []
    for _ in range(steps):
        batch = []
        for _ in range(slots):
            if not deck:
                order = rng.sample(range(classes), classes)
                deck = [c for c in order if c not in batch] + [c for c in order if c in batch]
            batch.append(deck.pop(0))
        batches.append(batch)
    return batches


def audit_of(tape_of, batches, classes):
    return measure(tape_of([([batch], []) for batch in batches], initial=range(classes), replay_size=len(batches[0])))


def test_the_paper_s_static_settings():
    assert [theory.fixed_set_bound(*s) for s in SETTINGS] == [25, 7, 49, 13]
    assert [theory.floor(*s) for s in SETTINGS] == [13, 4, 25, 7]
    assert [round(theory.extreme_value_scale(*s, steps=3000)) for s in SETTINGS] == [121, 30, 247, 66]
    # Measured there: 2.41, 2.42, 2.38, 2.43 in runs of 3,000 steps, which cut the longest independent gaps short.
    assert [theory.sd_ratio(*s) for s in SETTINGS] == pytest.approx([2.416, 2.434, 2.402, 2.436], abs=5e-4)


def test_the_churn_bound():
    assert theory.churn_bound(100, 0, 8) == 25
    assert theory.churn_bound(100, 2, 8) == 26
    assert theory.churn_bound(1, 0, 1) == 1
    assert all(theory.churn_bound(C, 0, b) >= theory.floor(C, b) for C in range(1, 20) for b in range(1, 25))


def test_the_first_bound():
    assert theory.first_bound(100, 0, 8) == theory.floor(100, 8) == 13
    assert theory.first_bound(100, 5, 8) == 14
    assert theory.first_bound(1, 0, 1) == 1
    ranges = [(C, new, b) for C in range(1, 20) for new in range(4) for b in range(1, 25)]
    assert all(theory.first_bound(*case) <= theory.churn_bound(*case) for case in ranges)


def test_the_triangular_law():
    assert theory.rpr_gap_pmf(12, 4) == pytest.approx(np.array([0, 1, 2, 3, 2, 1]) / 9)
    for C, b in ((12, 4), (30, 3), (200, 8), (7, 1)):
        m = C // b
        law, gap = theory.rpr_gap_pmf(C, b), np.arange(2 * m)
        assert law == pytest.approx(np.where(gap > 0, m - abs(gap - m), 0) / m**2)
        assert law @ (gap - m) ** 2 == pytest.approx(theory.rpr_gap_variance(C, b)) == pytest.approx((m**2 - 1) / 6)
        assert theory.sd_ratio(C, b) == pytest.approx((6 * m / (m + 1)) ** 0.5)


@pytest.mark.parametrize(("C", "b"), [(10, 4), (7, 4), (25, 8), (100, 8), (100, 32), (200, 32), (9, 8), (5, 3)])
def test_the_law_of_passes_that_do_not_divide(C, b):
    law = theory.rpr_gap_pmf(C, b)
    gap = np.arange(len(law))
    assert len(law) == theory.fixed_set_bound(C, b) + 1
    assert (law >= 0).all()
    assert law.sum() == pytest.approx(1)
    assert law @ gap == pytest.approx(C / b)
    assert theory.rpr_gap_variance(C, b) == pytest.approx(law @ (gap - C / b) ** 2)


@pytest.mark.parametrize(("C", "b"), [(12, 4), (10, 4), (7, 4), (25, 8)])
def test_randomised_passes_follow_their_law(tape_of, C, b):
    audit = audit_of(tape_of, passes(C, b, 12_000, random.Random(C)), C)
    law = theory.rpr_gap_pmf(C, b)
    assert audit.max <= theory.fixed_set_bound(C, b)
    assert audit.violations == 0
    share = np.bincount(audit.gaps, minlength=len(law)) / len(audit.gaps)
    # Gaps of one class are negatively correlated, so independent sampling overstates the error of a share.
    assert abs(share - law).max() < 4 * (0.25 / len(audit.gaps)) ** 0.5
    assert share @ np.arange(len(law)) == pytest.approx(C / b, rel=2e-3)
    assert audit.gaps.var() == pytest.approx(theory.rpr_gap_variance(C, b), rel=0.02)


def test_independent_balanced_draws_are_geometric(tape_of):
    C, b = 20, 4
    audit = audit_of(tape_of, balanced_draws(C, b, 10_000, random.Random(1)), C)
    # Runs end and cut long gaps short; what opens well before the end is whole.
    seen = np.bincount(np.minimum(audit.gaps, 30), minlength=31)[1:]
    expected = np.append(theory.geometric_pmf(np.arange(1, 30), C, b), theory.geometric_tail(29, C, b)) * len(
        audit.gaps
    )
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-3
    assert audit.gaps.var() == pytest.approx(theory.iid_gap_variance(C, b), rel=0.05)
    assert 0.5 < audit.max / theory.extreme_value_scale(C, b, 10_000) < 2


@pytest.mark.parametrize("schedule", [passes, balanced_draws])
@pytest.mark.parametrize(("C", "b"), [(12, 4), (10, 4)])
def test_every_pair_meets_equally_often(tape_of, schedule, C, b):
    steps = 12_000
    audit = audit_of(tape_of, schedule(C, b, steps, random.Random(2)), C)
    met = audit.pairs()[np.triu_indices(C, 1)]
    share = theory.pair_frequency(C, b)
    assert met.mean() / steps == pytest.approx(share, rel=1e-12)  # an identity: the spread is the test
    assert abs(met / steps - share).max() < 4.5 * (share * (1 - share) / steps) ** 0.5
    assert audit.pair_coverage == 1
    assert audit.pair_entropy == pytest.approx(1, abs=1e-3)


def test_the_geometric_law_agrees_with_scipy():
    gap = np.arange(1, 200)
    for C, b in SETTINGS:
        assert theory.geometric_pmf(gap, C, b) == pytest.approx(stats.geom(b / C).pmf(gap))
        assert theory.geometric_tail(gap, C, b) == pytest.approx(stats.geom(b / C).sf(gap))
        assert theory.iid_gap_variance(C, b) == pytest.approx(stats.geom(b / C).var())
    assert theory.geometric_tail(0, 100, 8) == 1.0
    assert isinstance(theory.geometric_tail(3, 100, 8), float)
    assert isinstance(theory.geometric_pmf(np.int64(3), 100, 8), float)


def test_uniform_draws_agree_with_scipy():
    for C, n, b in ((100, 51, 8), (10, 3, 27), (7, 1, 3), (2, 5, 6)):
        assert theory.uniform_inclusion(C, n, b) == pytest.approx(1 - stats.hypergeom(C * n, n, b).pmf(0))
    assert theory.uniform_inclusion(3, 4, 9) == theory.uniform_inclusion(3, 4, 50) == 1.0
    assert theory.uniform_inclusion(1, 4, 1) == 1.0
    assert theory.uniform_inclusion(100, 1, 8) == pytest.approx(0.08)
    # The paper's fixed balanced memory: mean gaps 12.87, 3.62, 25.21 and 6.71 under uniform draws.
    assert [1 / theory.uniform_inclusion(C, 50, b) for C, b in SETTINGS] == pytest.approx(
        [12.87, 3.62, 25.21, 6.71], rel=0.01
    )


@pytest.mark.parametrize("S", [1.01, 1.5, 2, 3])
def test_the_law_of_deadlines(S):
    for C, b in ((100, 8), (100, 10), (200, 32), (5, 4)):
        law = theory.deadline_gap_pmf(C, b, S)
        cap = theory.deadline_cap(C, b, S)
        gap = np.arange(cap + 1)
        assert law.sum() == pytest.approx(1)
        assert law @ gap == pytest.approx(C / b)
        assert law[0] == 0
        assert (law >= 0).all()
        hazards = law[1:cap] / np.cumsum(law[::-1])[::-1][1:cap]
        assert hazards == pytest.approx(np.full(cap - 1, law[1] if cap > 1 else 0))
        assert cap == 1 or law[1] < b / C
    assert theory.deadline_gap_pmf(8, 8, S).tolist() == [0.0, 1.0]


def test_a_loose_deadline_is_the_geometric_law():
    law = theory.deadline_gap_pmf(20, 4, 50)
    assert law[1:60] == pytest.approx(theory.geometric_pmf(np.arange(1, 60), 20, 4), abs=1e-12)


def test_windows_and_caps_round_the_written_decimal():
    assert theory.window_bounds(100, 10, 0.1) == (9, 11)  # binary 1 + 0.1 times 10 lies above 11
    assert theory.window_bounds(100, 10, "0.3") == theory.window_bounds(100, 10, 0.3) == (7, 13)
    assert theory.window_bounds(100, 10, Fraction(1, 3)) == (6, 14)
    assert theory.window_bounds(100, 8, 1) == (0, 25)
    assert theory.window_bounds(100, 10, np.float64(0.1)) == (9, 11)
    assert theory.deadline_cap(100, 10, 1.1) == 11
    assert theory.deadline_cap(100, 10, np.float32(1.1)) == 11
    assert theory.deadline_cap(100, 8, 1.5) == 19


def test_the_jensen_floor_is_below_every_law_of_its_mean():
    def cost(gap):
        return gap**2

    C, b = 100, 10
    least = theory.jensen_floor(cost, C, b)
    assert least == 100.0
    costs = [least]
    for law in (theory.rpr_gap_pmf(C, b), theory.deadline_gap_pmf(C, b, 4)):
        costs.append(law @ cost(np.arange(len(law))))
    costs.append(theory.iid_gap_variance(C, b) + (C / b) ** 2)
    assert all(less < more for less, more in pairwise(costs))


def test_with_as_many_slots_as_classes_every_gap_is_one():
    for C, b in ((5, 5), (3, 9), (1, 1)):
        assert theory.floor(C, b) == theory.fixed_set_bound(C, b) == 1
        assert theory.rpr_gap_pmf(C, b).tolist() == [0.0, 1.0]
        assert theory.rpr_gap_variance(C, b) == theory.iid_gap_variance(C, b) == 0.0
        assert theory.geometric_tail([0, 1, 2], C, b).tolist() == [1.0, 0.0, 0.0]
        assert theory.geometric_pmf([1, 2], C, b).tolist() == [1.0, 0.0]
        assert theory.extreme_value_scale(C, b, 100) == 1.0
        assert theory.window_bounds(C, b, 0.5) == (1, 1)
        assert theory.deadline_cap(C, b, 2) == 1
        assert theory.jensen_floor(lambda gap: gap, C, b) == 1.0
    assert theory.pair_frequency(3, 9) == theory.pair_frequency(3, 3) == 1.0
    assert theory.pair_frequency(3, 1) == 0.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: theory.floor(0, 8), ValueError, r"C \(classes\) must be 1 or more, got 0"),
        (lambda: theory.floor(10, -1), ValueError, r"b \(replay size\) must be 1 or more, got -1"),
        (lambda: theory.fixed_set_bound(10.0, 2), TypeError, r"must be a whole number, got 10.0"),
        (lambda: theory.floor(True, 2), TypeError, r"must be a whole number, got True"),
        (lambda: theory.first_bound(10, -1, 2), ValueError, r"I \(insertions\) must be 0 or more, got -1"),
        (lambda: theory.churn_bound(10, -1, 2), ValueError, r"I \(insertions\) must be 0 or more, got -1"),
        (lambda: theory.extreme_value_scale(10, 2, 0), ValueError, r"steps must be 1 or more, got 0"),
        (lambda: theory.geometric_tail(-1, 10, 2), ValueError, r"g \(gap\) must be 0 or more, got -1"),
        (lambda: theory.geometric_pmf([3, 0], 10, 2), ValueError, r"g \(gap\) must be 1 or more, got 0"),
        (lambda: theory.geometric_tail(1.5, 10, 2), TypeError, r"g \(gap\) must be whole numbers, got 1.5"),
        (lambda: theory.pair_frequency(1, 1), ValueError, r"C \(classes\) must be 2 or more, got 1"),
        (lambda: theory.sd_ratio(8, 8), ValueError, r"b = 8 and C = 8 .* b must be below C"),
        (lambda: theory.window_bounds(10, 2, 0), ValueError, r"W \(window\) must be above 0 and at most 1, got 0"),
        (lambda: theory.window_bounds(10, 2, 1.1), ValueError, r"above 0 and at most 1, got 1.1"),
        (lambda: theory.window_bounds(10, 2, None), TypeError, r"W \(window\) must be a number, got None"),
        (lambda: theory.window_bounds(10, 2, float("nan")), ValueError, r"must be a finite number, got nan"),
        (lambda: theory.deadline_cap(10, 2, float("inf")), ValueError, r"must be a finite number, got inf"),
        (lambda: theory.deadline_cap(10, 2, 1), ValueError, r"S \(slack\) must be above 1, got 1"),
        (lambda: theory.deadline_gap_pmf(10, 2, "soon"), ValueError, r"must be a finite number, got 'soon'"),
        (lambda: theory.uniform_inclusion(10, 0, 2), ValueError, r"per_class .* must be 1 or more, got 0"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
