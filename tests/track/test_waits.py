"""Waits counted step by step are those that the audit finds on the tape up to that step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.audit import measure
from reprise.memory import Memory
from reprise.memory.theory import fixed_set_bound
from reprise.tape import Tape, plan
from reprise.track.waits import WaitCounter

PASS = ("rpr", "iid", "reused:3", "window:0.5", "rpr+pass", "uniform")  # audited by the bounds of a randomised pass
OWN = ("rpr", "reused:3", "window:0.5", "fixed", "hybrid:2", "deadline:1.5", "frozen-pass")  # with bounds of their own


class Batches:
    """Labels that arrive in batches of the given sizes."""

    def __init__(self, labels: list[int], sizes: list[int]) -> None:
        self.labels = np.array(labels, np.int64)
        self.ends = np.minimum(np.cumsum(sizes), len(labels))

    def __iter__(self):
        return iter(np.split(np.arange(len(self.labels)), self.ends)[:-1])


@st.composite
def tapes(draw: st.DrawFn, retrievals: tuple[str, ...], least: int = 0) -> Tape:
    """Few classes in a small memory, so that they come, go and return all the time."""
    labels = draw(st.lists(st.integers(0, 9), min_size=1, max_size=80))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=40))
    storage = draw(st.sampled_from(["reservoir", "fifo", "brs"]))
    memory = Memory(
        draw(st.integers(1, 12)), storage, draw(st.sampled_from(retrievals)), draw(st.integers(0, 99)),
        draw(st.integers(1, 2)),
    )  # fmt: skip
    return plan(Batches(labels, sizes), memory, draw(st.integers(least, 4)))


def counted(tape: Tape):
    """The counter after each step."""
    counter = WaitCounter(tape.labels, tape.capacity, tape.replay_size, tape.retrieval)
    for incoming, replay, written in zip(tape.incoming, tape.replay, tape.written, strict=True):
        counter.step(incoming[incoming >= 0], replay, written[incoming >= 0])
        yield counter


def up_to(tape: Tape, steps: int) -> Tape:
    parts = {name: getattr(tape, name)[:steps] for name in ("incoming", "replay", "slots", "written")}
    return replace(tape, **parts, boundaries=np.array([steps]))


@given(tapes(PASS))
def test_every_figure_is_that_of_the_audit_after_every_step(tape):
    for steps, counter in enumerate(counted(tape), 1):
        audit = measure(up_to(tape, steps))
        assert counter.steps == steps
        for name in ("max", "first_max", "open_max", "cut_max"):
            assert getattr(counter, name) == getattr(audit, name), name
        assert counter.overdue == np.count_nonzero(audit.open.lengths >= audit.open.bounds)
        residents = len(audit.open)
        assert counter.pass_bound == (fixed_set_bound(residents, tape.replay_size) if residents else None)


@given(tapes(PASS))
def test_what_is_stored_is_what_was_written_last_to_each_slot(tape):
    held: dict[int, int] = {}
    for step, counter in enumerate(counted(tape)):
        for example, slot in zip(tape.incoming[step].tolist(), tape.written[step].tolist(), strict=True):
            if slot >= 0:
                held[slot] = int(tape.labels[example])
        assert (counter.examples, counter.classes) == (len(held), len(set(held.values())))


@given(tapes(OWN, least=1))
def test_a_schedule_that_promises_a_bound_is_never_overdue(tape):
    for counter in counted(tape):
        assert counter.overdue == 0


@pytest.mark.parametrize(("retrieval", "bound"), [("rpr", 5), ("fixed", 3), ("iid", None), ("uniform", None)])
def test_the_bound_is_that_of_the_schedule_for_as_many_classes_as_are_resident(retrieval, bound):
    tape = plan(Batches([*range(10), 0], [10, 1]), Memory(20, retrieval=retrieval), 4)
    *_, counter = counted(tape)
    assert (counter.bound, counter.pass_bound) == (bound, 5)
