"""Runs on GPUs: lanes for those that can be captured, processes for the others, and a process for each of several GPUs.

Lanes that only count stand in for those on a GPU.
"""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest
import torch
from fleet.counting import CPU, CountingLane, lanes_are, pretend
from fleet.planner import Planner
from train.tinyruns import Thin, config, images, result

from reprise.core.workers import NoMainGuard, WorkerLost
from reprise.execute import Executor, Job, RunOutcome, gpus
from reprise.execute.executor import share_of
from reprise.execute.gpus import GPUs
from reprise.execute.one import ImageSource
from reprise.fleet import driver
from reprise.learners import find_learner
from reprise.runs import Run, TrainingFailed
from reprise.track import Tracking
from reprise.train import Training, make_record, steps

RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
PLAIN = config(learner="ocm", hyper={"rotations": 1})
STEPS = 15


class Plainly(Executor):
    """Stands in for the processes of the plain loop: every run ends with an error, which the test may choose."""

    made: list[tuple[int, str, list[Run]]]
    error: Exception

    def __init__(self, jobs, images, device):
        self.jobs, self.device = jobs, device

    def execute(self, runs, start, tick):
        self.made.append((self.jobs, self.device, list(runs)))
        for run in runs:
            if start(run) is not None:
                yield RunOutcome(run, None, RuntimeError("plainly") if self.jobs == 1 else self.error)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    pretend(monkeypatch)
    monkeypatch.setattr(gpus, "Processes", Plainly)
    monkeypatch.setattr(Plainly, "made", [], raising=False)
    monkeypatch.setattr(Plainly, "error", RuntimeError("plainly"), raising=False)


def ended(runs=RUNS, *, start=lambda _: Job(), devices=("cuda",), given=None, **options):
    """How each run ended, and the steps that were told of."""
    told = []
    executor = GPUs(devices, ImageSource(given or images()), **{"jobs": 2, **options})
    ends = list(executor.execute(runs, start, told.append))
    assert len({outcome.run for outcome in ends}) == len(ends)
    return {outcome.run: outcome for outcome in ends}, sum(told)


def plainly(outcome):
    return str(outcome.error) == "plainly"


def test_lanes_take_what_they_can_and_processes_the_rest():
    audit = Run.of(learner=None, classes=5, steps=9)
    ends, told = ended([PLAIN, *RUNS, audit])
    assert all(ends[run].error is None for run in RUNS)
    assert {run for run in ends if plainly(ends[run])} == {PLAIN, audit}
    assert Plainly.made == [(2, "cuda", [audit, PLAIN])]
    assert told == STEPS * len(RUNS)


def test_a_run_that_is_not_to_be_made_is_neither_planned_nor_given():
    left_out = {RUNS[0], RUNS[5], PLAIN}
    ends, told = ended([*RUNS, PLAIN], start=lambda run: None if run in left_out else Job())
    assert set(ends) == {*RUNS} - left_out
    assert told == STEPS * len(ends)
    assert ended(start=lambda _: None) == ({}, 0)


def test_a_run_is_asked_for_when_it_is_about_to_be_planned():
    """So that a campaign in another process may take what is not begun."""
    asked = []
    many = [config(seed=seed) for seed in range(40)]
    executor = GPUs(("cuda",), ImageSource(images()), lanes=1, jobs=1)
    outcomes = executor.execute(many, lambda run: asked.append(run) or Job(), lambda _: None)
    next(outcomes)
    assert len(asked) < len(many)
    outcomes.close()


def test_what_a_lane_leaves_becomes_the_record_that_the_plain_loop_makes():
    """Whoever made it: `RunResult` holds all that a record says."""
    run = Training(RUNS[0], images())
    for _ in steps(run):
        pass
    outcome = gpus._outcome(RUNS[0], run.result({"train": 1.5}))
    assert result(outcome.record) == result(make_record(run.result({})))
    assert outcome.record["timings"] == {"train": 1.5}


