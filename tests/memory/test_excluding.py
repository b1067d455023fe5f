"""Classes kept out of a draw: who returns instead, and how long those wait that were left out."""

from __future__ import annotations

import copy
from itertools import combinations
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.sampling import ALPHA, RETRIEVALS, SCHEDULES, still, uniform_fit

import reprise
from reprise.core.registry import Policy
from reprise.memory import RandomisedPass, as_retrieval

OTHERS = [spec for spec in SCHEDULES if not hasattr(as_retrieval(spec).schedule, "take_among")]
CALLS = st.lists(st.sets(st.integers(0, 8)), min_size=5, max_size=60)


def test_the_lists_of_these_tests_name_every_schedule():
    assert {*SCHEDULES} - {*OTHERS} == {"rpr", "fixed", "iid"}


def waits(memory, n, calls):
    """For every class the draws that allowed it, from the first on: whether it came. And what came at each draw."""
    classes = memory.classes.tolist()
    came = {label: [] for label in classes}
    for barred in calls:
        batch = set(memory.draw(n, exclude=barred).labels.tolist())
        allowed = [label for label in classes if label not in barred]
        assert batch <= set(allowed)
        assert len(batch) == min(n, len(allowed))
        for label in allowed:
            came[label].append(label in batch)
    return came


def longest(came):
    """The longest wait from the beginning, and the longest after a visit; one that has not ended ends a draw later."""
    visits = [place for place, visit in enumerate([*came, True]) if visit]
    return visits[0] + 1, max(np.diff(visits), default=0)


@given(classes=st.integers(1, 9), n=st.integers(1, 5), calls=CALLS, seed=st.integers(0, 9))
@settings(max_examples=100)
def test_a_pass_bounds_the_draws_that_allowed_a_class(classes, n, calls, seed):
    for came in waits(still("rpr", classes, each=5, seed=seed), n, calls).values():
        first, later = longest(came)
        assert first <= ceil(classes / n)
        assert later <= ceil((2 * classes - 1) / n)


@given(classes=st.integers(1, 9), n=st.integers(1, 5), calls=CALLS, seed=st.integers(0, 9))
@settings(max_examples=100)
def test_a_cycle_bounds_the_draws_that_allowed_a_class(classes, n, calls, seed):
    for came in waits(still("fixed", classes, each=5, seed=seed), n, calls).values():
        assert max(longest(came)) <= ceil((2 * classes - 1) / n)


@pytest.mark.parametrize("schedule", ["rpr", "fixed"])
@pytest.mark.parametrize(("classes", "n"), [(7, 1), (9, 2), (12, 4), (5, 4)])
def test_a_class_that_is_kept_out_whenever_its_turn_comes_is_the_next_to_come(schedule, classes, n):
    """An adversary that looks ahead. It can keep a class out for ever, but not by draws that allow it."""
    bound = ceil((2 * classes - 1) / n)
    rng = np.random.default_rng(classes)
    for seed in range(3):
        memory = still(schedule, classes, seed=seed)
        waited = 0
        for _ in range(80):
            others = set(rng.integers(1, classes, rng.integers(0, classes)).tolist())
            due = 0 in copy.deepcopy(memory).draw(n, exclude=others).labels
            keep_out = due and rng.random() < 0.8
            batch = memory.draw(n, exclude=others | {0} if keep_out else others).labels.tolist()
            waited = 0 if 0 in batch else waited + (not keep_out)
            assert waited < bound


@pytest.mark.parametrize(
    ("schedule", "bound"), [("rpr", lambda c, n: 2 * ceil(c / n) - 1), ("fixed", lambda c, n: ceil(c / n))]
)
@given(
    classes=st.integers(2, 9),
    n=st.integers(1, 5),
    calls=CALLS,
    barred=st.sets(st.integers(0, 8)),
    seed=st.integers(0, 9),
)
@settings(max_examples=50)
def test_the_rest_of_a_fixed_set_waits_as_if_there_were_no_others(schedule, bound, classes, n, calls, barred, seed):
    memory = still(schedule, classes, each=5, seed=seed)
    waits(memory, n, calls)
    rest = max(classes - len(barred & set(range(classes))), 1)
    for came in waits(memory, n, [barred] * 40).values():
        visits = np.flatnonzero(came)
        turn = 1 if schedule == "rpr" else 1 + (len(visits) > 2)  # a cycle first serves whoever it had passed over
        assert max(np.diff(visits[turn - 1 :]), default=0) <= bound(rest, n)


