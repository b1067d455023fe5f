"""How lanes are kept busy: lanes that only count stand in for those on a GPU, and whatever happens to one run."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fleet.counting import CPU, CountingLane, Reversed, lanes_are, pretend
from fleet.planner import Planner
from train.tinyruns import Thin, config, images

from reprise import nets
from reprise.fleet import driver, plans
from reprise.lab import run_all
from reprise.learners import find_learner
from reprise.runs.plan import Labels, make_plan, make_stream
from reprise.runs.pools import plan_pools
from reprise.train import Images, TrainingFailed, train

RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
STEPS = 15


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    pretend(monkeypatch)


def plan_of(run):
    return make_plan(run, Labels.of(images(), run))


def trained(runs=RUNS, **given):
    told = []
    ends = list(run_all(runs, given.pop("images", images()), device="cuda", watch=told.append, **given))
    assert len(ends) == len({outcome.run for outcome in ends}) == len(runs)
    for outcome in ends:
        if outcome.record is not None and outcome.run in RUNS:
            assert outcome.record["tape"] == plan_of(outcome.run).tape.hash
    return {outcome.run: outcome.error for outcome in ends}, told


@pytest.mark.parametrize(("lanes", "widths"), [(1, [1]), (2, [2]), (5, [3, 2]), (50, [3, 3, 2]), (None, [3, 3, 2])])
def test_every_run_ends_once_however_many_go_at_once(lanes, widths):
    errors, told = trained(lanes=lanes)
    assert set(errors) == set(RUNS)
    assert not any(errors.values())
    assert told[-1].steps == STEPS * len(RUNS)
    assert [lane.width for lane in CountingLane.made] == widths


def test_with_fewer_lanes_fewer_runs_are_begun_ahead(monkeypatch):
    """So that a run that ends late keeps no other from whoever else makes runs of this store."""
    asked = []
    monkeypatch.setattr(driver, "Plans", lambda *given: asked.append(given[3]) or plans.Plans(*given))
    trained(lanes=1)
    trained(lanes=2)
    trained()
    assert asked[1] == asked[0] + 1
    assert asked[0] < asked[2]
    trained([config(learner="er", retrieval="mir:6", seed=seed) for seed in range(3)], lanes=1)
    assert asked[3] == 1  # whose plans are large


def test_a_record_tells_the_times_that_the_plain_loops_does():
    began = time.perf_counter()
    (outcome,) = run_all(RUNS[:1], images(), device="cuda")
    wall, timings = time.perf_counter() - began, outcome.record["timings"]
    assert timings.keys() == train(RUNS[0], images())["timings"].keys()
    assert timings["steps"] == STEPS
    assert 0 < timings["prepare"] + timings["train"] < wall


def test_images_are_hashed_once_for_all_lanes_and_named_in_every_record(monkeypatch, tmp_path):
    hashed, fingerprints = [], Images.fingerprints
    monkeypatch.setattr(Images, "fingerprints", lambda self, run: hashed.append(run) or fingerprints(self, run))
    runs = [*RUNS, *(run.replace(lr=0.5) for run in RUNS[:2])]  # two groups, lanes for each
    held_out = config(validation=True)
    ends = {
        outcome.run: outcome.record for outcome in run_all([*runs, held_out], images(), device="cuda", out=tmp_path)
    }
    assert len(hashed) == 4  # with and without test images: by the campaign, and by the lanes for what they were given
    data = {name: getattr(images(), name).fingerprint() for name in ("train", "test")}
    assert all(ends[run]["data"] == data for run in runs)
    assert ends[held_out]["data"] == {"train": data["train"]}
    assert all(record["identity"] == run.identity(record["data"]) for run, record in ends.items())
    again = list(run_all([*runs, held_out], images(), device="cuda", out=tmp_path))
    assert len(again) == len(runs) + 1
    assert all(outcome.known for outcome in again)
    assert len(hashed) == 6


def test_runs_of_a_lane_need_not_be_tested_at_the_same_steps():
    runs = [config(seed=seed, imbalance=tail) for seed in range(3) for tail in (1.0, 2.0, 5.0)]
    boundaries = {plan_of(run).tests.due for run in runs}
    assert len(boundaries) > 1
    errors, _ = trained(runs, lanes=3)
    assert not any(errors.values())


def test_a_network_of_ones_own_has_a_lane_by_itself(monkeypatch):
    monkeypatch.setattr(
        driver, "make_network", lambda run, classes: Thin(classes, run.network.head, run.seed, batchnorm=False)
    )
    errors, _ = trained(lanes=5)
    assert not any(errors.values())
    assert [lane.width for lane in CountingLane.made] == [1] * 5


def test_lanes_take_no_more_numbers_than_their_kernels_can_count(monkeypatch):
    run, (height, width) = RUNS[0], images().train.images.shape[1:3]
    channels = -(-(2**31) // (height * width * (run.stream.batch + run.memory.replay * run.draws)))
    group = driver.Group(images(), CPU)
    monkeypatch.setattr(find_learner("er"), "own_passes", True)
    for many, taken in ((channels, False), (channels - 1, True)):
        with torch.device("meta"):
            net = nets.ResNet18(10, width=many)
        monkeypatch.setattr(driver, "make_network", lambda run, classes, net=net: net)
        assert group.takes(run) is taken
        assert group.takes(run.replace(learner="er"))  # by torch's own kernels


def test_lanes_take_networks_that_are_not_stackable():
    assert driver.Group(images(), CPU).takes(config(backbone="efficientnet_lite0", width=64))


@pytest.mark.parametrize(("rates", "kept"), [([1, 2, 3], 6), ([1, 2, 2.05], 2), ([1, 1], 1)])
def test_lanes_of_one_run_are_tried_in_ever_larger_numbers(rates, kept, monkeypatch):
    """Of 20 runs: one lane, two, four; at most six, for there are three runs to a lane of several."""
    tried, left = [], iter(rates)
    monkeypatch.setattr(driver, "measured_rate", lambda lanes: tried.append(len(lanes)) or next(left))
    runs = [config(seed=seed) for seed in range(20)]
    assert len(driver.Group(images(), CPU)._lanes(runs, None, stacked=False)) == kept
    assert tried == [1, 2, 4][: len(rates)]
    assert {lane.width for lane in CountingLane.made} == {1}


def test_as_many_lanes_of_one_run_as_were_asked_for(monkeypatch):
    monkeypatch.setattr(driver, "measured_rate", pytest.fail)
    runs = [config(seed=seed) for seed in range(20)]
    assert len(driver.Group(images(), CPU)._lanes(runs, 20, stacked=False)) == 20


def test_lanes_that_do_not_pay_are_not_kept(monkeypatch):
    rates = iter([100.0, 101.0])
    monkeypatch.setattr(driver, "measured_rate", lambda lanes: next(rates))
    errors, _ = trained()
    assert not any(errors.values())
    first, second = CountingLane.made
    assert any(first.at)
    assert not any(second.at)


def out_of_memory():
    raise torch.OutOfMemoryError("so it is said")


def ended_capture():
    try:
        out_of_memory()
    except torch.OutOfMemoryError:
        raise RuntimeError("the capture has not ended as it should")  # noqa: B904 - as torch raises it


def no_algorithm():
    raise RuntimeError("FIND was unable to find an engine to execute this computation")


@pytest.mark.parametrize("trouble", [out_of_memory, ended_capture, no_algorithm])
def test_where_memory_ends_lanes_are_narrower(monkeypatch, trouble):
    def build(*given):
        if given[-1] > 1:
            trouble()
        return CountingLane(*given)

    lanes_are(monkeypatch, build)
    errors, _ = trained(lanes=3)
    assert not any(errors.values())
    assert [lane.width for lane in CountingLane.made] == [1, 1, 1]


def test_where_memory_ended_one_lane_less_leaves_room_for_tests(monkeypatch):
    def build(*given):
        if len(CountingLane.made) == 2:
            raise torch.OutOfMemoryError("so it is said")
        return CountingLane(*given)

    lanes_are(monkeypatch, build)
    errors, _ = trained()
    assert not any(errors.values())
    first, second = CountingLane.made
    assert any(first.at)
    assert not any(second.at)


def test_a_result_that_cannot_be_read_is_that_runs_error(monkeypatch):
    plain = driver.RunResult.of

    def finished(plan, *given):
        if plan.run == RUNS[5]:
            raise ValueError("nothing comes of this one")
        return plain(plan, *given)

    monkeypatch.setattr(driver, "RunResult", SimpleNamespace(of=finished))
    errors, _ = trained(lanes=3)
    assert {run: str(error) for run, error in errors.items() if error} == {RUNS[5]: "nothing comes of this one"}


def test_without_room_for_one_run_every_run_says_so(monkeypatch):
    def build(*given):
        raise torch.OutOfMemoryError("so it is said")

    lanes_are(monkeypatch, build)
    errors, _ = trained()
    assert all(isinstance(error, torch.OutOfMemoryError) for error in errors.values())


def test_a_test_of_one_run_that_fails_is_that_runs_error():
    CountingLane.trouble[2] = RuntimeError("no room to test")
    errors, _ = trained(lanes=5)
    assert {run.seed for run, error in errors.items() if error is not None} == {2}


def test_weights_that_cannot_be_made_are_the_error_of_their_seed(monkeypatch):
    plain = plans.make_network

    def build(run, classes):
        if run.seed == 1:
            raise RuntimeError("no weights for this seed")
        return plain(run, classes)

    monkeypatch.setattr(plans, "make_network", build)
    errors, _ = trained(lanes=2)
    assert {run.seed for run, error in errors.items() if error is not None} == {1}


def test_a_run_whose_loss_is_no_number_is_named(monkeypatch):
    plain = CountingLane.advance

    def diverging(self, steps):
        plain(self, steps)
        for slot, planned in enumerate(self.runs):
            if planned is not None and planned.plan.run == RUNS[3]:
                self.losses[slot, 4] = torch.inf

    monkeypatch.setattr(CountingLane, "advance", diverging)
    errors, _ = trained(lanes=3)
    assert [run for run, error in errors.items() if error is not None] == [RUNS[3]]
    assert isinstance(errors[RUNS[3]], TrainingFailed)
    assert "the loss of step 5 of 15 is inf" in str(errors[RUNS[3]])


@pytest.mark.parametrize("after", [0, 3])
def test_planners_that_are_killed_cost_no_run(monkeypatch, after):
    monkeypatch.setattr(Planner, "left", after)
    errors, _ = trained(lanes=2)
    assert not any(errors.values())


def test_what_the_plain_loop_refuses_the_fleet_refuses_in_the_same_words():
    test = images().test
    beyond = replace(test, labels=test.labels + 1, classes=(*test.classes, "one more"))
    errors, _ = trained(images=replace(images(), test=beyond))
    assert {str(error) for error in errors.values()} == {"the test images are of 11 classes, the training images of 10"}


def test_a_memory_that_asks_the_network_leaves_the_tape_that_was_chosen(monkeypatch):
    """One run to a lane, and lanes of as many candidates one after the other."""
    runs = [config(learner="er", retrieval=f"mir:{pool}", seed=seed) for pool in (6, 9) for seed in range(2)]
    ends = {outcome.run: outcome for outcome in run_all(runs, images(), device="cuda")}
    assert [lane.width for lane in CountingLane.made] == [1] * 4
    for run in runs:
        assert ends[run].error is None
        pools = plan_pools(run, make_stream(run, images().train.labels))
        reverse = np.tile(np.arange(run.replay_size)[::-1], (STEPS, 1))
        assert ends[run].record["tape"] == pools.tape(reverse).hash != pools.first.hash
        timings = ends[run].record["timings"]
        assert timings["prepare"] > 0


def test_a_score_that_is_not_a_number_ends_a_run_with_its_step(monkeypatch):
    usual = Reversed.__init__

    def failing(self, run, longest):
        usual(self, run, longest)
        self.failed[4] = True

    monkeypatch.setattr(Reversed, "__init__", failing)
    (outcome,) = run_all([config(learner="er", retrieval="mir:6")], images(), device="cuda")
    assert isinstance(outcome.error, TrainingFailed)
    assert f"in step 5 of {STEPS} an example's score is not a number" in str(outcome.error)
