"""The paper's Algorithm 1, transcribed line by line, agrees in law with `rpr` while the memory changes.

The transcription knows nothing of ours: plain lists, Python's own generator, every class list shuffled at every
step. Both are driven through the same contents of memory. What they return is compared as a distribution, over
seeds: whole trajectories where these are few, single batches, gaps and delays where they are many.
"""

from __future__ import annotations

import random

import pytest
from memory.sampling import ALPHA, same_law

import reprise


class Algorithm1:
    """Lines 1 to 25 and ClassSlots."""

    def __init__(self, rng):
        self.D, self.K, self.rng = [], set(), rng

    def step(self, M, b):
        """M lists the label of every stored example; return indices into it."""
        n, B = min(b, len(M)), []
        if n == 0:
            return B
        resident = set(M)
        self.D = [c for c in self.D if c in resident]
        for c in resident - self.K:
            self.D.insert(self.rng.randint(0, len(self.D)), c)
        self.K = resident
        H = {c: [i for i, label in enumerate(M) if label == c] for c in resident}
        for row in H.values():
            self.rng.shuffle(row)
        g = 0
        while len(B) < n and g <= len(M):
            V = self.class_slots(resident, n - len(B))
            g += 1
            for c in V:
                if H[c] and len(B) < n:
                    B.append(H[c].pop())
        return B

    def class_slots(self, resident, k):
        C = len(resident)
        out = []
        for _ in range(k // C):
            out += self.rng.sample(sorted(resident), C)
        partial = []
        while len(partial) < k % C:
            if not self.D:
                order = self.rng.sample(sorted(resident), C)
                self.D = [c for c in order if c not in partial] + [c for c in order if c in partial]
            partial.append(self.D.pop(0))
        return out + partial


# A script: capacity (first in, first out), what the memory holds at first, and per step how many are drawn and what
# arrives afterwards.
SCRIPTS = {
    "a refill in the middle of a batch": (3, [0, 1, 2], [(2, [])] * 4),
    "passes that share a batch": (5, [0, 1, 2, 3, 4], [(3, [])] * 4),
    "arrivals only": (8, [0, 1], [(2, [2]), (2, [3]), (2, [4, 5]), (2, []), (2, [])]),
    "departures only": (6, [0, 1, 2, 3, 4, 5], [(2, [5, 5]), (2, [5, 5]), (2, []), (2, [])]),
    "one out, one in": (4, [0, 1, 2, 3], [(2, [4]), (2, [5]), (2, [6]), (2, [7])]),
    "gone and back": (4, [0, 1, 2, 3], [(2, [9]), (2, [0]), (2, [1]), (2, [])]),
    "gone and back between two draws": (3, [0, 1, 2], [(1, [8, 1, 2, 0]), (1, [9, 9, 9, 0, 1, 2]), (1, []), (1, [])]),
    "all at once": (3, [0, 1, 2], [(2, [3, 4, 5]), (2, [0, 1, 2]), (2, [])]),
    "a draw of nothing between": (4, [0, 1, 2, 3], [(2, [4]), (0, [0]), (0, [5]), (2, []), (1, [])]),
    "more slots than classes": (9, [0, 0, 0, 1, 1, 1, 2, 2, 2], [(4, []), (2, []), (7, []), (1, [])]),
    "tiny classes": (5, [0, 1, 2, 2, 2], [(4, []), (5, [3]), (2, [])]),
    "a batch that may be short": (6, [0, 1, 2, 3, 4, 4], [(6, []), (6, []), (3, [])]),
    "more slots than examples": (4, [0, 1, 1, 1], [(9, [2]), (3, []), (1, [])]),
    "a growing request": (6, [0, 1, 2, 3, 4, 5], [(1, []), (2, []), (4, []), (5, [])]),
}
RUNS, REFERENCE = 750, 2_500


def ours(capacity, first, steps, seed):
    memory = reprise.Memory(capacity, "fifo", "rpr", seed=seed)
    memory.store(first)
    for n, arriving in steps:
        yield tuple(memory.draw(n).slots.tolist()), memory.labels.tolist()
        memory.store(arriving)


def contents(capacity, first, steps):
    held, seen = [], 0
    for _, arriving in [(0, first), *steps]:
        for label in arriving:
            held = [*held, label] if len(held) < capacity else held
            held[seen % capacity] = label
            seen += 1
        yield held.copy()


def theirs(capacity, first, steps, rng):
    algorithm = Algorithm1(rng)
    for (n, _), held in zip(steps, contents(capacity, first, steps), strict=False):
        yield tuple(algorithm.step(held, n)), held


def classes(run):
    return tuple(tuple(held[slot] for slot in slots) for slots, held in run)


def both(script, reference=REFERENCE):
    """Samples of ours and of the transcription's runs: per step the slots drawn and what the memory held."""
    rng = random.Random(repr(script))
    left = [list(ours(*script, seed)) for seed in range(RUNS)]
    right = [list(theirs(*script, rng)) for _ in range(reference)]
    for (_, here), (_, there) in zip(left[0], right[0], strict=True):
        assert here == there, "the two were not driven through the same contents"
    return left, right


@pytest.mark.parametrize("name", SCRIPTS)
def test_trajectories_agree_in_law(name):
    pair = both(SCRIPTS[name])
    runs = [[classes(run) for run in side] for side in pair]
    steps = len(SCRIPTS[name][2])
    if len(set(runs[1])) <= 200:
        assert same_law(*runs) > ALPHA, "whole trajectories"
    for step in range(steps):
        assert same_law(*([run[step] for run in side] for side in runs)) > ALPHA, f"step {step}, in order"
        slots = ([frozenset(run[step][0]) for run in side] for side in pair)
        assert same_law(*slots) > ALPHA, f"step {step}, which examples"
    for step in range(steps - 1):  # which classes the next batch brings, given this one
        joint = ([(frozenset(run[step]), frozenset(run[step + 1])) for run in side] for side in runs)
        assert same_law(*joint) > ALPHA, f"steps {step} and {step + 1}"
    lengths = [[tuple(map(len, run)) for run in side] for side in runs]
    assert same_law(*lengths) > ALPHA, "how many"
    assert set(lengths[0]) <= set(lengths[1])


# A longer stream: twelve classes come and go, seven or so of them held at a time.
_ARRIVING = random.Random(8)
LONG = (11, list(range(11)), [(3, _ARRIVING.choices(range(12), k=2)) for _ in range(24)])


def delay(run, label, since):
    """Steps from `since` until a class is drawn for the first time after it."""
    return next((step - since for step in range(since, len(run)) if label in run[step]), -1)


def test_gaps_and_first_visits_agree_in_law_under_churn():
    left, right = ([classes(run) for run in side] for side in both(LONG, 2_000))
    held = [set(row) for row in contents(*LONG)]
    assert {len(row) for row in held} >= {6, 7, 8}
    arrivals = [(c, t) for t in range(1, 20) for c in held[t] - held[t - 1]]
    assert len(arrivals) >= 10
    for label, since in arrivals:  # how long a newcomer waits for its first visit
        samples = [[delay(run, label, since) for run in runs] for runs in (left, right)]
        assert same_law(*samples) > ALPHA, (label, since)
    for step in (5, 10, 15):  # the gap under way at a step, of a class that is there
        label = min(held[step])
        spans = []
        for runs in (left, right):
            spans.append([])
            for run in runs:
                before = next((at for at in range(step, -1, -1) if label in run[at]), -1)
                spans[-1].append((step - before, delay(run, label, step + 1)))
        assert same_law(*spans) > ALPHA, step
    for label in range(12):  # how often a class comes in all
        counts = ([sum(label in batch for batch in run) for run in runs] for runs in (left, right))
        assert same_law(*counts) > ALPHA, label


def test_the_comparison_notices_what_differs():
    # The power of the above: the same scripts by schedules that are nearly rpr.
    script = SCRIPTS["a refill in the middle of a batch"]
    rng = random.Random(5)
    right = [classes(theirs(*script, rng)) for _ in range(REFERENCE)]
    for near in ("iid", "fixed", "window:1", "reused:2"):
        left = []
        for seed in range(RUNS):
            memory = reprise.Memory(script[0], "fifo", near, seed=seed)
            memory.store(script[1])
            left.append(tuple(tuple(memory.draw(n).labels.tolist()) for n, _ in script[2]))
        if near == "reused:2":  # differs only once an order could come back
            assert same_law([run[:3] for run in left], [run[:3] for run in right]) > ALPHA
        assert same_law(left, right) < 1e-12
