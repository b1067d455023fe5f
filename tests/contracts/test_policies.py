"""Every registered policy through the public checks, and broken ones through them too."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reprise.checks import Broken, check_retrieval, check_schedule, check_storage
from reprise.core import registry
from reprise.memory import (
    BalancedReservoir,
    Fifo,
    FixedCycle,
    IndependentBalanced,
    RandomisedPass,
    Reservoir,
    ReusedPass,
    Uniform,
)

ARGUMENTS = {"reused": "4", "hybrid": "2", "window": "0.5", "deadline": "1.5", "mir": "20"}
MORE = ["reused:1", "hybrid:1", "hybrid:50", "window:0.01", "window:1", "deadline:1.01", "deadline:9", "frozen-pass:3"]


def spec_of(name: str) -> str:
    return f"{name}:{ARGUMENTS[name]}" if name in ARGUMENTS else name


SCHEDULES = [*map(spec_of, registry.registered("schedule")), *MORE, "frozen-iid:3"]


@pytest.mark.parametrize("name", [name for name in registry.registered("storage") if name != "external"])
def test_storage(name):
    check_storage(name)


@pytest.mark.parametrize("spec", SCHEDULES)
def test_schedule(spec):
    check_schedule(spec)


@pytest.mark.parametrize("spec", [*map(spec_of, registry.registered("retrieval")), "mir:1"])
def test_retrieval(spec):
    check_retrieval(spec)


@pytest.mark.parametrize("spec", [*map(spec_of, registry.registered("schedule"))])
def test_schedule_with_example_pass(spec):
    check_retrieval(f"{spec}+pass")


# What the checks are for: each of these breaks one promise.


class Growing(RandomisedPass):
    """Depends on something outside its arguments and its random stream."""

    def take(self, k, batch):
        self.random.below(1 + random.randrange(3))
        return super().take(k, batch)


class Forgetful(RandomisedPass):
    """Its state leaves out the deck."""

    def state_dict(self):
        return {"residents": list(self.residents.ids), "deck": []}


class Unjust(IndependentBalanced):
    """Leaves the last class out, more often than not."""

    def take(self, k, batch):
        if k < len(self.ring.ids) and self.random.below(3):
            return [c for c in super().take(k + 1, batch) if c != max(self.ring.ids)][:k]
        return super().take(k, batch)


class Boasting(IndependentBalanced):
    """Promises a bound that independent draws do not keep."""

    def bound(self, classes, n):
        return 2 * -(-classes // n) - 1


class BoastingUnderChurn(IndependentBalanced):
    def churn_bound(self, most, inserted, n):
        return -(-(2 * most - 1 + inserted) // n)


class Snubbing(RandomisedPass):
    """Lets a newcomer wait for the next pass: after that it keeps every bound."""

    def begin(self, n, arrived, departed):
        self.residents.change(arrived, departed)
        self.deck.change((), departed, self.random)


class Grudging(RandomisedPass):
    """Never serves a class again that has been away, so that this wait never ends."""

    take_among = None  # it would know nothing of that

    def start(self, random):
        super().start(random)
        self.away, self.shunned = set(), set()

    def begin(self, n, arrived, departed):
        self.away.update(departed)
        back = self.away.intersection(arrived)
        super().begin(n, [c for c in arrived if c not in back], [c for c in departed if c not in self.shunned])
        self.shunned = (self.shunned | back).difference(departed)
        if not self.residents.ids:  # there is nobody else
            super().begin(n, sorted(self.shunned), ())
            self.shunned.clear()

    def state_dict(self):
        return super().state_dict() | {"away": sorted(self.away), "shunned": sorted(self.shunned)}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.away, self.shunned = set(state["away"]), set(state["shunned"])


class GrudgingInSilence(Grudging):
    """The same without a promise: nothing is broken."""

    first_bound = None


class Misjudging(IndependentBalanced):
    """Declares the law of passes: right in form and mean, wrong in what gaps do."""

    def gap_tail(self, classes, slots, longest):
        return RandomisedPass().gap_tail(classes, slots, longest)


class Lawless(RandomisedPass):
    """Declares a law that says one thing about itself that no law, or not this schedule's, can say."""

    def __init__(self, fault):
        self.fault = fault

    def gap_tail(self, classes, slots, longest):
        tail = super().gap_tail(classes, slots, longest)
        if self.fault == "short":
            return tail[:-1]
        if self.fault == "begin":
            return 0.9 * tail
        if self.fault == "rise":
            return np.where(np.arange(longest) == 2, 1.0, 0.5 + 0.5 * (np.arange(longest) < 1)) * (tail > 0)
        if self.fault == "floor":
            return (np.arange(longest) < 1).astype(float)
        if self.fault == "bound":
            return IndependentBalanced().gap_tail(classes, slots, longest)
        return np.minimum(tail, tail**2)  # its mean is too short


class Stale(FixedCycle):
    """Does not hear of departures."""

    def begin(self, n, arrived, departed):
        super().begin(n, [c for c in arrived if c not in self.residents], ())


class Repeating(IndependentBalanced):
    """Names the first class twice."""

    def take(self, k, batch):
        taken = super().take(k, batch)
        return [taken[0], *taken[: k - 1]]


