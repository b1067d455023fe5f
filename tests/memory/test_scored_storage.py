"""Storage that is told of the model: what it is told, when, and that nothing moves when that goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reprise
from reprise.checks import Broken, check_storage
from reprise.core.registry import Policy
from reprise.memory import Memory, is_scored

CAPACITY = 4


class Highest(Policy):
    """Keeps the examples with the largest first number, whatever comes; ties stay as they are."""

    scored = "features"

    def start(self, source):
        self.random = source("storage")

    def assign(self, labels, index, score):
        self.random.below(7)  # as a storage does that compares with a random few
        stored = score(np.arange(index.size))[:, 0].tolist() if index.size else []
        slots = []
        for value in score()[:, 0].tolist():
            slot = len(stored) if len(stored) < index.capacity else int(np.argmin(stored))
            if slot == len(stored):
                stored.append(value)
            elif value > stored[slot]:
                stored[slot] = value
            else:
                slot = -1
            slots.append(slot)
        index.put_all(slots, labels)
        return slots

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Late(Highest):
    """Asks again when it has written."""

    def assign(self, labels, index, score):
        slots = super().assign(labels, index, score)
        score(np.arange(index.size))
        return slots


def test_it_keeps_by_what_it_is_told_of_both_sides():
    memory = Memory(CAPACITY, Highest(), "uniform", seed=0)
    held = {}
    for values in ([5, 1, 7], [2, 9], [8, 0, 6, 3]):
        asked = []

        def score(slots=None, values=values, asked=asked):
            asked.append(None if slots is None else slots.tolist())
            return np.array([[v, 0] for v in (values if slots is None else [held[s] for s in slots])])

        before = len(memory)
        slots = memory.store([0] * len(values), score=score).tolist()
        held.update({slot: value for slot, value in zip(slots, values, strict=True) if slot >= 0})
        assert asked == ([list(range(before))] if before else []) + [None]
    assert sorted(held.values()) == [6, 7, 8, 9]


def test_it_keeps_its_contract_and_a_late_question_is_found():
    check_storage(Highest())
    with pytest.raises(Broken, match="asks for scores before it writes"):
        check_storage(Late())


WRONG = {
    "no score": (None, r"'?Highest\(\)'? keeps by a score: call store\(labels, score=function of slots\)"),
    "too few": (lambda slots=None: np.zeros(1), "finite numbers for each of 3 examples"),
    "not a number": (lambda slots=None: np.full(3, np.nan), "finite numbers"),
    "a cube": (lambda slots=None: np.zeros((3, 1, 1)), "finite numbers"),
    "an error": (lambda slots=None: 1 / 0, "division by zero"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_score_changes_nothing(wrong):
    score, said = WRONG[wrong]
    memory = Memory(CAPACITY, Highest(), "uniform", seed=0)
    memory.store([1, 2, 3], score=lambda slots=None: np.arange(3.0))
    before = memory.state_dict()
    with pytest.raises((ValueError, ZeroDivisionError), match=said):
        memory.store([4, 5, 6], score=score)
    assert memory.state_dict() == before


def test_other_storage_takes_no_score_and_slots_must_be_filled():
    with pytest.raises(ValueError, match=r"'fifo' does not keep by a score: call store\(labels\)"):
        Memory(CAPACITY, "fifo", seed=0).store([1], score=lambda slots=None: [0.0])

    class Far(Highest):
        def assign(self, labels, index, score):
            return score([index.capacity]).tolist()

    with pytest.raises(ValueError, match="slots must be 0 to -1, got 4"):
        Memory(CAPACITY, Far(), seed=0).store([1], score=lambda slots=None: [0.0])


def test_it_cannot_be_planned():
    memory = Memory(CAPACITY, Highest(), "rpr", seed=0)
    assert is_scored(memory.storage)
    assert memory.scored == "Highest()"
    assert Memory(CAPACITY, "fifo", "mir:3").scored == "mir:3"
    assert Memory(CAPACITY, "fifo", "rpr").scored is None
    with pytest.raises(ValueError, match=r"'Highest\(\)' chooses by a score of the model, so it cannot be planned"):
        reprise.plan(reprise.streams.from_labels([0, 1], tasks=1), memory)


def test_a_buffer_passes_the_question_on():
    buffer = reprise.ReplayBuffer(CAPACITY, Highest(), seed=0)
    for x in (torch.tensor([[3.0], [1.0], [4.0]]), torch.tensor([[1.5], [5.0], [9.0]])):

        def tell(slots=None, x=x):
            return x if slots is None else buffer.at(slots).x

        buffer.store(x, [0, 1, 2], score=tell)
    assert sorted(buffer.at(range(4)).x[:, 0].tolist()) == [3, 4, 5, 9]
    with pytest.raises(TypeError, match="score must be a function of slots, and no column has that name"):
        buffer.store(x, [0, 1, 2], score=x)