def test_the_bound_is_reached():
    """Class 0 may wait ⌈(2·4 − 1)/1⌉ = 7 of the draws that do not keep it out: first in one pass, last in the next."""
    found = set()
    for seed in range(200):
        memory = still("rpr", 4, seed=seed)
        found.add(longest(waits(memory, 1, [*[set()] * 7, {0}] * 4)[0])[1])
    assert max(found) == 7


@pytest.mark.parametrize("spec", RETRIEVALS)
def test_a_draw_that_keeps_nobody_out_is_any_draw(spec):
    plain, told = still(spec, 7), still(spec, 7)
    for step in range(30):
        ways = [
            {"exclude": []},
            {"exclude": {100, -3}},
            {"only": range(-2, 50)},
            {"exclude": np.array([9]), "only": [*range(7)]},
        ]
        assert told.draw(3, **ways[step % 4]).slots.tolist() == plain.draw(3).slots.tolist()
    assert told.state_dict() == plain.state_dict()


@pytest.mark.parametrize("spec", RETRIEVALS)
def test_when_nobody_is_left_the_draw_is_empty(spec):
    memory = still(spec, 5)
    for step in range(20):
        assert memory.steps == 3 * step
        assert not memory.draw(3, exclude=range(5))
        assert not memory.draw(3, only=[])
        assert set(memory.draw(2, only=[1, 3, 3, 9], exclude=[3]).labels.tolist()) == {1}


@pytest.mark.parametrize("spec", RETRIEVALS)
@given(script=st.lists(st.tuples(st.sets(st.integers(0, 6)), st.lists(st.integers(0, 6), max_size=3)), max_size=30))
@settings(max_examples=15)
def test_batches_are_sound(spec, script):
    memory = reprise.Memory(9, "fifo", spec, seed=1)
    for barred, arriving in script:
        allowed = [label for label in memory.labels.tolist() if label not in barred]
        drawn = memory.draw(4, exclude=barred)
        assert len(set(drawn.slots.tolist())) == len(drawn) <= min(4, len(allowed))
        assert memory.labels[drawn.slots].tolist() == drawn.labels.tolist()
        assert not barred & set(drawn.labels.tolist())
        assert bool(drawn) == bool(allowed)
        memory.store(arriving)


# Any other schedule -----------------------------------------------------------------------------------------------


class Told(RandomisedPass):
    """Notes what it is told; without `take_among`, as a schedule that somebody else wrote."""

    take_among = None  # type: ignore[assignment]
    known: set[int]

    def start(self, random):
        super().start(random)
        Told.known, Told.arrived = set(), 0

    def begin(self, n, arrived, departed):
        super().begin(n, arrived, departed)
        assert not Told.known & set(arrived)
        assert set(departed) <= Told.known
        Told.known = Told.known - set(departed) | set(arrived)
        Told.arrived += len(arrived)


@given(
    script=st.lists(
        st.tuples(st.none() | st.sets(st.integers(0, 6)), st.lists(st.integers(0, 6), max_size=3)), max_size=40
    )
)
@settings(max_examples=150)
def test_any_other_schedule_is_told_that_they_went_and_came(script):
    memory = reprise.Memory(6, "fifo", Told(), seed=0)
    for barred, arriving in script:
        memory.draw(2) if barred is None else memory.draw(2, exclude=barred)
        assert Told.known == set(memory.classes.tolist()) - (barred or set())
        memory.store(arriving)


@pytest.mark.parametrize("spec", OTHERS)
@given(classes=st.integers(2, 8), n=st.integers(1, 4), calls=CALLS, seed=st.integers(0, 9))
@settings(max_examples=15)
def test_any_other_schedule_keeps_its_churn_bound_for_whoever_is_always_allowed(spec, classes, n, calls, seed):
    """Others count as insertions whenever they come again."""
    memory = still(spec, classes, each=5, seed=seed)
    schedule = as_retrieval(spec).schedule
    before: set[int] = set()
    most, inserted, waited, arrival = 0, 0, 0, True
    for barred in calls:
        known = set(range(classes)) - (barred - {0})
        most, inserted = max(most, len(known)), inserted + len(known - before) * (waited > 0 or not arrival)
        before, waited = known, waited + 1
        batch = memory.draw(n, exclude=barred - {0}).labels.tolist()
        promise = getattr(schedule, "first_bound", None) if arrival else schedule.churn_bound
        bound = None if promise is None else promise(most, inserted, n)
        assert bound is None or waited + (0 not in batch) <= bound
        if 0 in batch:
            most, inserted, waited, arrival = len(known), 0, 0, False


# Who returns instead ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["iid", "rpr"])
def test_any_of_the_others_are_as_likely(spec):
    drawn = [tuple(sorted(still(spec, 6, seed=seed).draw(2, exclude=[1, 4]).labels.tolist())) for seed in range(1500)]
    assert uniform_fit(drawn, combinations([0, 2, 3, 5], 2)) > ALPHA