class Careless(ReusedPass):
    """Its fresh copy has another argument."""

    def arguments(self):
        return {"traversals": 1 if self.traversals == 2 else 2}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Growing(), "global"),
        (Forgetful(), "restored"),
        (Unjust(), "serve classes alike"),
        (Boasting(), "promises waits of at most"),
        (BoastingUnderChurn(), "promises waits of at most .* after a visit"),
        (Snubbing(), "promises waits of at most .* after an arrival"),
        (Grudging(), "promises waits of at most .* after an arrival .* and was not served at step"),
        (Repeating(), "twice in a batch"),
        (Misjudging(), "with 12 classes and batches of 4, says that .* of gaps take . steps or more; .* did"),
        (Lawless("short"), "must give the probability .* shape"),
        (Lawless("begin"), "the first is 1; it gave 0.9"),
        (Lawless("rise"), "never rise"),
        (Lawless("floor"), "no schedule keeps every gap below 3"),
        (Lawless("bound"), "its bound is 5; by its law 0.13 of all gaps are longer"),
        (Lawless("mean"), "their mean is 3 steps, and by its law 2"),
        (Careless(2), "same arguments"),
        (Stale(), "failed where it must not: KeyError"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_schedule_is_found(broken, words):
    with pytest.raises(Broken, match=words):
        check_schedule(broken)


def test_a_schedule_that_promises_nothing_of_first_waits_breaks_nothing():
    check_schedule(GrudgingInSilence())


class Hasty(Reservoir):
    """Uses the count of the whole batch for each of its examples."""

    def assign(self, labels, index):
        self.tickets.seen += len(labels)
        slots = []
        for label in labels:
            slot = index.size if index.size < index.capacity else self.tickets.random.below(self.tickets.seen)
            slots.append(slot if slot < index.capacity else -1)
            if slot < index.capacity:
                index.put(slot, label)
        return slots


class Lying(Fifo):
    """Returns another slot than it writes."""

    def assign(self, labels, index):
        return [max(slot - 1, 0) for slot in super().assign(labels, index)]


class Peeking(Reservoir):
    """Lets the order of a list decide that retrieval also changes."""

    def assign(self, labels, index):
        if index._watchers and index._watchers[0]:
            self.tickets.take(labels[:1], index.capacity)
        return super().assign(labels, index)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Hasty(), "one by one"),
        (Lying(), "exactly the slots it returns"),
        (Peeking(), "whatever is retrieved|one by one"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_storage_is_found(broken, words):
    with pytest.raises(Broken, match=words):
        check_storage(broken)


class Doubling(Uniform):
    def draw(self, n, index, score):
        return (super().draw(n, index, score) * 2)[:n]


class Meddling(Uniform):
    def draw(self, n, index, score):
        index.put(0, 5)
        return super().draw(n, index, score)


class Lazy(Uniform):
    def draw(self, n, index, score):
        return super().draw(n, index, score)[1:]


class Shared(Uniform):
    """Its second channel uses the first one's random stream."""

    def start(self, source, index):
        self.random = source("example choice")
        self.random = _SHARED.setdefault((self.random.seed, id(index)), self.random)


_SHARED: dict = {}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Doubling(), "repeat an example"),
        (Meddling(), "leave the memory"),
        (Lazy(), "draw something"),
        (Shared(), "first channel|restored|same again"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_retrieval_is_found(broken, words):
    with pytest.raises(Broken, match=words):
        check_retrieval(broken)


def test_an_array_state_is_as_good_as_a_list():
    class Arrays(RandomisedPass):
        def state_dict(self):
            return {name: np.array(value, np.int64) for name, value in super().state_dict().items()}

    check_schedule(Arrays())


# Classes left out, and examples removed -----------------------------------------------------------------------------


class Deaf(RandomisedPass):
    """Serves a class that was to be left out."""

    def take_among(self, k, batch, barred):
        return self.take(k, batch)


class Shy(Uniform):
    """Draws nothing when a class is left out."""

    def draw_among(self, n, index, score, barred):
        return []


class Absent(Uniform):
    """Knows nothing of classes that are left out, and is let off."""

    draw_among = None


@pytest.mark.parametrize(
    ("policy", "words"), [(Deaf(), "must leave out"), (Shy(), "must draw something while anything may return")]
)
def test_a_policy_that_does_not_leave_classes_out_is_found(policy, words):
    with pytest.raises(Broken, match=words):
        check_retrieval(policy)


def test_a_policy_that_cannot_leave_classes_out_is_let_off():
    check_retrieval(Absent())


class Late(Fifo):
    """Does not hear which examples have moved."""

    def forget(self, slots, moves, index):
        super().forget(slots, (), index)


class Forgetful(BalancedReservoir):
    """Does not hear what was removed."""

    def forget(self, slots, moves, index):
        pass


@pytest.mark.parametrize("policy", [Late(), Forgetful()])
def test_a_storage_that_does_not_follow_a_removal_is_found(policy):
    with pytest.raises(Broken, match=r"removed|must write to filled slots|go on as it did"):
        check_storage(policy)
