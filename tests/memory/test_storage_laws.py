"""Who is kept: the law of every storage, over thousands of streams."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.sampling import ALPHA, fit, uniform_fit
from scipy import stats

import reprise


def kept(storage, labels, capacity, seed, sizes=(1, 5, 2)):
    """Offer labels in batches; return the memory, the arrival each slot holds, and the slot every arrival was given."""
    memory = reprise.Memory(capacity, storage, "uniform", seed=seed)
    held, given, start = {}, [], 0
    while start < len(labels):
        batch = labels[start : start + sizes[len(given) % len(sizes)]]
        for offset, slot in enumerate(memory.store(batch).tolist()):
            given.append(slot)
            if slot >= 0:
                held[slot] = start + offset
        start += len(batch)
    assert [labels[held[slot]] for slot in range(len(memory))] == memory.labels.tolist()
    return memory, held, given


# Reservoir --------------------------------------------------------------------------------------------------------


def test_a_reservoir_holds_every_arrival_with_the_same_probability():
    # 2,500 streams: the share of each of 40 arrivals is known to 0.009; a first arrival favoured by a tenth shows.
    length, capacity, runs = 40, 10, 2_500
    counts = np.zeros(length)
    for seed in range(runs):
        _, held, _ = kept("reservoir", list(range(length)), capacity, seed)
        counts[list(held.values())] += 1
    p = capacity / length
    assert counts.sum() == capacity * runs
    spread = ((counts - runs * p) ** 2).sum() / (runs * p * (1 - p) * length / (length - 1))
    assert ALPHA < stats.chi2.sf(spread, length - 1) < 1 - ALPHA


@pytest.mark.parametrize("storage", ["reservoir", "brs", "cbrs"])
def test_every_set_of_arrivals_is_held_equally_often(storage):
    # With one class, all three are uniform samples without replacement.
    runs = [frozenset(kept(storage, [7] * 6, 3, seed)[1].values()) for seed in range(2_000)]
    assert uniform_fit(runs, map(frozenset, combinations(range(6), 3))) > ALPHA


def test_each_slot_of_a_reservoir_holds_its_first_arrival_or_any_later_one():
    length, capacity = 24, 6
    found = []
    for seed in range(2_400):
        slot = seed % capacity
        _, held, _ = kept("reservoir", list(range(length)), capacity, seed)
        found.append(0 if held[slot] == slot else held[slot] - capacity + 1)
        assert held[slot] == slot or held[slot] >= capacity
    assert fit(found, [capacity / length] + [1 / length] * (length - capacity)) > ALPHA


@pytest.mark.parametrize("storage", ["reservoir", "brs"])
def test_the_nth_arrival_is_accepted_with_probability_capacity_over_n(storage):
    # The same acceptance for both, and independent from arrival to arrival.
    length, capacity, runs = 30, 6, 2_000
    labels = np.random.default_rng(5).integers(0, 4, length).tolist()
    counts = np.zeros(length)
    pairs = 0
    for seed in range(runs):
        accepted = np.array(kept(storage, labels, capacity, seed)[2]) >= 0
        counts += accepted
        pairs += int(accepted[12] and accepted[13])
    assert (counts[:capacity] == runs).all()
    p = capacity / np.arange(capacity + 1, length + 1)
    spread = ((counts[capacity:] - runs * p) ** 2 / (runs * p * (1 - p))).sum()
    assert stats.chi2.sf(spread, length - capacity) > ALPHA
    assert stats.binomtest(pairs, runs, capacity / 13 * capacity / 14).pvalue > ALPHA


def test_brs_accepts_the_very_examples_that_a_reservoir_does():
    labels = np.random.default_rng(2).integers(0, 5, 2_000).tolist()  # longer than decisions are drawn ahead
    for seed in range(4):
        one, other = (np.array(kept(storage, labels, 20, seed)[2]) >= 0 for storage in ("reservoir", "brs"))
        assert one.tolist() == other.tolist()


# Balanced reservoir -----------------------------------------------------------------------------------------------


def first_eviction(storage, held, newcomer, seed):
    """Fill a memory with `held`, offer a class until it is accepted, and return the slot it took."""
    memory = reprise.Memory(len(held), storage, "uniform", seed=seed)
    memory.store(held)
    while True:
        [slot] = memory.store([newcomer]).tolist()
        if slot >= 0:
            return slot


@pytest.mark.parametrize("storage", ["brs", "brs-always", "cbrs"])
def test_the_evicted_example_is_a_uniform_one_of_a_uniform_largest_class(storage):
    held = [0, 1, 1, 0, 2, 1, 0, 3, 3, 3, 4]  # classes 0, 1 and 3 are the largest
    slots = [first_eviction(storage, held, 9, seed) for seed in range(1_800)]
    assert uniform_fit(slots, [slot for slot, label in enumerate(held) if label in (0, 1, 3)]) > ALPHA


@pytest.mark.parametrize("storage", ["brs", "brs-always"])
@pytest.mark.parametrize("own", [0, 1])
def test_brs_evicts_from_the_largest_class_whoever_arrives(storage, own):
    # Class 0 is the largest; the newcomer pays when it is of that class itself, and not when it is of the other.
    slots = {first_eviction(storage, [0, 1, 0, 0, 1], own, seed) for seed in range(60)}
    assert slots == {0, 2, 3}


@pytest.mark.parametrize("storage", ["brs", "brs-always"])
def test_brs_breaks_ties_at_random_even_against_the_newcomer(storage):
    slots = [first_eviction(storage, [0, 1, 1, 0], 0, seed) for seed in range(1_200)]
    assert uniform_fit(slots, range(4)) > ALPHA


@pytest.mark.parametrize(("classes", "capacity"), [(5, 50), (5, 48), (4, 8), (10, 100)])
def test_brs_ends_even_when_the_stream_is(classes, capacity):
    # Once even, one class at most is above its share and one below, each by one example: when all are level, an
    # arrival takes the place of another class's example.
    for seed in range(20):
        labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), 100))
        memory = reprise.Memory(capacity, "brs", "uniform", seed=seed)
        memory.store(labels)
        counts = sorted(memory.counts().values())
        level = capacity // classes
        assert len(counts) == classes
        assert counts[0] >= level - 1
        assert counts[-1] <= -(-capacity // classes) + 1
        assert all(level <= count <= -(-capacity // classes) for count in counts[1:-1])


@pytest.mark.parametrize("storage", ["brs", "brs-always"])
def test_brs_is_level_as_often_as_ties_say(storage):
    # Level classes stay so with probability 1/C (the newcomer's own pays), and return to it with 1/C.
    classes, capacity, runs = 4, 8, 600
    level = 0
    for seed in range(runs):
        memory = reprise.Memory(capacity, storage, "uniform", seed=seed)
        memory.store(np.random.default_rng(seed).integers(0, classes, 400))
        level += set(memory.counts().values()) == {2}
    assert stats.binomtest(level, runs, 1 / classes).pvalue > ALPHA


def test_brs_spreads_a_long_tail_where_a_reservoir_does_not():
    spread = dict.fromkeys(("reservoir", "brs"), 0)
    for storage in spread:
        for seed in range(8):
            memory = reprise.Memory(60, storage, "uniform", seed=seed)
            memory.store(np.random.default_rng(seed).permutation(np.repeat(np.arange(5), [400, 200, 100, 50, 25])))
            counts = [memory.counts().get(label, 0) for label in range(5)]
            spread[storage] += (max(counts) - min(counts)) / 8
    assert spread["brs"] < 8 < 20 < spread["reservoir"]  # about 6 and 28 of 60


# Balanced storage that always accepts -----------------------------------------------------------------------------


STRETCHES = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 20)), min_size=4, max_size=20)


@given(STRETCHES, st.integers(1, 20), st.integers(0, 99), st.booleans())
def test_brs_always_writes_every_example_and_keeps_classes_level(stretches, capacity, seed, mixed):
    # With K classes so far, a largest one holds at least level = ⌈capacity/K⌉. So no class is cut below level − 1; and
    # once each has brought as many as level, none is above level + 1: only a tie lets the largest size grow, by one.
    labels = [label for label, count in stretches for _ in range(count)]
    if mixed:
        labels = np.random.default_rng(seed).permutation(labels).tolist()
    memory = reprise.Memory(capacity, "brs-always", "uniform", seed=seed)
    arrived = {}
    for at, label in enumerate(labels):
        [slot] = memory.store([label]).tolist()
        assert slot == at if at < capacity else 0 <= slot < capacity
        arrived[label] = arrived.get(label, 0) + 1
        level, held = -(-capacity // len(arrived)), memory.counts()
        assert sum(held.values()) == min(at + 1, capacity)
        assert all(held.get(c, 0) >= min(count, level - 1) for c, count in arrived.items())
        if min(arrived.values()) >= level:
            assert max(held.values()) <= level + 1
            assert capacity % len(arrived) or list(held.values()).count(level + 1) <= 1


def test_brs_always_forgets_old_examples_at_a_constant_rate():
    # With one class, each arrival after the memory is filled spares every held example with probability 1 − 1/capacity.
    length, capacity, runs = 24, 6, 2_000
    counts = np.zeros(length)
    for seed in range(runs):
        _, held, given = kept("brs-always", [3] * length, capacity, seed)
        assert min(given) >= 0
        counts[list(held.values())] += 1
    later = length - np.maximum(np.arange(length) + 1, capacity)  # arrivals that could have evicted it
    for count, draws in zip(counts.tolist(), later.tolist(), strict=True):
        assert stats.binomtest(int(count), runs, (1 - 1 / capacity) ** draws).pvalue > ALPHA / length


@pytest.mark.parametrize("seed", range(4))
def test_brs_always_levels_a_long_tail_where_brs_does_not(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(5), [400, 200, 100, 50, 25]))
    spread = {}
    for storage in ("brs", "brs-always"):
        memory = reprise.Memory(60, storage, "uniform", seed=seed)
        memory.store(labels)
        counts = [memory.counts().get(label, 0) for label in range(5)]
        spread[storage] = max(counts) - min(counts)
    assert spread["brs-always"] <= 2 < spread["brs"]


# Class-balancing reservoir ----------------------------------------------------------------------------------------


def literal_cbrs(labels, capacity, rng):
    """Chrysakis and Moens's algorithm, step by step, over a plain list; full classes count from when it is filled."""
    memory, seen, full = [], {}, set()
    for arrival, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        counts = {c: sum(labels[i] == c for i in memory) for c in set(labels)}
        if len(memory) < capacity:
            memory.append(arrival)
            continue
        largest = max(counts.values())
        full |= {c for c, count in counts.items() if count == largest}
        if label not in full:
            victims = [c for c, count in counts.items() if count == largest]
            victim = victims[rng.integers(len(victims))]
            place = rng.choice([at for at, i in enumerate(memory) if labels[i] == victim])
            memory[place] = arrival
        elif rng.random() <= counts[label] / seen[label] and counts[label]:
            memory[rng.choice([at for at, i in enumerate(memory) if labels[i] == label])] = arrival
        counts = {c: sum(labels[i] == c for i in memory) for c in set(labels)}
        full |= {c for c, count in counts.items() if count == max(counts.values())}
    return memory


