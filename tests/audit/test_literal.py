"""The audit agrees with a slow auditor that goes step by step and was written from the definitions alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal_audit import agree, literal_audit

from reprise.audit import measure
from reprise.audit.cooccurrence import count_pairs

LABELS = (0, 1, 2, 5, 9, 10**6)


@st.composite
def scripts(draw):
    """A memory's life: anything may arrive, overwrite anything, be drawn or not, at once or again."""
    capacity = draw(st.integers(1, 6))
    size = draw(st.integers(1, 4))
    draws = draw(st.integers(1, 2))
    label = st.sampled_from(LABELS[: draw(st.integers(1, len(LABELS)))])
    initial = draw(st.lists(label, max_size=capacity))
    held = len(initial)
    steps = []
    place = st.integers(0, 11)
    step = st.tuples(
        st.lists(st.lists(place, max_size=size), min_size=draws, max_size=draws),
        st.lists(st.tuples(label, st.integers(-1, 11)), max_size=4),
    )
    for drawn, arriving in draw(st.lists(step, max_size=25)):
        taken = [list(dict.fromkeys(p % held for p in one)) if held else [] for one in drawn]
        written = []
        for new, choice in arriving:
            # A slot already filled, or the next free one; -1 turns the example away.
            slot = choice if choice < 0 else choice % min(held + 1, capacity)
            held = max(held, slot + 1)
            written.append((new, slot))
        steps.append((taken, written))
    return {"steps": steps, "initial": initial, "replay_size": size, "draws": draws, "slots": True}


@settings(max_examples=max(500, settings().max_examples))
@given(scripts())
def test_any_tape(tape_of, script):
    agree(tape_of(**script))


def random_script(seed, steps, classes, capacity, size, draws, arriving):
    """A longer life than hypothesis makes: classes come in waves, so that they leave and return."""
    rng = np.random.default_rng(seed)
    held, script = 0, []
    for step in range(steps):
        taken = [rng.permutation(held)[: rng.integers(size + 1)].tolist() for _ in range(draws)]
        written = []
        for _ in range(rng.integers(arriving + 1)):
            label = int(step // 20 * 3 + rng.integers(5)) % classes
            slot = int(rng.integers(-1, min(held + 1, capacity)))
            held = max(held, slot + 1)
            written.append((label, slot))
        script.append((taken, written))
    return {"steps": script, "replay_size": size, "draws": draws, "slots": True}


@pytest.mark.parametrize("seed", range(6))
def test_a_long_life(tape_of, seed):
    script = random_script(seed, 400, classes=30, capacity=12 + 4 * seed, size=3 + seed, draws=1 + seed % 2, arriving=3)
    audit = agree(tape_of(**script))
    # The comparison means little unless everything that can happen did.
    assert audit.deactivations > 10
    assert audit.violations > 0
    assert audit.wall_max > audit.max
    assert audit.overdue > len(audit.cut) // 10 > 0
    assert len(audit.wall_gaps) > len(audit.gaps) > 300


@pytest.mark.parametrize("chunk", [1, 2, 7, 50, 10**6])
def test_pairs_do_not_depend_on_the_chunk(tape_of, chunk):
    tape = tape_of(**random_script(1, 200, classes=20, capacity=30, size=6, draws=1, arriving=3))
    audit = measure(tape)
    _, more = literal_audit(tape)
    found = {}
    for lower, higher, counts in count_pairs(audit.visits, len(audit.classes), chunk):
        for pair in zip(audit.classes[lower].tolist(), audit.classes[higher].tolist(), counts.tolist(), strict=True):
            assert pair[:2] not in found
            found[pair[:2]] = pair[2]
    assert found == dict(more["pairs"])