def test_a_record_that_cannot_be_made_is_that_runs_error(monkeypatch):
    plain = gpus.make_record

    def made(found):
        if found.run == RUNS[5]:
            raise ValueError("nothing comes of this one")
        return plain(found)

    monkeypatch.setattr(gpus, "make_record", made)
    ends, _ = ended()
    assert {run: str(one.error) for run, one in ends.items() if one.error} == {RUNS[5]: "nothing comes of this one"}


def test_runs_whose_networks_mix_examples_have_a_lane_each(monkeypatch):
    monkeypatch.setattr(driver, "make_network", lambda run, classes: Thin(classes, "cosine", run.seed, batchnorm=True))
    ends, _ = ended(lanes=4)
    assert [one.error for one in ends.values()] == [None] * len(RUNS)
    assert [lane.width for lane in CountingLane.made] == [1] * 4


@pytest.mark.parametrize(("own", "widths"), [(True, [1] * 4), (False, [3, 1])])
def test_runs_have_a_lane_each_if_their_learner_has_passes_of_its_own_and_not_if_it_moves_first(
    own, widths, monkeypatch
):
    monkeypatch.setattr(find_learner("refresh"), "own_passes", own)
    runs = [config(learner="refresh", seed=seed) for seed in range(5)]
    ends, _ = ended(runs, lanes=4)
    assert [one.error for one in ends.values()] == [None] * len(runs)
    assert [lane.width for lane in CountingLane.made] == widths


def test_a_step_outside_the_graph_that_fails_is_that_runs_error(monkeypatch):
    """Where all steps are of one graph, it is the lane's, and all runs that had not ended have it."""
    usual, activations = CountingLane.advance, []

    def advance(lane, steps):
        if any(planned is not None and planned.plan.run.seed == 1 for planned in lane.runs):
            large = torch.zeros(3)
            activations.append(weakref.ref(large))
            raise RuntimeError("so it is said")
        usual(lane, steps)

    monkeypatch.setattr(driver, "make_network", lambda run, classes: Thin(classes, "cosine", run.seed, batchnorm=True))
    monkeypatch.setattr(CountingLane, "advance", advance)
    monkeypatch.setattr(CountingLane, "padded", False)
    ends, told = ended(lanes=2)
    assert {run.seed for run, one in ends.items() if one.error is not None} == {1}
    assert len(ends) == len(RUNS)
    assert told == STEPS * (len(RUNS) - 2)
    assert len(activations) == 2
    assert all(held() is None for held in activations)  # whoever keeps the error
    lanes = [weakref.ref(lane) for lane in CountingLane.made]
    CountingLane.made.clear()
    gc.collect()
    assert [lane() for lane in lanes] == [None, None]
    assert ends


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no room to test"), RuntimeError("cuDNN: unable to find an engine")], ids=repr
)
def test_a_run_that_lacked_memory_on_a_lane_is_made_again_when_lanes_have_ended(error, monkeypatch):
    alive, usual = [], Plainly.execute

    def execute(self, *given):
        lanes = [weakref.ref(lane) for lane in CountingLane.made]
        CountingLane.made.clear()
        gc.collect()
        alive.extend(lane() for lane in lanes)
        yield from usual(self, *given)

    monkeypatch.setattr(Plainly, "execute", execute)
    CountingLane.trouble[1] = error
    asked = []
    ends, _ = ended(start=lambda run: asked.append(run) or Job())
    again = [run for run in RUNS if run.seed == 1]
    assert [run for run, one in ends.items() if plainly(one)] == again
    assert Plainly.made == [(2, "cuda", again)]
    assert sorted(asked, key=RUNS.index) == RUNS  # each once
    assert list(ends)[-2:] == again
    assert alive
    assert set(alive) == {None}  # or there would be no more memory than before


def test_a_run_that_lacked_memory_is_not_forgotten_when_its_lanes_fail(monkeypatch):
    CountingLane.trouble[0] = torch.OutOfMemoryError("no room to test")
    usual, asked = driver.LaneQueue.advance, []

    def advance(queue):
        asked.append(queue)
        if len(asked) > 40:
            raise RuntimeError("the device is gone")
        return usual(queue)

    monkeypatch.setattr(driver.LaneQueue, "advance", advance)
    many = [config(seed=seed) for seed in range(30)]
    ends, _ = ended(many, lanes=3)
    assert set(ends) == {*many}
    assert plainly(ends[many[0]])
    assert str(ends[many[-1]].error) == "the device is gone"