LONG_TAIL = [0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 0, 0, 2, 1, 0, 0, 1, 0, 3, 0, 1, 0, 0, 2, 0]


def test_cbrs_agrees_with_the_published_algorithm():
    capacity, rng = 8, np.random.default_rng(11)
    ours = [kept("cbrs", LONG_TAIL, capacity, seed)[1].values() for seed in range(1_200)]
    theirs = [literal_cbrs(LONG_TAIL, capacity, rng) for _ in range(1_200)]
    counts = [np.bincount([i for run in runs for i in run], minlength=len(LONG_TAIL)) for runs in (ours, theirs)]
    for label in range(4):
        table = np.array([count[[c == label for c in LONG_TAIL]] for count in counts])
        if (table[0] == 1_200).all():  # a class kept whole
            assert (table[1] == 1_200).all()
        else:
            assert stats.chi2_contingency(table).pvalue > ALPHA, label
    sizes = [[tuple(np.bincount([LONG_TAIL[i] for i in run], minlength=4)) for run in runs] for runs in (ours, theirs)]
    assert set(sizes[0]) == set(sizes[1])
    assert stats.chi2_contingency(
        [[row.count(size) for size in sorted(set(sizes[0]))] for row in sizes] + np.array(1)
    ).pvalue > (ALPHA)


