"""How long classes wait on a fixed set: every schedule's law and bounds, by test of distribution."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from memory.sampling import ALPHA, FROZEN, PASSES, RETRIEVALS, SCHEDULES, STORAGES, batches, fit, gaps, same_law, still
from scipy import stats

import reprise
from reprise.audit import theory
from reprise.core.registry import registered

SIZES = [(C, b) for C in range(1, 13) for b in range(1, C + 1)]


def names(specs):
    return {spec.partition("+")[0].partition(":")[0] for spec in specs}


def test_the_lists_of_these_tests_name_every_policy():
    assert names(STORAGES) | {"external"} == set(registered("storage"))
    assert names(SCHEDULES) == set(registered("schedule"))
    assert names(RETRIEVALS) | {"mir"} == set(registered("schedule")) | set(registered("retrieval"))


def every_gap(drawn, classes):
    return np.concatenate([gaps(drawn, label) for label in range(classes)])


def longest_wait(drawn, classes):
    """The longest gap of any class, the waits before its first and after its last visit included."""
    steps = [
        [-1, *(step for step, batch in enumerate(drawn) if label in batch), len(drawn)] for label in range(classes)
    ]
    return max(int(np.diff(row).max()) for row in steps)


# Randomised passes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "b"), [(12, 3), (20, 4), (6, 6), (7, 1)])
@pytest.mark.parametrize("retrieval", ["rpr", "reused:1"])
def test_rpr_has_the_triangular_law(retrieval, C, b):
    # Passes are independent when b divides C, so every second gap of one class is an independent sample: about
    # 3,000 of them, which shows a total variation of 0.03 nine times in ten.
    m = C // b
    drawn = batches(still(retrieval, C), b, 2 * m * 3_000 if m > 1 else 100)
    assert fit(gaps(drawn, C // 2)[::2], theory.rpr_gap_pmf(C, b)) > ALPHA


@pytest.mark.parametrize(("C", "b"), [(10, 4), (7, 4), (5, 3), (9, 8)])
def test_rpr_has_its_law_when_b_does_not_divide(C, b):
    # A class's k-th gap begins in pass k, whose start within a batch is k·C mod b. Passes five apart hardly know of
    # each other, and five has no divisor in common with the number of starts, so that all starts come equally often.
    drawn = batches(still("rpr", C), b, 5 * 3_000 * C // b)
    assert fit(gaps(drawn, C // 2)[::5], theory.rpr_gap_pmf(C, b)) > ALPHA


@pytest.mark.parametrize("retrieval", ["rpr", "reused:3"])
def test_no_class_waits_longer_than_the_fixed_set_bound(retrieval):
    for C, b in SIZES:
        drawn = batches(still(retrieval, C, each=1, seed=C * 13 + b), b, 40 * -(-C // b))
        assert longest_wait(drawn, C) <= 2 * -(-C // b) - 1, (C, b)
        if C % b == 0 and C // b < 7 and retrieval == "rpr":
            assert every_gap(drawn, C).max() == 2 * (C // b) - 1, f"the bound is not reached for C={C}, b={b}"


@pytest.mark.parametrize("retrieval", PASSES)
def test_passes_visit_every_class_before_any_again(retrieval):
    for C, b in SIZES:
        row = [label for batch in batches(still(retrieval, C, each=1, seed=b), b, 8 * C) for label in batch]
        for start in range(0, len(row) - C + 1, C):
            assert sorted(row[start : start + C]) == list(range(C)), (C, b)


# Frozen blocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "b"), [(12, 3), (20, 10), (10, 4), (13, 4), (5, 8)])
def test_frozen_pass_has_rpr_s_law_over_whole_blocks(C, b):
    m = -(-C // b)
    drawn = batches(still("frozen-pass", C, each=8), b, 2 * m * 3_000 if m > 1 else 100)
    assert fit(gaps(drawn, C // 2)[::2], theory.rpr_gap_pmf(m, 1)) > ALPHA
    assert longest_wait(drawn, C) == 2 * m - 1


@pytest.mark.parametrize(("C", "b"), [(12, 3), (20, 10), (10, 4), (13, 4)])
def test_frozen_iid_has_the_geometric_law_over_whole_blocks(C, b):
    m = -(-C // b)
    drawn = batches(still("frozen-iid", C, each=8), b, m * 4_000)
    assert fit(gaps(drawn, C // 2), [0, *theory.geometric_pmf(np.arange(1, 60), m, 1)]) > ALPHA
    # Independent of the step before: the same block again as often as any other.
    again = sum(set(x) == set(y) for x, y in pairwise(drawn))
    assert stats.binomtest(again, len(drawn) - 1, 1 / m).pvalue > ALPHA


@pytest.mark.parametrize("retrieval", ["frozen-pass", "frozen-iid"])
@pytest.mark.parametrize(("C", "b"), [(12, 3), (20, 10), (10, 4), (13, 4), (5, 8), (9, 1)])
def test_frozen_blocks_are_few_and_even_and_never_mix(retrieval, C, b):
    m = -(-C // b)
    blocks = {frozenset(batch) for batch in batches(still(retrieval, C, each=8, seed=3), b, 40 * m)}
    assert len(blocks) == m
    assert sorted(label for block in blocks for label in block) == list(range(C))
    sizes = [len(block) for block in blocks]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("retrieval", ["frozen-pass", "frozen-iid"])
def test_frozen_blocks_fill_up_with_second_examples_in_turn(retrieval):
    C, b = 10, 4
    drawn = batches(still(retrieval, C, each=8), b, 600)
    assert all(len(batch) == b for batch in drawn)
    for block in {frozenset(batch) for batch in drawn}:
        served = [label for batch in drawn if set(batch) == block for label in batch]
        for start in range(0, len(served) - len(block) + 1, len(block)):
            assert set(served[start : start + len(block)]) == block, "some class of the block was passed over"


@pytest.mark.parametrize("retrieval", FROZEN)
def test_frozen_partitions_are_drawn_anew_for_each_seed(retrieval):
    partitions = set()
    for seed in range(20):
        partitions.add(frozenset(frozenset(batch) for batch in batches(still(retrieval, 9, seed=seed), 3, 40)))
    assert len(partitions) > 15


# Windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("W", ["0.01", "0.1", "0.25", "0.5", "0.7", "1"])
def test_window_bounds(W):
    for C, b in [*SIZES, (40, 8), (33, 5)]:
        for seed in range(2):
            drawn = batches(still(f"window:{W}", C, each=1, seed=seed), b, 15 * -(-C // b))
            least, most = theory.window_bounds(C, b, W)
            assert least <= every_gap(drawn, C).min(), (C, b, W, seed)
            assert longest_wait(drawn, C) <= most, (C, b, W, seed)


@pytest.mark.parametrize("W", [0.3, 0.5, 1.0])
def test_a_window_orders_by_the_last_place_plus_a_uniform_jitter(W):
    # One class a step shows the passes. How the places change from pass to pass is one independent sample a pass.
    C, count = 4, 4_000
    row = [label for batch in batches(still(f"window:{W}", C, each=1), 1, C * (count + 1)) for label in batch]
    passes = np.array(row).reshape(-1, C)
    ours = [tuple(before.tolist().index(label) for label in after) for before, after in pairwise(passes)]
    jitter = np.random.default_rng(7).random((40_000, C)) * W * C
    theirs = [tuple(order) for order in np.argsort(np.arange(C) + jitter, axis=1).tolist()]
    assert same_law(ours, theirs) > ALPHA


def test_a_window_places_classes_by_where_they_were_served():
    # With b = 4 and C = 6 the classes that share the batch in which a pass ends are moved to the end of the next.
    # The pass after that starts from the places they were given there, and those are all it may depend on.
    C, b, W = 6, 4, 0.5
    rng = np.random.default_rng(1)

    def traces(drawn):
        row = [label for batch in drawn for label in batch]
        for start in range(0, len(row) - 3 * C + 1, 2 * C):  # where a pass and a batch begin together
            names = {label: at for at, label in enumerate(row[start : start + C])}
            yield tuple(names[label] for label in row[start + C : start + 3 * C])

    def reference(steps):
        place = list(range(C))
        left = place.copy()
        for _ in range(steps):
            batch = []
            while len(batch) < b:
                if not left:
                    fresh = [place[at] for at in np.argsort(np.arange(C) + rng.random(C) * W * C)]
                    place = [c for c in fresh if c not in batch] + [c for c in fresh if c in batch]
                    left = place.copy()
                batch.append(left.pop(0))
            yield batch

    ours = batches(still(f"window:{W}", C, each=1), b, 20_000)
    assert same_law(traces(ours), traces(reference(40_000))) > ALPHA


def test_a_window_renews_who_meets_whom_little_by_little():
    drawn = batches(still("window:0.25", 16), 4, 4_000)
    met = [np.zeros((16, 16)) for _ in range(2)]
    for part, stretch in zip(met, (drawn[:40], drawn), strict=True):
        for batch in stretch:
            part[np.ix_(batch, batch)] = 1
    assert met[0].mean() < 0.8, "ten passes have already brought everybody together"
    assert met[1].all(), "some classes never meet"


# Deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("S", ["1.01", "1.1", "1.5", "2", "3.7"])
def test_deadline_cap(S):
    for C, b in [*SIZES, (40, 8), (33, 5)]:
        drawn = batches(still(f"deadline:{S}", C, each=1, seed=b), b, 25 * -(-C // b))
        assert longest_wait(drawn, C) <= theory.deadline_cap(C, b, S), (C, b, S)


@pytest.mark.parametrize(("C", "b", "S"), [(200, 10, 1.5), (120, 8, 2), (100, 10, 1.1)])
def test_deadline_gaps_are_geometric_below_the_cap_with_an_atom_there(C, b, S):
    # A twentieth of the classes hardly feel each other: some 4,000 gaps that are as good as independent.
    drawn = batches(still(f"deadline:{S}", C), b, 4_000 * 20 // b)
    found = np.concatenate([gaps(drawn, label) for label in range(C // 20)])
    law = theory.deadline_gap_pmf(C, b, S)
    cap = len(law) - 1
    assert fit(found, law) > ALPHA
    assert np.mean(found == cap) > 3 * law[cap - 1], "no atom at the cap"
    waiting = np.array([(found >= age).sum() for age in range(1, cap)])
    served = np.array([(found == age).sum() for age in range(1, cap)])
    hazard = served.sum() / waiting.sum()
    homogeneity = ((served - waiting * hazard) ** 2 / (waiting * hazard * (1 - hazard))).sum()
    assert stats.chi2.sf(homogeneity, cap - 2) > ALPHA, "the hazard below the cap is not constant"


def test_a_far_deadline_changes_nothing_in_law():
    drawn = batches(still("deadline:50", 12), 3, 16_000)
    assert fit(gaps(drawn, 4), [0, *theory.geometric_pmf(np.arange(1, 80), 12, 3)]) > ALPHA


def test_a_deadline_is_put_off_when_the_set_has_grown():
    # Three classes, one a step: nobody waits more than ⌈1.5·3⌉ = 5. Then nine more come, and the cap is 18. Of the
    # classes that were there, those not drawn in five steps need not be served yet: two in three wait longer.
    longer = 0
    for seed in range(60):
        memory = reprise.Memory(12, "fifo", "deadline:1.5", seed=seed)
        memory.store([0, 1, 2])
        last = memory.draw(1).labels[0]
        memory.store(range(3, 12))
        waited = next(step for step in range(1, 20) if last in memory.draw(1).labels)
        assert waited <= 18
        longer += waited > 5
    assert 20 < longer < 55


# Independent draws, cycles, reuse, hybrids ------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "b"), [(12, 3), (10, 4), (9, 8)])
def test_iid_gaps_are_geometric(C, b):
    drawn = batches(still("iid", C), b, 4_000 * C // b)
    assert fit(gaps(drawn, C - 1), [0, *theory.geometric_pmf(np.arange(1, 80), C, b)]) > ALPHA


def test_iid_batches_are_independent_and_uniform_in_every_order():
    # C = 4, b = 2: twelve ordered batches, and the next one whatever this one was.
    drawn = [tuple(batch) for batch in batches(still("iid", 4), 2, 12_000)]
    joint = [(x, y) for x, y in zip(drawn[::2], drawn[1::2], strict=True)]
    outcomes = [(i, j) for i in range(4) for j in range(4) if i != j]
    place = {pair: at for at, pair in enumerate((x, y) for x in outcomes for y in outcomes)}
    assert fit([place[pair] for pair in joint], [1 / 144] * 144) > ALPHA


def test_fixed_attains_the_floor_and_then_never_mixes():
    for C, b in SIZES:
        drawn = batches(still("fixed", C, each=1), b, 10 * C)
        assert set(every_gap(drawn, C).tolist()) <= {C // b, -(-C // b)}, (C, b)
        if C % b == 0:  # every gap is C/b, which forces a fixed partition
            blocks = {frozenset(batch) for batch in drawn}
            assert len(blocks) == C // b
            assert sum(map(len, blocks)) == C


@pytest.mark.parametrize("K", [1, 2, 5])
def test_reused_traverses_an_order_k_times_and_then_draws_another(K):
    C = 8
    row = [label for batch in batches(still(f"reused:{K}", C), 1, C * (10 * K + 1)) for label in batch]
    passes = [tuple(row[start : start + C]) for start in range(0, len(row), C)]
    orders = passes[1:]  # the first pass is made of arrivals
    for start in range(0, len(orders), K):
        assert len(set(orders[start : start + K])) == 1, "the order changed before its time"
    assert len(set(orders[::K])) == 10, "the order was not drawn again"


def test_reused_renews_its_order_and_counts_anew_when_classes_have_changed():
    memory = reprise.Memory(8, "fifo", "reused:3", seed=1)
    memory.store(range(6))
    row = [int(memory.draw(1).labels[0]) for _ in range(6 * 2 + 2)]  # the first pass, one traversal, two classes more
    assert row[6:8] == row[12:14]
    memory.store([6])
    rest = [int(memory.draw(1).labels[0]) for _ in range(5 + 7 * 4)]
    assert sorted(rest[:5]) == sorted({*row[8:12], 6}), "the arrival does not join the pass under way"
    passes = [tuple(rest[start : start + 7]) for start in range(5, len(rest), 7)]
    assert passes[0] == passes[1] == passes[2] != passes[3]


def test_reused_once_is_rpr_draw_for_draw():
    for C, b in SIZES:
        assert batches(still("reused:1", C, seed=b), b, 30) == batches(still("rpr", C, seed=b), b, 30)


@pytest.mark.parametrize(("C", "b", "S"), [(12, 6, 3), (12, 5, 4), (10, 4, 3), (9, 4, 1)])
def test_hybrid_keeps_s_slots_for_passes(C, b, S):
    m = C // S
    drawn = batches(still(f"hybrid:{S}", C), b, 2 * m * 2_500)
    first = [batch[:S] for batch in drawn]
    row = [label for batch in first for label in batch]
    for start in range(0, len(row) - C + 1, C):
        assert sorted(row[start : start + C]) == list(range(C))
    if C % S == 0:
        assert fit(gaps(first, 5)[::2], theory.rpr_gap_pmf(C, S)) > ALPHA
    assert all(len(set(batch)) == b for batch in drawn)
    assert longest_wait(drawn, C) <= theory.fixed_set_bound(C, S)


def test_the_rest_of_a_hybrid_batch_is_uniform_over_the_other_classes():
    drawn = batches(still("hybrid:2", 7), 4, 4_000)
    rank = []
    for batch in drawn:
        others = [label for label in range(7) if label not in batch[:2]]
        rank.append((others.index(batch[2]), others.index(batch[3])))
    outcomes = {pair: at for at, pair in enumerate((i, j) for i in range(5) for j in range(5) if i != j)}
    assert fit([outcomes[pair] for pair in rank], [1 / 20] * 20) > ALPHA


def test_a_hybrid_of_all_slots_is_rpr_draw_for_draw():
    for C, b in SIZES:
        assert batches(still(f"hybrid:{b + 1}", C, seed=b), b, 20) == batches(still("rpr", C, seed=b), b, 20)
