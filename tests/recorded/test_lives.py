"""Whatever happens to a memory: its audit is right, its bounds hold, and its state is all there is."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal_audit import agree
from recorded.lives import ASSIGNED, EVENTS, Event, live

from reprise.recorded import RecordedMemory

STORAGES = ("reservoir", "brs", "brs-always", "cbrs", "fifo", "external")
RETRIEVALS = (
    "rpr",
    "rpr+pass",
    "fixed",
    "iid+pass",
    "uniform",
    "reused:2",
    "deadline:1.5",
    "frozen-pass",
    "window:0.5",
)


@st.composite
def lives(draw: Any, retrievals: tuple[str, ...]) -> tuple[dict[str, Any], int, list[Event]]:
    storage = draw(st.sampled_from(STORAGES))
    memory = {
        "capacity": draw(st.integers(1, 10)),
        "storage": storage,
        "retrieval": draw(st.sampled_from(retrievals)),
        "seed": draw(st.integers(0, 3)),
        "draws": draw(st.integers(1, 2)),
    }
    events = st.one_of(EVENTS, ASSIGNED) if storage == "external" else EVENTS
    return memory, draw(st.integers(1, 4)), draw(st.lists(events, max_size=60))


@settings(max_examples=max(150, settings().max_examples))
@given(lives(("rpr", "rpr+pass")))
def test_no_wait_is_longer_than_the_bound(life: tuple[dict[str, Any], int, list[Event]]) -> None:
    arguments, n, events = life
    memory = RecordedMemory(**arguments)
    live(memory, n, events)
    audit = agree(memory.tape())
    assert (audit.violations, audit.overdue) == (0, 0)


@settings(max_examples=max(100, settings().max_examples))
@given(lives(RETRIEVALS))
def test_the_audit_is_that_of_a_literal_recount(life: tuple[dict[str, Any], int, list[Event]]) -> None:
    arguments, n, events = life
    memory = RecordedMemory(**arguments)
    live(memory, n, events)
    tape = memory.tape()
    agree(tape)
    assert tape.capacity >= memory.capacity


@settings(max_examples=max(100, settings().max_examples))
@given(lives(RETRIEVALS), st.integers(0, 60))
def test_a_state_goes_on_as_the_memory_would_have(life: tuple[dict[str, Any], int, list[Event]], at: int) -> None:
    arguments, n, events = life
    first = RecordedMemory(**arguments)
    live(first, n, events[:at])
    state = first.state_dict()
    fresh = RecordedMemory(**{**arguments, "seed": 9})
    fresh.load_state_dict(json.loads(json.dumps(state)))
    others = [fresh, copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    assert all(other.state_dict() == state for other in others)
    expected = live(first, n, events[at:])
    for other in others:
        assert live(other, n, events[at:]) == expected
        assert other.state_dict() == first.state_dict()
        assert other.tape() == first.tape()
        assert repr(other) == repr(first)


@pytest.mark.parametrize("storage", STORAGES)
def test_lives_are_long_enough_to_mean_something(storage: str) -> None:
    rng = random.Random(1)
    events: list[Event] = []

    def label() -> int:
        return rng.randrange(9)

    for _ in range(400):
        events.append(
            ("draw", rng.choice([{}, {"exclude": [label(), label()]}, {"only": [label() for _ in range(5)]}]))
        )
        filling = [(rng.randrange(40), rng.choice([-1, label(), label()])) for _ in range(3)]
        events.append(("assign", filling) if storage == "external" else ("store", [label() for _ in range(3)]))
        events.append(rng.choice([("remove", [rng.randrange(40)]), ("store", []), ("resize", rng.randrange(12, 25))]))
    memory = RecordedMemory(20, storage, "rpr", seed=1, draws=1 + STORAGES.index(storage) % 2)
    live(memory, 2, events)
    tape = memory.tape()
    audit = agree(tape)
    assert (audit.violations, audit.overdue) == (0, 0)
    assert len(tape.moved) > 100
    assert len(tape.excluded) > 500
    assert audit.deactivations > 10
    assert audit.max > 5
    assert audit.wall_max > audit.max
