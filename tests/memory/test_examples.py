"""Which example of a class returns, and batches that ask for more classes than there are."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from memory.sampling import ALPHA, FROZEN, RENEWED, RETRIEVALS, SCHEDULES, fit, still, uniform_fit

import reprise
from reprise.core.registry import parse
from reprise.memory import IndependentBalanced, Scheduled


def filled(retrieval, counts, seed=0):
    """A full memory that holds so many examples of class 0, 1, …"""
    memory = reprise.Memory(sum(counts), retrieval=retrieval, seed=seed)
    memory.store(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)))
    return memory


# Any example ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", ["rpr", "iid", "fixed", "frozen-pass", "deadline:2"])
def test_examples_of_a_class_are_uniform_and_independent(retrieval):
    # Two visits in a row: 25 outcomes, some 2,000 of them.
    memory = still(retrieval, 4, each=5)
    own = np.flatnonzero(memory.labels == 2).tolist()
    visits = [slot for _ in range(8_000) for slot in memory.draw(2).slots.tolist() if slot in own]
    pairs = zip(visits[::2], visits[1::2], strict=False)
    assert uniform_fit(pairs, [(i, j) for i in own for j in own]) > ALPHA


@pytest.mark.parametrize("retrieval", ["rpr", "iid", "fixed", "frozen-iid", "uniform", "hybrid:2"])
def test_several_examples_of_a_class_are_a_uniform_sample_in_uniform_order(retrieval):
    memory = filled(retrieval, [5])
    drawn = [tuple(memory.draw(3).slots.tolist()) for _ in range(3_000)]
    assert uniform_fit(drawn, permutations(range(5), 3)) > ALPHA


# +pass ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", ["rpr+pass", "iid+pass", "fixed+pass", "deadline:2+pass", "frozen-iid+pass"])
@pytest.mark.parametrize("each", [1, 2, 5])
def test_every_example_of_a_class_comes_before_any_again(retrieval, each):
    memory = still(retrieval, 6, each=each)
    rows = {label: [] for label in range(6)}
    for _ in range(300):
        draw = memory.draw(4)
        for slot, label in zip(draw.slots.tolist(), draw.labels.tolist(), strict=True):
            rows[label].append(slot)
    for label, row in rows.items():
        own = set(np.flatnonzero(memory.labels == label).tolist())
        for start in range(0, len(row) - each + 1, each):
            assert set(row[start : start + each]) == own
        for slot in own:
            assert np.diff(np.flatnonzero(np.array(row) == slot)).max() <= 2 * each - 1


def test_passes_of_examples_are_uniform_permutations_and_independent():
    # One class a step, three examples: two passes in a row have 36 outcomes.
    memory = filled("rpr+pass", [3])
    row = [int(memory.draw(1).slots[0]) for _ in range(6 * 1_500)]
    passes = [tuple(row[start : start + 3]) for start in range(0, len(row), 3)]
    orders = list(permutations(range(3)))
    assert uniform_fit(zip(passes[::2], passes[1::2], strict=True), [(i, j) for i in orders for j in orders]) > ALPHA


def test_a_pass_of_examples_that_ends_within_a_batch_repeats_nothing():
    memory = filled("rpr+pass", [5, 3])
    for _ in range(400):
        slots = memory.draw(7).slots.tolist()
        assert len(set(slots)) == 7


def test_an_overwritten_slot_holds_a_new_example():
    # Fifo overwrites slot 0 by the same class while slots 0 to 3 are in the middle of their pass.
    for seed in range(30):
        memory = reprise.Memory(4, "fifo", "rpr+pass", seed=seed)
        memory.store([5, 5, 5, 5])
        before = [int(memory.draw(1).slots[0]) for _ in range(2)]
        memory.store([5])  # into slot 0
        rest = [int(memory.draw(1).slots[0]) for _ in range(10)]
        unseen = {1, 2, 3} - set(before)
        assert set(rest[: len(unseen)]) == unseen, "an old example of this pass was left out"
        following = rest[len(unseen) : len(unseen) + 4]
        assert set(following) == {0, 1, 2, 3}, "the new example does not come in the next pass"


def test_plain_schedules_and_pass_share_the_classes():
    plain, passing = still("rpr", 9, each=4), still("rpr+pass", 9, each=4)
    for _ in range(50):
        assert plain.draw(4).labels.tolist() == passing.draw(4).labels.tolist()


# More slots than classes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", [spec for spec in RENEWED if spec != "uniform"])
@pytest.mark.parametrize("suffix", ["", "+pass"])
def test_with_more_slots_than_classes_all_are_served_alike(retrieval, suffix):
    for classes in (1, 2, 3, 5):
        memory = still(retrieval + suffix, classes, each=20)
        for n in (*range(classes, 4 * classes), classes):
            draw = memory.draw(n)
            assert len(set(draw.slots.tolist())) == n
            counts = Counter(draw.labels.tolist())
            assert len(counts) == classes
            assert set(counts.values()) <= {n // classes, -(-n // classes)}, (retrieval, classes, n, counts)


@pytest.mark.parametrize("retrieval", ["rpr", "iid"])
def test_the_slots_over_go_to_each_class_equally_often(retrieval):
    memory = still(retrieval, 3, each=10)
    over = [Counter(memory.draw(4).labels.tolist()).most_common(1)[0][0] for _ in range(3_000)]
    if retrieval == "rpr":  # by the deck: once each in three draws
        assert all(set(over[start : start + 3]) == {0, 1, 2} for start in range(0, 3_000, 3))
    assert uniform_fit(over[:: 3 if retrieval == "rpr" else 1], range(3)) > ALPHA


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_a_batch_never_repeats_and_is_short_only_for_want_of_examples(retrieval):
    for counts in ([1], [1, 1], [3, 1], [1, 2, 4], [1, 1, 1, 1, 2], [6, 1, 1, 1], [2, 2, 2], [9, 1, 1, 5, 1, 1]):
        memory = filled(retrieval, counts, seed=len(counts))
        for n in [*range(1, sum(counts) + 3)] * 3:
            draw = memory.draw(n)
            slots = draw.slots.tolist()
            assert len(set(slots)) == len(slots) <= min(n, sum(counts))
            assert draw.labels.tolist() == memory.labels[draw.slots].tolist()
            if retrieval.startswith("frozen"):
                continue
            if n <= len(counts) or min(counts) >= -(-n // len(counts)) or retrieval == "uniform":
                assert len(slots) == min(n, sum(counts)), (counts, n)
            assert retrieval == "uniform" or len(set(draw.labels.tolist())) == min(n, len(counts))


@pytest.mark.parametrize("retrieval", FROZEN)
def test_a_frozen_batch_is_short_only_when_its_block_is_used_up(retrieval):
    for counts in ([3, 1], [9, 1], [1, 2, 4], [1, 1, 1, 1, 2], [6, 1, 1, 1], [9, 1, 1, 5, 1, 1], [2, 7, 1]):
        for first in (2, 3, 5):
            memory = filled(retrieval, counts, seed=first)
            for n in [first, *range(1, sum(counts) + 3)] * 3:
                drawn = memory.draw(n).labels.tolist()
                short = min(n, sum(counts)) - len(drawn)
                left = {c: counts[c] - drawn.count(c) for c in set(drawn)}
                assert not short or not any(left.values()), f"{counts}, n={n}: short by {short}, left over {left}"


class Counted:
    """A schedule that counts how often it is asked in a draw."""

    def __init__(self, spec):
        self.inner, _ = parse(spec, "schedule")
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def fresh(self):
        return self

    def begin(self, n, arrived, departed):
        self.asked = 0
        self.inner.begin(n, arrived, departed)

    def take(self, k, batch):
        self.asked += 1
        return self.inner.take(k, batch)


@pytest.mark.parametrize("retrieval", ["fixed", "rpr", "iid", "reused:2", "window:0.5", "hybrid:3", "deadline:2"])
def test_a_schedule_is_asked_once_more_than_the_memory_has_examples_at_most(retrieval):
    # Five classes, one of them with two examples: the sixth slot is asked for again and again, and perhaps in vain.
    # A class asked for after the last round would be lost: taken from the deck and never shown.
    shorts = 0
    for seed in range(100):
        memory = filled(counted := Counted(retrieval), [1, 1, 1, 1, 2], seed=seed)
        for _ in range(5):
            shorts += len(memory.draw(6)) < 6
            assert counted.asked <= 7
    assert shorts or retrieval not in ("rpr", "iid"), "the corner case was not met"


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_an_empty_memory_and_an_empty_request(retrieval):
    memory = reprise.Memory(5, retrieval=retrieval)
    assert not memory.draw(3)
    assert memory.draw(3).slots.dtype == memory.draw(3).labels.dtype == np.int64
    memory.store([1, 2])
    before = memory.state_dict()["channels"]
    assert len(memory.draw(0)) == 0
    assert str(memory.state_dict()["channels"]) == str(before), "a draw of nothing changed something"
    assert memory.steps == 4


def test_more_slots_than_examples_return_the_whole_memory():
    for retrieval in SCHEDULES:
        if retrieval.startswith("frozen"):
            continue
        memory = filled(retrieval, [3, 3, 3])
        assert sorted(memory.draw(50).slots.tolist()) == list(range(9)), retrieval


def test_a_schedule_object_can_be_given():
    memory = reprise.Memory(8, retrieval=Scheduled(IndependentBalanced(), example_pass=True))
    assert memory.retrieval_spec == "iid+pass"
    memory.store(range(8))
    sample = [memory.draw(2).slots[0] for _ in range(800)]
    assert fit(sample, [1 / 8] * 8) > ALPHA
