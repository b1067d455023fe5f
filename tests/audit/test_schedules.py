"""Our own schedules, planned on a fixed balanced memory, follow the theory's laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reprise
from reprise.audit import theory


class Silence:
    """A stream that brings nothing."""

    labels = np.empty(0, np.int64)

    def __init__(self, steps):
        self.steps = steps

    def __iter__(self):
        return iter([self.labels] * self.steps)


class Given:
    """A stream of these labels, three a step."""

    def __init__(self, labels):
        self.labels = np.array(labels, np.int64)

    def __iter__(self):
        return iter(np.split(np.arange(len(self.labels)), range(3, len(self.labels), 3)))


def audit(retrieval, C, b, steps=4_000, per_class=10):
    memory = reprise.Memory(capacity=C * per_class, storage="reservoir", retrieval=retrieval, seed=1)
    memory.store(np.repeat(np.arange(C), per_class))
    return reprise.audit.measure(reprise.plan(Silence(steps), memory, replay=b))


def distance(gaps, law):
    """Total variation between measured gaps and a law."""
    share = np.bincount(gaps, minlength=len(law)) / len(gaps)
    assert len(share) == len(law)
    return abs(share - law).sum() / 2


@pytest.mark.parametrize(("C", "b"), [(40, 8), (20, 8), (25, 8), (9, 8)])
def test_rpr(C, b):
    found = audit("rpr", C, b)
    assert distance(found.gaps, theory.rpr_gap_pmf(C, b)) < 0.01
    assert found.violations == 0


@pytest.mark.parametrize(("C", "b", "S"), [(40, 8, 1.5), (100, 8, 1.2), (20, 4, 2)])
def test_deadline(C, b, S):
    found = audit(f"deadline:{S}", C, b)
    assert found.max == theory.deadline_cap(C, b, S)
    assert distance(found.gaps, theory.deadline_gap_pmf(C, b, S)) < 0.03


@pytest.mark.parametrize(("C", "b", "W"), [(40, 8, 0.1), (100, 8, 0.1), (100, 8, 0.5)])
def test_window(C, b, W):
    found = audit(f"window:{W}", C, b)
    shortest, longest = theory.window_bounds(C, b, W)
    assert shortest <= found.gaps.min() <= found.max <= longest


def test_iid_and_uniform():
    assert audit("iid", 40, 8).gaps.var() == pytest.approx(theory.iid_gap_variance(40, 8), rel=0.1)
    uniform = audit("uniform", 20, 8)
    assert uniform.exposure.mean() == pytest.approx(theory.uniform_inclusion(20, 10, 8), rel=0.01)


def test_a_class_that_uniform_forgets_shows():
    """What no gap tells: the longest gap is 129, and class 1 was not replayed for the last 267 steps."""
    stream = reprise.streams.label_stream("cifar100-lt10", seed=1)
    memory = reprise.Memory(capacity=5120, retrieval="uniform", seed=1)
    found = reprise.audit.measure(reprise.plan(stream, memory, replay=8))
    assert (found.max, found.open_max, found.longest) == (129, 267, 267)
    assert found.open.lengths[found.open.classes == 1].tolist() == [267]
    assert (found.first_max, found.never) == (186, 2)


@pytest.mark.parametrize("retrieval", ["rpr", "fixed", "reused:4", "window:0.5"])
@pytest.mark.parametrize("draws", [1, 2])
@given(
    capacity=st.integers(1, 12),
    replay=st.integers(1, 5),
    labels=st.lists(st.integers(0, 20), max_size=120),
    storage=st.sampled_from(["fifo", "reservoir", "brs"]),
)
@settings(max_examples=40)
def test_no_wait_of_a_pass_is_overdue(retrieval, draws, capacity, replay, labels, storage):
    memory = reprise.Memory(capacity, storage, retrieval, seed=len(labels), draws=draws)
    found = reprise.audit.measure(reprise.plan(Given(labels), memory, replay=replay))
    assert (found.violations, found.overdue) == (0, 0)
    assert (found.first.lengths <= found.first.bounds).all()
    assert (found.open.lengths < found.open.bounds).all()
    assert (found.cut.lengths < found.cut.bounds).all()
