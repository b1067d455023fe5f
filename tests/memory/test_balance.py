"""Every class as often, every pair as often: marginals and co-occurrence on a fixed set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from memory.sampling import ALPHA, PASSES, RENEWED, batches, pair_counts, spread_fit, still
from scipy import stats

from reprise.audit import theory

C, B, ROUNDS = 20, 5, 4_000  # a round is a pass of C/B steps
M = C // B


def stretches(drawn, length):
    return [pair_counts(drawn[start : start + length], C) for start in range(0, len(drawn), length)]


# Pairs: 170 directions, so the spread is known to a tenth; a variance doubled by half-hearted renewal is ten
# standard errors away.


@pytest.mark.parametrize(("retrieval", "length"), [("rpr", M), ("iid", 1), ("uniform", 1)])
def test_every_pair_meets_as_often(retrieval, length):
    drawn = batches(still(retrieval, C, each=1), B, ROUNDS * M // (1 if retrieval == "rpr" else 2))
    # Passes are independent, and so are the draws of the other two: with one example a class, uniform is one of them.
    parts = stretches(drawn, length)
    assert spread_fit(parts) > ALPHA
    chance = (B - 1) / (C - 1) if retrieval == "rpr" else theory.pair_frequency(C, B)
    total = np.sum(parts, axis=0)
    scores = (total - len(parts) * chance) / np.sqrt(len(parts) * chance * (1 - chance))
    worst = max(abs(scores[pair]) for pair in combinations(range(C), 2))
    assert worst < stats.norm.isf(ALPHA / (C * (C - 1)))
    assert total.sum() / len(drawn) / C / (C - 1) == pytest.approx(theory.pair_frequency(C, B))


def test_every_pair_meets_as_often_when_b_does_not_divide():
    # Consecutive passes share a batch here, so the stretches are long: forty steps, fifteen passes.
    drawn = batches(still("rpr", C, each=1), 6, 16_000)
    assert spread_fit(stretches(drawn, 40)) > ALPHA
    drawn = batches(still("hybrid:3", C, each=1), B, 16_000)
    assert spread_fit(stretches(drawn, 40)) > ALPHA


@pytest.mark.parametrize("retrieval", ["fixed", "frozen-pass", "frozen-iid", "reused:3", "window:0.1"])
def test_the_spread_shows_pairs_that_are_not_renewed(retrieval):
    drawn = batches(still(retrieval, C, each=1), B, 200 * M)
    assert spread_fit(stretches(drawn, M)) < 1e-9


@pytest.mark.parametrize("retrieval", ["deadline:1.5", "window:0.5", "reused:3"])
def test_pairs_are_alike_in_the_long_run_where_renewal_is_slow(retrieval):
    # Stretches long enough to forget: a thousand steps.
    drawn = batches(still(retrieval, C, each=1), B, 30_000)
    assert spread_fit(stretches(drawn, 1_000)) > ALPHA


# Marginals --------------------------------------------------------------------------------------------------------


def visits(drawn, classes):
    return np.bincount([label for batch in drawn for label in batch], minlength=classes)


@pytest.mark.parametrize(
    ("retrieval", "classes", "n"),
    [
        *((spec, *sizes) for spec in PASSES for sizes in ((12, 3), (10, 4), (9, 8), (7, 1))),
        ("frozen-pass", 12, 3),
        ("frozen-pass", 7, 1),
    ],
)
def test_passes_visit_each_class_equally_often(retrieval, classes, n):
    for steps in (17, 100, 331):
        found = visits(batches(still(retrieval, classes), n, steps), classes)
        assert found.sum() == steps * n
        assert found.max() - found.min() <= 1


@pytest.mark.parametrize(("classes", "n"), [(12, 3), (10, 4), (9, 8)])
@pytest.mark.parametrize("retrieval", ["iid", "uniform"])
def test_independent_draws_visit_each_class_equally_often(retrieval, classes, n):
    steps, p = 4_000, n / classes
    found = visits(batches(still(retrieval, classes, each=1), n, steps), classes)
    # The counts sum to steps·n; a step moves them alike in each of the C−1 other directions.
    spread = ((found - steps * p) ** 2).sum() / (steps * p * (1 - p) * classes / (classes - 1))
    assert ALPHA < stats.chi2.sf(spread, classes - 1) < 1 - ALPHA


@pytest.mark.parametrize("retrieval", [spec for spec in RENEWED if spec.startswith(("hybrid", "deadline"))])
@pytest.mark.parametrize(("classes", "n"), [(12, 4), (10, 4), (9, 8)])
def test_hybrids_and_deadlines_visit_each_class_equally_often(retrieval, classes, n):
    # Both only take spread away from an independent draw.
    steps, p = 4_000, n / classes
    found = visits(batches(still(retrieval, classes), n, steps), classes)
    spread = ((found - steps * p) ** 2).sum() / (steps * p * (1 - p) * classes / (classes - 1))
    assert stats.chi2.sf(spread, classes - 1) > ALPHA


def test_frozen_blocks_drawn_independently_come_equally_often():
    drawn = batches(still("frozen-iid", 12), 3, 4_000)
    blocks = [min(batch) for batch in drawn]
    counts = [blocks.count(block) for block in sorted(set(blocks))]
    assert stats.chisquare(counts).pvalue > ALPHA
    assert set(visits(drawn, 12)) == set(counts)


@pytest.mark.parametrize("retrieval", [spec for spec in RENEWED if spec != "fixed"])  # which knows no seed
def test_every_step_has_the_marginal_from_the_first_on(retrieval):
    # Over seeds, not over time: which class comes in the first, second and fourth step of a fresh memory.
    classes, n, runs = 5, 2, 1_000
    found = np.zeros((4, classes))
    for seed in range(runs):
        for step, batch in enumerate(batches(still(retrieval, classes, each=1, seed=seed), n, 4)):
            found[step, batch] += 1
    p = n / classes
    spread = ((found - runs * p) ** 2).sum(1) / (runs * p * (1 - p) * classes / (classes - 1))
    assert (stats.chi2.sf(spread, classes - 1) > ALPHA).all()


@pytest.mark.parametrize(("each", "n"), [(1, 4), (3, 4), (3, 20)])
def test_uniform_includes_a_class_as_theory_says(each, n):
    classes, steps = 8, 4_000
    drawn = batches(still("uniform", classes, each=each), n, steps)
    hits = sum(3 in batch for batch in drawn)
    p = theory.uniform_inclusion(classes, each, n)
    assert stats.binomtest(hits, steps, p).pvalue > ALPHA