def test_a_script_without_a_main_guard_is_no_error_of_a_run(monkeypatch):
    def unguarded(*_):
        raise NoMainGuard("no guard")

    monkeypatch.setattr(Planner, "poll", unguarded)
    with pytest.raises(NoMainGuard):
        ended()


def test_a_step_that_cannot_be_captured_goes_by_the_plain_loop(monkeypatch):
    def build(*given):
        raise RuntimeError("no such instruction")

    lanes_are(monkeypatch, build)
    asked = []
    with pytest.warns(UserWarning, match="8 runs go by the plain loop.*no such instruction"):
        ends, _ = ended(start=lambda run: asked.append(run) or Job())
    assert all(map(plainly, ends.values()))
    assert sorted(asked, key=RUNS.index) == RUNS, "each is begun once"


def test_what_goes_wrong_with_lanes_is_the_error_of_what_had_not_ended(monkeypatch):
    advance = CountingLane.advance

    def advanced(self, steps):
        if any(run is not None and run.plan.run == RUNS[2] for run in self.runs):
            raise RuntimeError("the device is lost")
        advance(self, steps)

    monkeypatch.setattr(CountingLane, "advance", advanced)
    ends, _ = ended(lanes=1)
    assert [run for run in RUNS if ends[run].error is None] == RUNS[:2]
    assert {str(ends[run].error) for run in RUNS[2:]} == {"the device is lost"}


def test_images_that_do_not_fit_are_the_error_of_their_runs_alone(monkeypatch):
    small = {"tasks": 5, "batch": 8, "buffer": 20, "replay": 4, "width": 2, "test_per_class": 1, "dataset": "glyphs"}
    runs = [config(**small, per_class=each) for each in (3, 4)]

    def room(given, device):
        if len(given.train) == 300:
            raise torch.OutOfMemoryError("no room for the images")
        return driver.Group(given, CPU)

    monkeypatch.setattr(gpus, "Group", room)
    told = []
    ends = {one.run: one for one in GPUs(("cuda",), jobs=1).execute(runs, lambda _: Job(), told.append)}
    assert isinstance(ends[runs[0]].error, torch.OutOfMemoryError)
    assert ends[runs[1]].error is None


def test_a_plain_loop_that_ran_out_of_memory_is_made_again_alone(monkeypatch):
    monkeypatch.setattr(Plainly, "error", torch.OutOfMemoryError("so it is said"))
    others = [PLAIN.replace(seed=seed) for seed in range(3)]
    ends, _ = ended(others)
    assert Plainly.made == [(2, "cuda", others), (1, "cuda", others)]
    assert all(map(plainly, ends.values()))
    monkeypatch.setattr(Plainly, "made", [])
    ended(others, jobs=1)
    assert Plainly.made == [(1, "cuda", others)]


@pytest.mark.parametrize(("free", "expected"), [(0, 1), (13, 2), (600, 3)])
def test_as_many_plain_loops_go_at_once_as_cores_memory_and_runs_allow(free, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free << 30, 141 << 30))
    monkeypatch.setattr(gpus, "cores", lambda: list(range(16)))
    assert gpus.at_once(CPU, 3) == expected


@pytest.mark.parametrize("name", ["lanes", "jobs"])
def test_an_impossible_number_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be 1 or more, got 0"):
        GPUs(**{name: 0})


# Several GPUs.


