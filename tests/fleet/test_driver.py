"""How lanes are kept busy: lanes that only count stand in for those on a GPU, and whatever happens to one run."""

from __future__ import annotations

import importlib
import sys
import time
import types
from dataclasses import replace

import pytest
import torch
from fleet.planner import Planner
from train.tinyruns import Thin, config, images

from reprise import nets
from reprise.core.workers import NoMainGuard
from reprise.fleet import fleet, plans
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.planned import make_plan
from reprise.train import Images, TrainingFailed, train

fleet_module = sys.modules["reprise.fleet.fleet"]  # its package gives this name to the function
CPU = torch.device("cpu")
RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
STEPS = 15
LABELS = images().train.labels


class CountingLane:
    """Does no arithmetic, and sees that it is asked for what can be."""

    made: list[CountingLane]
    trouble: dict[int, Exception]  # of evaluating a run, by seed

    def __init__(self, run, pixels, test, classes, longest, tests, width=1):
        self.width, self.longest, self.device, self.biases = width, longest, CPU, None
        self.losses, self.hits = torch.full((width, longest + 1), torch.nan), torch.zeros(width, longest + 1).long()
        self.correct = torch.zeros(width, tests, 2, classes, dtype=torch.int64)
        self.rows = torch.zeros(width, 3)
        self.runs = [None] * width
        self.at = [0] * width
        self.test, self.classes = test, classes
        self.made.append(self)

    def begin(self, slot, planned, weights):
        assert self.runs[slot] is None, "a run is there already"
        wanted = initial_row(nets.build(classes=self.classes, width=2, seed=planned.config.seed))
        assert torch.equal(weights, wanted)
        self.runs[slot], self.at[slot] = planned, 0

    def rest(self, slot):
        self.runs[slot] = None

    def advance(self, steps):
        for slot, planned in enumerate(self.runs):
            if planned is not None:
                assert self.at[slot] + steps <= len(planned.stream), "asked for more than the tape has"
                self.losses[slot, self.at[slot] : self.at[slot] + steps] = 1.0
                self.at[slot] += steps

    def evaluate(self, slot, number, chosen):
        planned = self.runs[slot]
        assert self.at[slot] == planned.stream.boundaries[number]
        if (error := self.trouble.get(planned.config.seed)) is not None:
            raise error
        self.correct[slot, number] = torch.bincount(self.test.labels[chosen], minlength=self.classes)

    def mark(self):
        return lambda: True


@pytest.fixture
def driver(monkeypatch):
    """The driver, as it is where there is a GPU and Triton."""
    monkeypatch.setattr(CountingLane, "made", [], raising=False)
    monkeypatch.setattr(CountingLane, "trouble", {}, raising=False)
    lane = types.ModuleType("reprise.fleet.engine.lane")
    lane.Lane = CountingLane
    monkeypatch.setitem(sys.modules, lane.__name__, lane)
    monkeypatch.delitem(sys.modules, "reprise.fleet.driver", raising=False)
    module = importlib.import_module("reprise.fleet.driver")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(module, "RUNS_PER_LANE", 3)
    monkeypatch.setattr(module, "measured_rate", lambda lanes: 1.0 + len(lanes))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU that counts")
    here = module.Group
    monkeypatch.setattr(module, "Group", lambda given, device: here(given, CPU))
    monkeypatch.setattr(fleet_module, "find_spec", lambda name: name)
    monkeypatch.setattr(fleet_module, "find_device", torch.device)
    monkeypatch.setattr(plans, "Pool", Planner)
    return module


def trained(runs=RUNS, **given):
    told = []
    ends = list(fleet(runs, given.pop("images", images()), device="cuda", watch=told.append, **given))
    assert len(ends) == len({outcome.config for outcome in ends}) == len(runs)
    for outcome in ends:
        if outcome.record is not None and outcome.config in RUNS:
            assert outcome.record["tape"] == make_plan(outcome.config, LABELS).tape.hash
    return {outcome.config: outcome.error for outcome in ends}, told


@pytest.mark.parametrize(("lanes", "widths"), [(1, [1]), (2, [2]), (5, [3, 2]), (50, [3, 3, 2]), (None, [3, 3, 2])])
def test_every_run_ends_once_however_many_go_at_once(driver, lanes, widths):
    errors, told = trained(lanes=lanes)
    assert set(errors) == set(RUNS)
    assert not any(errors.values())
    assert told[-1].steps == STEPS * len(RUNS)
    assert [lane.width for lane in CountingLane.made] == widths


