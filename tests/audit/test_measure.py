"""Every figure of an audit, worked out by hand on small tapes."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import reprise
from reprise.audit import KEYS, Audit, measure

NOTHING = ([[]], [])


def drawing(*labels):
    """A step that replays these labels and brings nothing."""
    return ([list(labels)], [])


def test_resident_gaps_on_a_fixed_memory(tape_of):
    # Class 0 at steps 0, 1, 4; class 1 at steps 0, 5; class 2 once.
    steps = [drawing(0, 1), drawing(0), drawing(2), NOTHING, drawing(0), drawing(1)]
    audit = measure(tape_of(steps, initial=[0, 1, 2]))
    assert audit.steps == 6
    assert audit.gaps.tolist() == [1, 3, 5]
    assert audit.gap_classes.tolist() == [0, 0, 1]
    assert audit.mean == 3.0
    assert audit.max == audit.wall_max == 5
    assert (audit.p50, audit.p95, audit.p99) == pytest.approx((3.0, 4.8, 4.96))
    assert audit.deactivations == 0
    # 2·3 − 1 slots in twos: three steps are allowed, so only the gap of five is too long.
    assert audit.bounds.tolist() == [3, 3, 3]
    assert audit.violations == 1
    assert audit.exposure.tolist() == [3 / 6, 2 / 6, 1 / 6]
    assert (audit.exposure_min, audit.exposure_max) == (1 / 6, 1 / 2)
    assert audit.distinct_per_batch == 6 / 5


def test_an_eviction_seen_at_a_draw_discards_the_open_gap(tape_of):
    # Class 1 leaves after step 0, is back after step 2, and is drawn at steps 0, 4 and 5.
    steps = [([[1]], [(0, 1)]), drawing(0), ([[0]], [(1, 1)]), NOTHING, drawing(1), drawing(1)]
    audit = measure(tape_of(steps, initial=[0, 1]))
    assert audit.gaps.tolist() == [1, 1]  # class 0 at steps 1, 2; class 1 at 4, 5
    assert sorted(audit.wall_gaps.tolist()) == [1, 1, 4]
    assert (audit.max, audit.wall_max) == (1, 4)
    assert audit.deactivations == 1
    # Resident at draws 0, 3, 4 and 5, visited at three of them.
    assert audit.exposure.tolist() == [2 / 6, 3 / 4]


def test_waits_that_are_no_gap(tape_of):
    # Class 0 at steps 2 and 3, class 1 never, class 2 stored by step 0 and drawn at step 4, class 3 not drawn again.
    steps = [([[3]], [(2, 3)]), NOTHING, drawing(0), drawing(0), drawing(2), NOTHING, NOTHING]
    audit = measure(tape_of(steps, initial=[0, 1, 3]))
    # From the start to the visit: three draws, one, and four from draw 1 on.
    assert audit.first.classes.tolist() == [0, 2, 3]
    assert audit.first.lengths.tolist() == [3, 4, 1]
    # Draws since the last visit, or since arrival, that did not serve the class.
    assert audit.open.classes.tolist() == [0, 1, 2, 3]
    assert audit.open.lengths.tolist() == [3, 7, 2, 6]
    assert (audit.max, audit.first_max, audit.open_max, audit.cut_max) == (1, 4, 7, 0)
    assert (audit.longest, audit.never) == (7, 1)
    # Four classes in twos: two steps after an arrival, and one slot more, ⌈5/2⌉, for those who saw class 2 come after.
    # After a visit ⌈7/2⌉, or ⌈8/2⌉ with class 2.
    assert audit.first.bounds.tolist() == [3, 2, 2]
    assert audit.open.bounds.tolist() == [4, 3, 4, 4]
    assert audit.overdue == 3  # class 2 until its first visit, class 1, and class 3 since its visit
    assert audit.violations == 0


def test_an_eviction_cuts_a_wait_with_a_visit_or_without_one(tape_of):
    # Class 1 is drawn at step 0 and evicted by step 2; class 2 takes its slot and is evicted, never drawn, by step 5.
    steps = [drawing(1), NOTHING, ([[]], [(2, 1)]), NOTHING, drawing(0), ([[]], [(1, 1)]), drawing(1)]
    audit = measure(tape_of(steps, initial=[0, 1], replay_size=1))
    assert list(zip(audit.cut.classes.tolist(), audit.cut.lengths.tolist(), strict=True)) == [(1, 2), (2, 3)]
    assert audit.cut.bounds.tolist() == [3, 2]  # ⌈(2·2 − 1)/1⌉ after a visit, ⌈2/1⌉ after an arrival
    assert list(zip(audit.first.classes.tolist(), audit.first.lengths.tolist(), strict=True)) == [
        (0, 5),
        (1, 1),
        (1, 1),
    ]
    assert audit.open.lengths.tolist() == [2, 0]
    assert (audit.cut_max, audit.longest, audit.never) == (3, 5, 0)
    assert audit.overdue == 2  # class 0 until its first visit, class 2


def test_a_class_is_never_replayed_only_if_no_stay_of_it_was(tape_of):
    # Class 1 is drawn, evicted, and back for the last two draws; class 2 comes with the last step and is not observed.
    steps = [drawing(1), ([[0]], [(0, 1)]), ([[0]], [(1, 1)]), drawing(0), ([[0]], [(2, 0)])]
    audit = measure(tape_of(steps, initial=[0, 1]))
    assert (audit.never, audit.open_max) == (0, 2)
    assert audit.open.classes.tolist() == [0, 1]


def test_waits_of_a_tape_that_ends_with_a_visit_of_everybody(tape_of):
    audit = measure(tape_of([drawing(0, 1), drawing(0, 1)], initial=[0, 1]))
    assert (audit.first_max, audit.open_max, audit.cut_max, audit.never, audit.overdue) == (1, 0, 0, 0, 0)


def test_a_class_that_leaves_and_returns_between_two_draws_never_left(tape_of):
    steps = [([[1]], [(0, 1), (1, 1)]), NOTHING, drawing(1)]
    audit = measure(tape_of(steps, initial=[0, 1]))
    assert audit.deactivations == 0
    assert audit.gaps.tolist() == [2]
    assert audit.bounds.tolist() == [2]  # no insertion either: ⌈3/2⌉


def test_of_two_writes_to_a_slot_in_one_step_the_later_wins(tape_of):
    steps = [([[]], [(5, 0), (6, 0)]), drawing(6)]
    audit = measure(tape_of(steps))
    assert audit.classes.tolist() == [6]
    assert audit.deactivations == 0


def test_an_example_does_not_count_as_resident_in_the_step_that_brings_it(tape_of):
    audit = measure(tape_of([([[0]], [(7, 1)]), drawing(7), NOTHING], initial=[0]))
    assert audit.exposure.tolist() == [1 / 3, 1 / 2]


def test_draws_from_an_empty_memory_observe_nothing(tape_of):
    audit = measure(tape_of([NOTHING, ([[]], [(3, 0)]), drawing(3), drawing(3)]))
    assert audit.exposure.tolist() == [1.0]
    assert audit.classes.tolist() == [3]
    assert audit.class_max == 1
    assert audit.steps == 4


def test_what_the_last_step_writes_is_never_observed(tape_of):
    audit = measure(tape_of([drawing(0), ([[0]], [(4, 0)])], initial=[0]))
    assert audit.deactivations == 0
    assert audit.classes.tolist() == [0]


def test_a_bound_uses_the_largest_count_and_the_insertions_of_its_own_interval(tape_of):
    # Resident counts at draws 0 … 5: 2, 3, 4, 4, 3, 3; arrivals at draws 1 and 2, a departure at 4.
    steps = [
        ([[0]], [(2, 2)]),
        ([[1]], [(3, 3)]),
        drawing(1),
        ([[]], [(0, 3)]),
        drawing(0, 1),
        drawing(0),
    ]
    audit = measure(tape_of(steps, initial=[0, 1]))
    # Class 0: steps 0 to 4 see at most 4 classes and 2 insertions, ⌈(7 + 2)/2⌉ = 5; steps 4 to 5 see 3, ⌈5/2⌉ = 3.
    # Class 1: steps 1 to 2 see 4 classes and the insertion at draw 2, not that at draw 1, ⌈8/2⌉ = 4; steps 2 to 4
    # see 4 classes, ⌈7/2⌉ = 4.
    assert audit.gap_classes.tolist() == [0, 0, 1, 1]
    assert audit.bounds.tolist() == [5, 3, 4, 4]
    assert audit.class_max == 4
    assert audit.deactivations == 1


def test_a_returning_class_is_an_insertion_again(tape_of):
    # Class 1 leaves and returns while class 0 waits: one insertion, and never more than two classes.
    steps = [([[0]], [(0, 1)]), ([[]], [(1, 1)]), drawing(0)]
    audit = measure(tape_of(steps, initial=[0, 1], replay_size=1))
    assert audit.bounds.tolist() == [4]


def test_several_draws_count_as_their_union_and_the_bound_uses_the_size_of_one(tape_of):
    steps = [([[0, 1], [1, 2]], []), ([[], [3]], []), ([[0], [0]], [])]
    audit = measure(tape_of(steps, initial=[0, 0, 1, 2, 3], draws=2))
    assert audit.exposure.tolist() == [2 / 3, 1 / 3, 1 / 3, 1 / 3]
    assert audit.pairs().tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert audit.bounds.tolist() == [4]  # ⌈7/2⌉
    assert audit.distinct_per_batch == 5 / 3


def test_pair_coverage_and_entropy(tape_of):
    # Pairs 01, 01, 02 out of the three that three classes have.
    steps = [drawing(0, 1), drawing(0, 1), drawing(2, 0), drawing(1)]
    audit = measure(tape_of(steps, initial=[0, 1, 2]))
    assert audit.pair_coverage == pytest.approx(2 / 3)
    assert audit.pair_entropy == pytest.approx((math.log(3) - 2 / 3 * math.log(2)) / math.log(3))
    assert audit.pairs().tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]


def test_a_class_twice_in_a_batch_is_one_visit_and_no_pair(tape_of):
    audit = measure(tape_of([drawing(0, 0), drawing(0, 1)], initial=[0, 0, 1]))
    assert audit.exposure.tolist() == [1.0, 0.5]
    assert audit.pairs().tolist() == [[0, 1], [1, 0]]


def test_coverage_is_against_the_most_classes_ever_resident_at_once(tape_of):
    # Four classes in all, three at once: pairs 01, 02, 12, 03 over the three pairs of three classes.
    steps = [([[0, 1, 2]], [(3, 1)]), drawing(0, 3)]
    audit = measure(tape_of(steps, initial=[0, 1, 2], replay_size=3))
    assert audit.class_max == 3
    assert audit.pair_coverage == pytest.approx(4 / 3)


def test_occupancy_spread_counts_what_is_stored_after_the_last_step(tape_of):
    audit = measure(tape_of([([[0]], [(1, 4)])], initial=[0, 0, 0, 0, 1, 2]))
    assert audit.occupancy_spread == 4.0
    audit = measure(tape_of([([[0]], [(0, 5)])], initial=[0, 0, 0, 0, 1, 2]))
    assert audit.occupancy_spread == 5.0


def test_what_nothing_defines_is_none(tape_of):
    audit = measure(tape_of([NOTHING, NOTHING]))
    undefined = dict.fromkeys(KEYS, None)
    assert audit.to_dict() == undefined | {"steps": 2} | dict.fromkeys(
        ("violations", "deactivations", "cut_max", "never", "overdue"), 0
    )
    assert audit.longest is None
    assert audit.occupancy_spread is audit.distinct_per_batch is None
    assert audit.pairs().shape == (0, 0)
    two = measure(tape_of([drawing(0, 1), drawing(0, 1)], initial=[0, 1]))
    assert (two.pair_coverage, two.pair_entropy) == (1.0, None)
    apart = measure(tape_of([drawing(0), drawing(1)], initial=[0, 1, 2]))
    assert (apart.pair_coverage, apart.pair_entropy, apart.mean) == (0.0, None, None)
    assert measure(tape_of([])).steps == 0


def test_without_replay_nothing_is_observed(tape_of):
    audit = measure(tape_of([([[]], [(1, 0)]), ([[]], [(2, 0)]), NOTHING], replay_size=0))
    assert (audit.deactivations, audit.exposure_min, audit.class_max) == (0, None, 0)
    assert audit.occupancy_spread == 1.0


def test_a_tape_that_replays_an_absent_class_is_an_error(tape_of):
    tape = tape_of([([[0]], [(1, 0)]), drawing(1)], initial=[0])
    early = replace(tape, replay=tape.replay[::-1].copy())
    with pytest.raises(ValueError, match=r"step 0 replays class 1, but .* held no example of class 1"):
        measure(early)
    late = replace(tape, replay=tape.replay[[0, 0]])
    with pytest.raises(ValueError, match=r"step 1 replays class 0, but .* held no example of class 0"):
        measure(late)
    never = replace(tape, written=np.full_like(tape.written, -1))
    with pytest.raises(ValueError, match="step 1 replays class 1"):
        measure(never)


def test_only_tapes_are_measured():
    with pytest.raises(TypeError, match="needs a Tape, got list"):
        measure([1, 2])


def test_to_dict_has_the_keys_in_order_and_plain_numbers(tape_of):
    audit = measure(tape_of([drawing(0, 1), drawing(1, 2), drawing(0, 1)], initial=[0, 1, 2]))
    figures = audit.to_dict()
    assert " ".join(figures) == (
        "steps mean p50 p95 p99 max wall_max violations deactivations "
        "pair_coverage pair_entropy exposure_min exposure_max first_max open_max cut_max never overdue"
    )
    assert {type(value) for value in figures.values()} == {int, float}


def test_average_leaves_none_out(tape_of):
    some = measure(tape_of([drawing(0), drawing(0), NOTHING, NOTHING, drawing(0)], initial=[0]))
    none = measure(tape_of([drawing(0)], initial=[0]))
    means = Audit.average([some, none])
    assert tuple(means) == KEYS
    assert (means["steps"], means["mean"], means["max"]) == (3.0, 2.0, 3.0)
    assert means["pair_coverage"] is None
    assert means["exposure_min"] == pytest.approx(0.8)
    assert Audit.average(iter([some])) == some.to_dict()
    with pytest.raises(ValueError, match="at least one audit"):
        Audit.average([])


def test_an_audit_is_frozen_comparable_and_readable(tape_of):
    tape = tape_of([drawing(0, 1), drawing(1, 2), drawing(0, 1)], initial=[0, 1, 2])
    audit = measure(tape)
    assert audit == measure(tape)
    assert audit != measure(tape_of([drawing(0)], initial=[0]))
    with pytest.raises(FrozenInstanceError):
        audit.mean = 0.0
    with pytest.raises(ValueError, match="read-only"):
        audit.gaps[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        audit.open.lengths[0] = 0
    assert repr(audit).startswith("Audit(steps=3, mean=1.333, p50=1, ")
    assert str(audit).splitlines()[0] == "Audit of 3 steps, 3 classes, at most 3 at once"
    assert "max 2, wall max 2" in str(audit)
    assert "first 2, open 1, cut 0 at most; 0 never replayed, 0 overdue" in str(audit)
    assert "None" not in str(measure(tape_of([NOTHING])))


def test_it_is_reached_from_the_package():
    assert reprise.audit.measure is measure
    assert reprise.audit.Audit is Audit
    assert reprise.audit.theory.floor(10, 3) == 4
