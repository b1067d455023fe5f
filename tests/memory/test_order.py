"""Orders in chunks and trees do what plain lists do.

The short lists of other tests never lie in chunks. Here a chunk holds three.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise import Memory
from reprise.core.rng import Random
from reprise.memory.schedule.deck import Deck, Residents
from reprise.memory.schedule.full_steps import FullSteps
from reprise.memory.schedule.order import Counts, LongList, Ranked
from reprise.memory.schedule.ring import Ring

SCHEDULES = ["iid", "fixed", "rpr", "reused:2", "hybrid:2", "window:0.5", "deadline:1.5", "frozen-pass", "frozen-iid"]


def chunks_of(size):
    """Within this, lists lie in chunks as soon as they are longer than so many."""
    stack = ExitStack()
    for module in ("order", "deck", "ring"):
        stack.enter_context(patch(f"reprise.memory.schedule.{module}.CHUNK", size))
    return stack


# The parts ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 4), max_size=40), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 3)), max_size=20)
)
def test_counts_find_what_a_walk_finds(counts, more):
    tree = Counts(counts)
    for box, by in more:
        if box < len(counts):
            counts[box] += by
            tree.add(box, by)
        else:
            counts.append(by)
            tree.append(by)
    found = [(box, rank) for box, count in enumerate(counts) for rank in range(count)]
    assert [tree.find(rank) for rank in range(len(found))] == found


EDITS = st.lists(st.tuples(st.sampled_from(["insert", "append", "remove", "swap"]), st.randoms()), max_size=60)


@given(st.integers(0, 20), EDITS)
def test_a_long_list_is_a_list(size, edits):
    with chunks_of(3):
        plain = list(range(100, 100 + size))
        ours = LongList(plain[:])
        for number, (edit, chance) in enumerate(edits):
            if edit == "insert":
                place = chance.randrange(len(plain) + 1)
                plain.insert(place, number)
                ours.insert(place, number)
            elif edit == "append":
                plain.append(number)
                ours.append(number)
            elif edit == "remove":
                item = chance.choice([*plain, 999])
                if item in plain:
                    plain.remove(item)
                ours.remove(item)
            elif plain:
                one, other = chance.randrange(len(plain)), chance.randrange(len(plain))
                plain[one], plain[other] = plain[other], plain[one]
                assert ours.swap(one, other) == plain[one]
            assert ours.items() == plain
            assert ours.size == len(plain)


CHANGES = st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=12), st.integers(1, 6)), max_size=30)


@given(CHANGES)
def test_decks_residents_and_rings_do_not_depend_on_chunks(changes):
    """The same arrivals, departures and draws, in chunks and in plain lists."""
    told = []
    for size in (3, 10**9):
        with chunks_of(size):
            one, two, held = Random(0, "deck"), Random(0, "ring"), set()
            deck, ring, residents = Deck(), Ring(), Residents()
            seen = []
            for flips, k in changes:
                arrived, departed = sorted(flips - held), sorted(flips & held)
                held ^= flips
                deck.change(arrived, departed, one)
                ring.change(arrived, departed)
                residents.change(arrived, departed)
                assert residents.size == ring.size == len(held)
                if held:
                    k = min(k, len(held))
                    seen.append(deck.deal(k, lambda now=residents, random=one: random.shuffled(now.ids)))
                    seen.append(ring.draw(k, two))
                    seen.append(ring.draw_outside(k, range(0, 30, 3), two))
                if k % 2:
                    seen += [list(ring.ids), list(residents.ids)]
                if k == 5:
                    seen.append(list(deck.left))
                assert len(deck) <= len(held)
            assert residents.ids == sorted(held) == sorted(ring.ids)
            told.append(seen)
    assert told[0] == told[1]


@given(st.lists(st.integers(0, 3_000), max_size=40), st.lists(st.integers(0, 3_000), min_size=1, max_size=10))
def test_full_steps(starts, asked):
    # Rows of full steps, some longer than a word, and holes in them.
    steps = {step + more for step in starts for more in range(700)}
    holes = {step for step in asked if step in steps}
    full = FullSteps(steps)
    for step in sorted(holes):
        full.remove(step)
    steps -= holes
    assert list(full) == sorted(steps)
    for step in asked + starts:
        assert full.before(step) == max((at for at in range(step + 1) if at not in steps), default=-1)


def test_full_steps_pass_over_words_of_words():
    full = FullSteps(range(1, 600_000))
    assert full.before(599_999) == 0
    assert full.before(600_000) == 600_000
    full.remove(300_000)
    assert full.before(599_999) == 300_000
    full.add(300_000)
    full.add(0)
    assert full.before(599_999) == -1


@given(st.lists(st.integers(0, 60), unique=True, max_size=20), st.lists(st.integers(0, 90), max_size=40))
def test_ranked_is_a_sorted_list(first, flips):
    ranked, plain = Ranked(first), set(first)
    for number in flips:
        (ranked.remove if number in plain else ranked.add)(number)
        plain ^= {number}
        assert list(ranked) == [ranked.at(rank) for rank in range(len(ranked))] == sorted(plain)


# The schedules -----------------------------------------------------------------------------------------------------


def churning(spec, n, batches):
    """What a small memory draws while its classes come and go; the state is taken and given back now and then."""
    memory = Memory(24, "fifo", spec, seed=3)
    found = []
    for step, labels in enumerate(batches):
        found.append(memory.draw(n).slots.tolist())
        memory.store(labels)
        if step % 17 == 16:
            state = memory.state_dict()
            memory = Memory(24, "fifo", spec, seed=3)
            memory.load_state_dict(state)
    return found


@pytest.mark.parametrize("n", [1, 4, 30])
@pytest.mark.parametrize("spec", SCHEDULES)
def test_draws_do_not_depend_on_chunks(spec, n):
    source = np.random.default_rng(n)
    batches = [source.integers(step // 6, step // 6 + 30, size=5).tolist() for step in range(300)]
    expected = churning(spec, n, batches)
    with chunks_of(3):
        assert churning(spec, n, batches) == expected


@given(CHANGES)
def test_the_cycle_is_that_of_a_sorted_list(changes):
    memory_of, last, held = Memory(4, "fifo", "fixed").retrieval.schedule.fresh(), -1, set()
    memory_of.start(Random(0, "schedule"))
    for flips, k in changes:
        memory_of.begin(k, sorted(flips - held), sorted(flips & held))
        held ^= flips
        if held:
            ids = sorted(held)
            first = bisect_right(ids, last)
            expected = [ids[place % len(ids)] for place in range(first, first + k)]
            last = expected[-1]
            assert memory_of.take(k, ()) == expected
        if k == 5:
            state = memory_of.state_dict()
            assert state == {"residents": sorted(held), "last": last}
            memory_of.load_state_dict(state)


@given(CHANGES, st.integers(1, 4))
def test_blocks_are_those_of_a_search_over_all(changes, size):
    from reprise.memory.schedule.blocks import Blocks

    blocks, ours, theirs, held = Blocks(size), Random(0, "x"), Random(0, "x"), set()
    rows: list[list[int]] = []
    for flips, _ in changes:
        arrived, departed = sorted(flips - held), sorted(flips & held)
        held ^= flips
        before = [bool(row) for row in rows]
        for row in rows:
            row[:] = [label for label in row if label not in departed]
        lost = {block for block, row in enumerate(rows) if before[block] and not row}
        empty = {block for block in range(len(rows) + len(arrived)) if block >= len(rows) or not rows[block]}
        if arrived and not rows:
            labels = theirs.shuffled(arrived)
            count = math.ceil(len(labels) / size)
            rows = [labels[first::count] for first in range(count)]
        else:
            for label in arrived:
                least = min(map(len, rows))
                if least >= size:
                    rows.append([])
                    least = 0
                smallest = [block for block, row in enumerate(rows) if len(row) == least]
                rows[smallest[theirs.below(len(smallest))]].append(label)
        emptied, begun = blocks.change(3, arrived, departed, ours)
        assert blocks.rows == rows
        assert set(emptied) == lost
        assert begun == [block for block, row in enumerate(rows) if row and block in empty]
        assert list(blocks.filled) == [block for block, row in enumerate(rows) if row]
        assert ours.position == theirs.position


def test_chunks_stay_small_and_few():
    # So a list that is gone through is never long, whatever has come and gone.
    source = np.random.default_rng(0)
    with chunks_of(16):
        deck, ring = LongList([]), LongList([])
        for item in range(20_000):
            deck.insert(int(source.integers(deck.size + 1)), item)
            ring.append(item)
            if item >= 1_000:
                deck.remove(item - 1_000)
                ring.remove(item - 1_000)
        for chunked in (deck, ring):
            assert chunked.size < 1_002
            assert max(map(len, chunked._chunks)) <= 8 * 16
            assert len(chunked._chunks) <= 4 * 1_002 // 16
