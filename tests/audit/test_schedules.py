"""Our own schedules, planned on a fixed balanced memory, follow the theory's laws."""

from __future__ import annotations

import numpy as np
import pytest

import reprise
from reprise.audit import theory


class Silence:
    """A stream that brings nothing."""

    labels = np.empty(0, np.int64)

    def __init__(self, steps):
        self.steps = steps

    def __iter__(self):
        return iter([self.labels] * self.steps)


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
