"""The audit agrees with a slow auditor that goes step by step and was written from the definitions alone."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.audit import KEYS, measure
from reprise.audit.cooccurrence import count_pairs

LABELS = (0, 1, 2, 5, 9, 10**6)


def percentile(values, share):
    values = sorted(values)
    place = (len(values) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def literal_audit(tape):
    """All figures of an audit, and the lists behind them, from plain dictionaries."""
    label = tape.labels.tolist()
    memory = dict(enumerate(tape.initial.tolist()))
    known = set()
    waiting = {}  # class -> [step of last visit, largest resident count since, insertions since], while resident
    unserved = {}  # resident class -> [draws since visit or arrival, largest count, insertions, whether by arrival]
    first, cut = [], []  # (class, draws, bound)
    visited_at = {}  # class -> step of last visit
    visits, present, pairs = Counter(), Counter(), Counter()
    gaps, wall, bounds = [], [], []
    left_memory = most = batches = 0
    for step in range(len(tape)):
        if memory:
            resident = {label[example] for example in memory.values()}
            came, left = resident - known, known - resident
            known = resident
            left_memory += len(left)
            most = max(most, len(resident))
            present.update(resident)
            for c in left:
                waiting.pop(c, None)
                cut.append((c, *waited(unserved.pop(c), tape.replay_size)))
            for record in unserved.values():
                record[1] = max(record[1], len(resident))
                record[2] += len(came)
            for c in came:
                unserved[c] = [0, len(resident), 0, True]
            for record in unserved.values():
                record[0] += 1
            for record in waiting.values():
                record[1] = max(record[1], len(resident))
                record[2] += len(came)
            batch = set()
            for draw in tape.replay[step].tolist():
                batch |= {label[example] for example in draw if example != -1}
            for c in batch:
                if c in waiting:
                    since, largest, inserted = waiting[c]
                    gaps.append((c, step - since))
                    bounds.append((c, math.ceil((2 * largest - 1 + inserted) / tape.replay_size)))
                if c in visited_at:
                    wall.append((c, step - visited_at[c]))
                if unserved[c][3]:
                    first.append((c, *waited(unserved[c], tape.replay_size)))
                unserved[c] = [0, len(resident), 0, False]
                waiting[c] = [step, len(resident), 0]
                visited_at[c] = step
            visits.update(batch)
            pairs.update(combinations(sorted(batch), 2))
            batches += bool(batch)
        for example, slot in zip(tape.incoming[step].tolist(), tape.written[step].tolist(), strict=True):
            if slot != -1:
                memory[slot] = example
    still = [(c, *waited(record, tape.replay_size)) for c, record in unserved.items()]
    lengths = [gap for _, gap in gaps]
    total = sum(pairs.values())
    possible = math.comb(most, 2)
    entropy = -sum(n / total * math.log(n / total) for n in pairs.values()) if total else None
    exposure = {c: visits[c] / present[c] for c in present}
    stored = Counter(label[example] for example in memory.values())
    figures = {
        "steps": len(tape),
        "mean": sum(lengths) / len(lengths) if lengths else None,
        "p50": percentile(lengths, 0.50) if lengths else None,
        "p95": percentile(lengths, 0.95) if lengths else None,
        "p99": percentile(lengths, 0.99) if lengths else None,
        "max": max(lengths, default=None),
        "wall_max": max((gap for _, gap in wall), default=None),
        "violations": sum(gap > bound for (_, gap), (_, bound) in zip(gaps, bounds, strict=True)),
        "deactivations": left_memory,
        "pair_coverage": len(pairs) / possible if possible else None,
        "pair_entropy": entropy / math.log(possible) if total and possible > 1 else None,
        "exposure_min": min(exposure.values(), default=None),
        "exposure_max": max(exposure.values(), default=None),
        "first_max": max((draws for _, draws, _ in first), default=None),
        "open_max": max((draws for _, draws, _ in still), default=None),
        "cut_max": max((draws for _, draws, _ in cut), default=0),
        "never": sum(c not in visited_at for c in known),
        "overdue": sum(draws > bound for _, draws, bound in first)
        + sum(draws + 1 > bound for _, draws, bound in [*still, *cut]),
    }
    more = {
        "first": sorted(first, key=lambda wait: wait[0]),
        "open": sorted(still),
        "cut": sorted(cut, key=lambda wait: wait[0]),
        "present": present.total(),
        "gaps": sorted(gaps, key=lambda pair: pair[0]),
        "bounds": sorted(bounds, key=lambda pair: pair[0]),
        "wall": sorted(wall, key=lambda pair: pair[0]),
        "exposure": exposure,
        "pairs": pairs,
        "class_max": most,
        "occupancy_spread": max(stored.values()) / min(stored.values()) if stored else None,
        "distinct_per_batch": sum(visits.values()) / batches if batches else None,
    }
    return figures, more


def waited(record, size):
    """Draws, and how many a randomised pass allows: once round the deck after an arrival, twice after a visit."""
    draws, largest, inserted, arrival = record
    return draws, math.ceil((inserted + (largest if arrival else 2 * largest - 1)) / size)


def same(found, expected):
    """Equal up to rounding, or both None."""
    return (
        found is expected if None in (found, expected) else math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    )


def agree(tape):
    audit = measure(tape)
    figures, more = literal_audit(tape)
    assert tuple(audit.to_dict()) == KEYS == tuple(figures)
    for key, value in audit.to_dict().items():
        assert same(value, figures[key]), key
        assert type(value) is type(figures[key]), key

    classes = audit.classes.tolist()
    assert classes == sorted(more["exposure"])
    assert dict(zip(classes, audit.exposure.tolist(), strict=True)) == pytest.approx(more["exposure"])
    gap_classes = audit.gap_classes.tolist()
    assert list(zip(gap_classes, audit.gaps.tolist(), strict=True)) == more["gaps"]
    assert list(zip(gap_classes, audit.bounds.tolist(), strict=True)) == more["bounds"]
    assert audit.wall_gaps.tolist() == [gap for _, gap in more["wall"]]
    for kind in ("first", "open", "cut"):
        waits = getattr(audit, kind)
        found = zip(waits.classes.tolist(), waits.lengths.tolist(), waits.bounds.tolist(), strict=True)
        assert list(found) == more[kind], kind
    # Every draw that found a class resident is in one wait.
    assert (
        sum(
            int(lengths.sum())
            for lengths in (audit.gaps, *(waits.lengths for waits in (audit.first, audit.open, audit.cut)))
        )
        == more["present"]
    )
    longest = [figures[key] or 0 for key in ("max", "first_max", "open_max", "cut_max")]
    assert audit.longest == (max(longest) if more["present"] else None)
    assert audit.class_max == more["class_max"]
    assert same(audit.occupancy_spread, more["occupancy_spread"])
    assert same(audit.distinct_per_batch, more["distinct_per_batch"])

    matrix = audit.pairs()
    assert (matrix == matrix.T).all()
    met = {(classes[i], classes[j]): int(matrix[i, j]) for i, j in zip(*np.nonzero(np.triu(matrix)), strict=True)}
    assert met == dict(more["pairs"])
    return audit


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