class Drivers:
    """Stands in for the processes of several GPUs: each share is made here, and some process may be lost."""

    lost: set[int]  # shares whose process ends after its first word

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, make, jobs):
        self.tasks = [make(number) for number in range(jobs)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def rounds(self, items, told):
        for number, share in enumerate(items):
            words = []
            self.tasks[number % len(self.tasks)](share, words.append)
            if number in self.lost:
                ends = [place for place, (kind, _) in enumerate(words) if kind == "ended"]
                words = words[: ends[0] + 1]
            for word in words:
                told(pickle.loads(pickle.dumps(word)))
                yield []
            yield [(share, WorkerLost("its process ended") if number in self.lost else None)]


@pytest.fixture
def several(monkeypatch):
    monkeypatch.setattr(gpus, "Pool", Drivers)
    monkeypatch.setattr(Drivers, "lost", set(), raising=False)
    monkeypatch.setattr(gpus, "share_of", lambda _: 3)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return {"devices": ("cuda:0", "cuda:1")}


def test_runs_on_several_gpus_end_once_each(several):
    others = [run.replace(lr=0.5) for run in RUNS[:4]]
    audit = Run.of(learner=None, classes=5, steps=9)
    ends, told = ended([*RUNS, PLAIN, audit, *others], **several)
    assert ends.keys() == {*RUNS, *others, PLAIN, audit}
    assert all(ends[run].error is None for run in (*RUNS, *others))
    assert plainly(ends[PLAIN])
    assert plainly(ends[audit])
    assert told == STEPS * 12
    assert {device for _, device, _ in Plainly.made} <= {"cuda:0", "cuda:1"}


def test_with_few_lanes_a_gpu_is_given_few_runs_at_a_time(several, monkeypatch):
    """Two fillings of its lanes: what it is given it begins, and keeps from the other one."""
    monkeypatch.setattr(gpus, "share_of", share_of)
    sizes, noted = [], gpus._noted
    monkeypatch.setattr(
        gpus, "_noted", lambda shares, given: (sizes.append(len(one)) or one for one in noted(shares, given))
    )
    ended(lanes=1, **several)
    assert max(sizes) == 2
    ended(**several)
    assert max(sizes) == len(RUNS) < share_of(None)


def test_what_is_not_to_be_made_is_not_sent_to_any_gpu(several):
    ends, told = ended(start=lambda run: Job() if run.seed == 3 else None, **several)
    assert {run.seed for run in ends} == {3}
    assert told == STEPS * 2
    assert ended(start=lambda _: None, **several) == ({}, 0)
    assert ended([], **several) == ({}, 0)


def test_a_gpu_whose_process_is_lost_loses_only_what_it_had_left(several, monkeypatch):
    monkeypatch.setattr(Drivers, "lost", {1})
    ends, _ = ended(**several)
    assert ends.keys() == set(RUNS)
    failed = [one for one in ends.values() if one.error is not None]
    assert len(failed) == 2  # of a share of three, one had ended
    assert {str(one.error) for one in failed} == {"its process ended"}
    assert all(isinstance(one.error, TrainingFailed) for one in failed)


class Unsent(Exception):
    """An error that cannot be made anew from its arguments, as another process would have to."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


def test_an_error_that_cannot_be_sent_is_one_run_s_alone(several, monkeypatch):
    monkeypatch.setattr(Plainly, "error", Unsent("it", "broke"))
    ends, _ = ended([PLAIN, *RUNS], **several)
    assert str(ends[PLAIN].error) == "Unsent: it: broke"
    assert all(ends[run].error is None for run in RUNS)


def test_trackers_are_told_of_a_run_on_lanes_when_it_has_ended(tmp_path):
    track = Tracking(("csv",), folder=tmp_path)
    ends, _ = ended(start=lambda run: Job(track=track))
    for outcome in ends.values():
        header, *rows = (tmp_path / outcome.record["identity"] / "log.csv").read_text().splitlines()
        told = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
        assert [row["step"] for row in told] == ["3", "6", "9", "10", "12", "15"]
        assert {row["loss"] for row in told} == {"1.0"}
        assert told[-1]["gaps/open_max"] == str(outcome.record["audit"]["open_max"])


def test_a_run_on_lanes_is_not_lost_by_a_tracker_that_is_none():
    with pytest.warns(UserWarning, match="The run is not logged: unknown tracker 'cvs'"):
        ends, _ = ended(RUNS[:1], start=lambda run: Job(track=Tracking(("cvs",))))
    assert ends[RUNS[0]].error is None