def test_cbrs_holds_a_uniform_sample_of_every_class():
    capacity, runs = 8, 2_000
    labels = np.array(LONG_TAIL)
    held = np.zeros(len(labels))
    sizes = np.zeros((runs, 4))
    for seed in range(runs):
        _, slots, _ = kept("cbrs", LONG_TAIL, capacity, seed)
        arrivals = list(slots.values())
        held[arrivals] += 1
        sizes[seed] = np.bincount(labels[arrivals], minlength=4)
    for label in range(4):
        counts = held[labels == label]
        supply = len(counts)
        variance = (sizes[:, label] / supply * (1 - sizes[:, label] / supply)).sum() * supply / (supply - 1 or 1)
        if variance:
            spread = ((counts - counts.mean()) ** 2).sum() / variance
            assert stats.chi2.sf(spread, supply - 1) > ALPHA, label
        else:
            assert (counts == runs).all()


@pytest.mark.parametrize("seed", range(8))
def test_cbrs_keeps_small_classes_whole_and_full_ones_do_not_grow(seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(6), [120, 60, 30, 4, 2, 1])).tolist()
    memory = reprise.Memory(30, "cbrs", "uniform", seed=seed)
    full, arrived = set(), dict.fromkeys(range(6), 0)
    for label in labels:
        before = memory.counts()
        filled = len(memory) == 30
        memory.store([label])
        arrived[label] += 1
        after = memory.counts()
        if filled:
            full |= {c for c, count in before.items() if count == max(before.values())}
            grown = [c for c in after if after[c] > before.get(c, 0)]
            assert not full & set(grown), "a full class has grown"
            assert label in full or grown == [label], "an example of a class that is not full was let go"
            assert max(after.values()) <= max(before.values())
        for c in set(range(6)) - full:
            assert after.get(c, 0) == arrived[c]
    assert [memory.counts()[c] for c in (3, 4, 5)] == [4, 2, 1]
    large = [memory.counts()[c] for c in (0, 1, 2)]
    assert max(large) - min(large) <= 2


# First in, first out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_fifo_holds_the_latest_in_order(capacity):
    labels = np.random.default_rng(0).integers(0, 5, 40).tolist()
    _, held, given = kept("fifo", labels, capacity, 0)
    assert given == [at % capacity for at in range(40)]
    assert sorted(held.values()) == list(range(40 - capacity, 40))