def test_a_record_tells_the_times_that_the_plain_loops_does(driver):
    began = time.perf_counter()
    (outcome,) = fleet(RUNS[:1], images(), device="cuda")
    wall, timings = time.perf_counter() - began, outcome.record["timings"]
    assert timings.keys() == train(RUNS[0], images())["timings"].keys()
    assert timings["steps"] == STEPS
    assert 0 < timings["prepare"] + timings["train"] < wall


def test_images_are_hashed_once_and_named_in_every_record(driver, monkeypatch, tmp_path):
    hashed, fingerprints = [], Images.fingerprints
    monkeypatch.setattr(Images, "fingerprints", lambda self, run: hashed.append(run) or fingerprints(self, run))
    runs = [*RUNS, *(replace(run, lr=0.5) for run in RUNS[:2])]  # two groups, lanes for each
    held_out = config(validation=True)
    ends = {
        outcome.config: outcome.record for outcome in fleet([*runs, held_out], images(), device="cuda", out=tmp_path)
    }
    assert len(hashed) == 2
    data = {name: getattr(images(), name).fingerprint() for name in ("train", "test")}
    assert all(ends[run]["data"] == data for run in runs)
    assert ends[held_out]["data"] == {"train": data["train"]}
    assert all(record["identity"] == run.identity(record["data"]) for run, record in ends.items())
    again = list(fleet([*runs, held_out], images(), device="cuda", out=tmp_path))
    assert len(again) == len(runs) + 1
    assert all(outcome.known for outcome in again)
    assert len(hashed) == 4


def test_runs_of_a_lane_need_not_be_tested_at_the_same_steps(driver):
    runs = [config(seed=seed, imbalance=tail) for seed in range(3) for tail in (1.0, 2.0, 5.0)]
    boundaries = {tuple(make_plan(run, images().train.labels).stream.boundaries.tolist()) for run in runs}
    assert len(boundaries) > 1
    errors, _ = trained(runs, lanes=3)
    assert not any(errors.values())


def test_a_network_of_ones_own_has_a_lane_by_itself(driver, monkeypatch):
    monkeypatch.setattr(driver, "make_network", lambda run, classes: Thin(classes, run.head, run.seed, batchnorm=False))
    errors, _ = trained(lanes=5)
    assert not any(errors.values())
    assert [lane.width for lane in CountingLane.made] == [1] * 5


def test_a_network_that_mixes_examples_goes_by_the_plain_loop(driver, monkeypatch):
    monkeypatch.setattr(driver, "make_network", lambda run, classes: Thin(classes, run.head, run.seed, batchnorm=True))
    monkeypatch.setattr(fleet_module, "_plainly", lambda run, given, device, tally: (run, RuntimeError("plainly"), {}))
    errors, _ = trained()
    assert {str(error) for error in errors.values()} == {"plainly"}
    assert not CountingLane.made


def test_lanes_take_no_more_numbers_than_their_kernels_can_count(driver, monkeypatch):
    run, (height, width) = RUNS[0], images().train.images.shape[1:3]
    channels = -(-(2**31) // (height * width * (run.batch + run.replay * run.draws)))
    group = driver.Group(images(), CPU)
    for many, taken in ((channels, False), (channels - 1, True)):
        with torch.device("meta"):
            net = nets.ResNet18(10, width=many)
        monkeypatch.setattr(driver, "make_network", lambda run, classes, net=net: net)
        assert group.takes(run) is taken


def test_lanes_that_do_not_pay_are_not_kept(driver, monkeypatch):
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
def test_where_memory_ends_lanes_are_narrower(driver, monkeypatch, trouble):
    def build(*given):
        if given[-1] > 1:
            trouble()
        return CountingLane(*given)

    monkeypatch.setattr(sys.modules["reprise.fleet.engine.lane"], "Lane", build)
    errors, _ = trained(lanes=3)
    assert not any(errors.values())
    assert [lane.width for lane in CountingLane.made] == [1, 1, 1]


def test_where_memory_ended_one_lane_less_leaves_room_for_tests(driver, monkeypatch):
    def build(*given):
        if len(CountingLane.made) == 2:
            raise torch.OutOfMemoryError("so it is said")
        return CountingLane(*given)

    monkeypatch.setattr(sys.modules["reprise.fleet.engine.lane"], "Lane", build)
    errors, _ = trained()
    assert not any(errors.values())
    first, second = CountingLane.made
    assert any(first.at)
    assert not any(second.at)


def test_a_record_that_cannot_be_made_is_that_runs_error(driver, monkeypatch):
    plain = driver.RunResult

    def finished(**given):
        if given["config"] == RUNS[5]:
            raise ValueError("nothing comes of this one")
        return plain(**given)

    monkeypatch.setattr(driver, "RunResult", finished)
    errors, _ = trained(lanes=3)
    assert {run: str(error) for run, error in errors.items() if error} == {RUNS[5]: "nothing comes of this one"}


def test_without_room_for_one_run_every_run_says_so(driver, monkeypatch):
    def build(*given):
        raise torch.OutOfMemoryError("so it is said")

    monkeypatch.setattr(sys.modules["reprise.fleet.engine.lane"], "Lane", build)
    errors, _ = trained()
    assert all(isinstance(error, torch.OutOfMemoryError) for error in errors.values())


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError])
def test_no_room_to_test_one_run_is_that_runs_error(driver, kind):
    CountingLane.trouble[2] = kind("no room to test")
    errors, _ = trained(lanes=5)
    assert {run.seed for run, error in errors.items() if error is not None} == {2}


