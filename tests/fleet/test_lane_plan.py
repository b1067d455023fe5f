"""A plan for a lane: the very tape, crops and flips of the plain loop, and padding that nothing will see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train.tinyruns import config, images, thin_networks

from reprise.fleet.lane_plan import _filled, make_lane_plan
from reprise.runs.plan import Labels
from reprise.runs.tapes import summarise
from reprise.train import Training

SETTINGS = [
    {},
    {"seed": 3, "learner": "der++", "retrieval": "uniform"},
    {"learner": "none"},
    {"replay": 0},
    {"learner": "joint"},
    {"imbalance": 4.0, "storage": "cbrs", "retrieval": "iid", "order": "permuted"},
    {"augment": "none", "batch": 200},  # no batch is full
    {"augment": "crop", "validation": True, "disjoint": 0.5},
]


def plan_of(run):
    return make_lane_plan(run, Labels.of(images(), run))


@pytest.fixture(params=SETTINGS, ids=str)
def both(request):
    """The plan of a run, and the run as the plain loop makes it."""
    run = config(**request.param)
    with thin_networks():
        return plan_of(run), Training(run, images())


def batches(planned, number):
    """Ids and crops of a step's batches, padding left out, and those of its padding."""
    run = planned.plan.run
    sizes = [run.stream.batch, *[run.memory.replay] * (planned.counts.shape[1] - 1)]
    ends = np.cumsum(sizes)
    real, padding = [], []
    for end, size, count in zip(ends, sizes, planned.counts[number], strict=True):
        first = end - size
        real.append((planned.ids[number, first : first + count], planned.crops[number, first : first + count]))
        padding.append(planned.ids[number, first + count : end])
    assert ends[-1] == planned.ids.shape[1] == planned.crops.shape[1]
    return real, padding


def test_the_tape_is_the_plain_loops(both):
    planned, run = both
    assert planned.plan.tape == run.feed.tape()
    assert planned.plan.tape.hash == run.feed.tape().hash
    assert planned.plan.summary == summarise(run.feed.tape())
    assert np.array_equal(planned.plan.stream.ids, run.plan.stream.ids)
    assert np.array_equal(planned.plan.stream.offsets, run.plan.stream.offsets)


def test_what_is_tested_and_when_is_the_plain_loops(both):
    mine, theirs = both[0].plan.tests, both[1].tests
    assert mine.due == theirs.due
    for number in range(len(mine.due)):
        assert np.array_equal(mine.chosen(number), theirs.chosen(number))


def test_every_step_has_the_plain_loops_examples_crops_and_flips(both):
    planned, run = both
    assert len(planned.ids) == len(planned.counts) == len(planned.crops) == run.steps
    for number in range(run.steps):
        step = run.feed.step(number)
        real, _ = batches(planned, number)
        there = [part for part in real if len(part[0])]
        assert len(there) == 1 + len(step.replay)
        for (ids, crops), batch in zip(there, [step.incoming, *step.replay], strict=True):
            assert ids.tolist() == batch.ids.tolist()
            assert np.array_equal(run.pixels.augmented(batch.ids, torch.from_numpy(crops.copy())), batch.x)


def test_padding_repeats_the_first_of_its_batch(both):
    planned, run = both
    for number in range(run.steps):
        for (ids, _), padding in zip(*batches(planned, number), strict=True):
            assert set(padding.tolist()) <= {int(ids[0]) if len(ids) else 0}


def test_all_that_a_lane_reads_has_the_width_it_expects():
    """And the type: kernels take memory as it lies."""
    planned = plan_of(config(learner="der++"))
    assert planned.ids.shape == (15, 8 + 2 * 4)
    assert planned.counts.shape == (15, 3)
    assert planned.crops.shape == (15, 16, 3)
    assert (planned.ids.dtype, planned.counts.dtype, planned.crops.dtype) == (np.int32, np.int32, np.int8)
    assert planned.counts[0].tolist() == [8, 0, 0]
    assert planned.counts[2].tolist() == [4, 4, 4]  # the last of a task
    assert all(array.flags.c_contiguous for array in (planned.ids, planned.counts, planned.crops))


def test_rows_are_filled_up_with_their_first_id():
    rows = np.array([[4, 5, 6], [7, -1, -1], [-1, -1, -1]])
    assert _filled(rows, 5).tolist() == [[4, 5, 6, 4, 4], [7, 7, 7, 7, 7], [0, 0, 0, 0, 0]]
    assert _filled(np.empty((2, 0), np.int64), 3).tolist() == [[0, 0, 0]] * 2


def test_two_plans_of_a_run_are_one_and_those_of_two_seeds_are_not():
    one, again, other = (plan_of(config(seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.ids, again.ids)
    assert np.array_equal(one.crops, again.crops)
    assert not np.array_equal(one.ids, other.ids)
    assert not np.array_equal(one.crops, other.crops)