def test_independent_draws_stay_independent_of_who_was_kept_out():
    memory = still("iid", 6)
    drawn = []
    for _ in range(3000):
        memory.draw(2, exclude=[0, 5])
        drawn.append(tuple(sorted(memory.draw(2, only=[0, 2, 3, 5]).labels.tolist())))
    assert uniform_fit(drawn, combinations([0, 2, 3, 5], 2)) > ALPHA


def test_uniform_retrieval_is_uniform_on_the_other_slots():
    memory = reprise.Memory(8, retrieval="uniform", seed=0)
    memory.store([0, 1, 2, 2, 2, 1, 0, 3])
    drawn = [tuple(sorted(memory.draw(2, exclude=[0]).slots.tolist())) for _ in range(4000)]
    assert uniform_fit(drawn, combinations([1, 2, 3, 4, 5, 7], 2)) > ALPHA
    drawn = [int(memory.draw(1, exclude=[0]).slots[0]) for _ in range(4000)]  # few are left out: slots are tried
    assert uniform_fit(drawn, [1, 2, 3, 4, 5, 7]) > ALPHA


def test_uniform_retrieval_is_uniform_on_many_other_slots():
    memory = reprise.Memory(12, retrieval="uniform", seed=0)
    memory.store([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])
    for barred, left in (([0], [1, 2, 3, 5, 6, 7, 9, 10, 11]), ([0, 3], [1, 2, 5, 6, 9, 10])):
        drawn = [tuple(sorted(memory.draw(2, exclude=barred).slots.tolist())) for _ in range(4000)]
        assert uniform_fit(drawn, combinations(left, 2)) > ALPHA


def test_retrieval_by_score_has_candidates_of_the_others_only():
    memory = reprise.Memory(8, retrieval="mir:3", seed=0)
    memory.store([0, 1, 2, 2, 2, 1, 0, 3])
    asked: list[int] = []

    def score(slots):
        asked.extend(slots.tolist())
        return -slots

    for _ in range(50):
        best = memory.draw(1, score=score, exclude=[2]).slots.tolist()
        assert best == [min(asked[-3:])]
    assert set(asked) == {0, 1, 5, 6, 7}
    assert not memory.draw(1, score=score, only=[9])
    with pytest.raises(ValueError, match="chooses by score"):
        memory.draw(1, exclude=[2])


@given(calls=CALLS, seed=st.integers(0, 9))
@settings(max_examples=60)
def test_examples_go_by_passes_as_if_nobody_were_kept_out(calls, seed):
    """No example waits more than two passes of its class, less one visit: 5 visits where a class has three."""
    memory = still("rpr+pass", 5, each=3, seed=seed)
    last: dict[int, int] = {}
    visits = dict.fromkeys(range(5), 0)
    for barred in calls:
        drawn = memory.draw(2, exclude=barred)
        for slot, label in zip(drawn.slots.tolist(), drawn.labels.tolist(), strict=True):
            visits[label] += 1
            assert visits[label] - last.get(slot, visits[label] - 1) <= 5
            last[slot] = visits[label]
    assert all(visits[int(memory.labels[slot])] - at < 5 for slot, at in last.items())


# What cannot be -----------------------------------------------------------------------------------------------------


class First(Policy):
    """A retrieval that knows nothing of this."""

    def start(self, source, index):
        pass

    def draw(self, n, index, score):
        return list(range(min(n, index.size)))

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_a_retrieval_that_cannot_leave_classes_out_says_so():
    memory = reprise.Memory(4, retrieval=First(), seed=0)
    memory.store([0, 1, 2])
    before = memory.state_dict()
    with pytest.raises(ValueError, match=r"'First\(\)' cannot leave classes out: it has no method 'draw_among'"):
        memory.draw(2, exclude=[1])
    assert memory.state_dict() == before
    assert memory.draw(2, exclude=[7]).slots.tolist() == [0, 1]
    memory.clear()
    assert not memory.draw(2)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"exclude": 3}, "exclude must be one-dimensional"),
        ({"exclude": [0.5]}, "exclude must be whole numbers"),
        ({"only": "cat"}, "only must be whole numbers"),
        ({"only": [[1], [2]]}, "only must be one-dimensional"),
    ],
)
def test_bad_labels_change_nothing(what, words):
    memory = still("rpr", 3)
    before = memory.state_dict()
    with pytest.raises((TypeError, ValueError), match=words):
        memory.draw(2, **what)
    assert memory.state_dict() == before