def test_weights_that_cannot_be_made_are_the_error_of_their_seed(driver, monkeypatch):
    plain = plans.make_network

    def build(run, classes):
        if run.seed == 1:
            raise RuntimeError("no weights for this seed")
        return plain(run, classes)

    monkeypatch.setattr(plans, "make_network", build)
    errors, _ = trained(lanes=2)
    assert {run.seed for run, error in errors.items() if error is not None} == {1}


def test_a_run_whose_loss_is_no_number_is_named(driver, monkeypatch):
    plain = CountingLane.advance

    def diverging(self, steps):
        plain(self, steps)
        for slot, planned in enumerate(self.runs):
            if planned is not None and planned.config == RUNS[3]:
                self.losses[slot, 4] = torch.inf

    monkeypatch.setattr(CountingLane, "advance", diverging)
    errors, _ = trained(lanes=3)
    assert [run for run, error in errors.items() if error is not None] == [RUNS[3]]
    assert isinstance(errors[RUNS[3]], TrainingFailed)
    assert "the loss of step 5 of 15 is inf" in str(errors[RUNS[3]])


@pytest.mark.parametrize("after", [0, 3])
def test_planners_that_are_killed_cost_no_run(driver, monkeypatch, after):
    monkeypatch.setattr(Planner, "left", after)
    errors, _ = trained(lanes=2)
    assert not any(errors.values())


def test_a_script_without_a_main_guard_is_no_error_of_a_run(driver, monkeypatch):
    def unguarded(*_):
        raise NoMainGuard("no guard")

    monkeypatch.setattr(Planner, "poll", unguarded)
    with pytest.raises(NoMainGuard):
        trained()


def test_what_the_plain_loop_refuses_the_fleet_refuses_in_the_same_words(driver):
    test = images().test
    beyond = replace(test, labels=test.labels + 1, classes=(*test.classes, "one more"))
    errors, _ = trained(images=replace(images(), test=beyond))
    assert {str(error) for error in errors.values()} == {"the test images are of 11 classes, the training images of 10"}


def test_a_step_that_cannot_be_captured_goes_by_the_plain_loop(driver, monkeypatch):
    def build(*given):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(sys.modules["reprise.fleet.engine.lane"], "Lane", build)
    monkeypatch.setattr(fleet_module, "_plainly", lambda run, given, device, tally: (run, RuntimeError("plainly"), {}))
    with pytest.warns(UserWarning, match="8 runs go by the plain loop.*no such instruction"):
        errors, _ = trained()
    assert {str(error) for error in errors.values()} == {"plainly"}


def test_images_that_do_not_fit_are_the_error_of_their_runs_alone(driver, monkeypatch):
    small = {"tasks": 5, "batch": 8, "buffer": 20, "replay": 4, "width": 2, "test_per_class": 1, "dataset": "glyphs"}
    runs = [config(**small, per_class=each) for each in (3, 4)]
    plain = driver.Group

    def room(given, device):
        if len(given.train) == 300:
            raise torch.OutOfMemoryError("no room for the images")
        return plain(given, device)

    monkeypatch.setattr(driver, "Group", room)
    errors, _ = trained(runs, images=None)
    assert isinstance(errors[runs[0]], torch.OutOfMemoryError)
    assert errors[runs[1]] is None
