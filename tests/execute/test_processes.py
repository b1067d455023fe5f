"""Runs in processes: the records of runs made alone, whatever happens to a neighbour."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
from train.tinyruns import config, identity, images, result

from reprise.core import workers
from reprise.execute import Job, Processes, processes
from reprise.execute.one import ImageSource
from reprise.lab import campaign, run_all
from reprise.runs import Run, Store
from reprise.train import Images, TrainingFailed, train

STEPS = 15
GOOD = [
    config(seed=1),
    config(seed=2, learner="der++", head="linear"),
    config(learner="er", retrieval="mir:12"),
]
DIVERGED = config(seed=3, lr=1e38)
LONG = [config(seed=seed, buffer=50) for seed in (11, 12, 13)]


def children():
    return multiprocessing.active_children()


def kept(folder):
    """The runs that are in a store."""
    return {record["identity"] for record in Store(folder).records()}


@pytest.fixture(autouse=True)
def no_process_outlives_its_run_all():
    yield
    assert children() == []


def ended(jobs, runs):
    """Every run's end by its configuration, all that was told on the way, and the cores that each process had."""
    told, cores = [], {}

    def watch(progress):
        told.append(progress)
        for child in children():
            cores.setdefault(child.pid, set()).add(frozenset(os.sched_getaffinity(child.pid)))

    executor = Processes(jobs, ImageSource(images()))
    ends = {outcome.run: outcome for outcome in campaign(runs, executor, watch=watch)}
    return ends, told, cores


def one_process(runs, folder):
    """Runs in one process, kept in a store."""
    given = ImageSource(images(40))
    return campaign(runs, Processes(1, given), Store(folder), images=given)


@pytest.fixture(scope="module")
def two():
    """As on a machine of two cores, or of one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "cores", lambda plain=processes.cores: plain()[:2])
        return ended(2, [*GOOD, DIVERGED])


def test_records_are_those_of_runs_made_alone(two):
    ends, _, _ = two
    for run in GOOD:
        assert ends[run].error is None
        assert not ends[run].known
        assert result(ends[run].record) == result(train(run, images()))


def test_a_run_that_diverges_is_given_with_its_error_and_the_others_end_well(two):
    ends, told, _ = two
    assert ends.keys() == {*GOOD, DIVERGED}
    assert ends[DIVERGED].record is None
    assert isinstance(ends[DIVERGED].error, TrainingFailed)
    assert "diverged" in str(ends[DIVERGED].error)
    assert ends[DIVERGED].name == "er-ace on tiny-balanced, reservoir 20, rpr 4, seed 3"
    assert (told[-1].done, told[-1].failed, told[-1].total) == (4, 1, 4)


def test_what_is_told_only_grows_and_misses_no_step(two):
    _, told, _ = two
    for before, after in pairwise(told):
        assert before.done <= after.done
        assert before.failed <= after.failed
        assert before.steps <= after.steps
        assert before.seconds <= after.seconds
    # Every step of those that ended well; of the one that did not, at most all.
    assert STEPS * len(GOOD) <= told[-1].steps <= STEPS * (len(GOOD) + 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes to cores")
def test_each_process_has_a_core_of_its_own(two):
    _, _, cores = two
    assert len(cores) == 2
    settled = [min(found, key=len) for found in cores.values()]  # before it is pinned, a process has all of them
    assert all(len(one) == 1 for one in settled)
    if len(os.sched_getaffinity(0)) > 1:
        assert settled[0] != settled[1]


def test_images_that_are_not_there_are_an_error_of_that_run_alone(tmp_path):
    small = {"tasks": 5, "batch": 8, "buffer": 20, "replay": 4, "width": 2, "per_class": 3, "test_per_class": 1}
    here, gone = config(**small, dataset="glyphs"), config(**small, dataset=str(tmp_path / "gone"))
    unknown = config(**{**small, "width": 64}, dataset="glyphs", backbone="resnet19")
    ends = {outcome.run: outcome for outcome in campaign([gone, here, unknown], Processes(1))}
    assert ends[here].record["identity"] == identity(here, Images.load(here))
    assert ends[gone].record is None
    assert "gone" in str(ends[gone].error)
    assert ends[unknown].record is None
    assert "resnet19" in str(ends[unknown].error)


def test_a_process_that_is_killed_takes_only_its_own_run_and_one_that_is_stopped_keeps_what_was_done(tmp_path):
    runs = [GOOD[0], LONG[0], GOOD[1], *LONG[1:]]
    outcomes = one_process(runs, tmp_path)
    ends = [next(outcomes)]
    (worker,) = children()
    os.kill(worker.pid, signal.SIGKILL)
    ends += [next(outcomes), next(outcomes)]
    assert [outcome.run for outcome in ends] == runs[:3]
    assert [outcome.error is None for outcome in ends] == [True, False, True]
    assert isinstance(ends[1].error, TrainingFailed)
    assert "status -9" in str(ends[1].error)
    (worker,) = children()
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)
    assert kept(tmp_path) == {identity(run, images(40)) for run in (runs[0], runs[2])}


def test_processes_that_cannot_begin_are_not_tried_for_every_run(monkeypatch):
    started = []
    plain = workers._Worker

    def counted(*given):
        started.append(plain(*given))
        return started[-1]

    monkeypatch.setattr(workers, "_Worker", counted)
    # A core that is not there: pinning fails before a run is asked for.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4095})
    ends = list(run_all([*GOOD, *LONG], images(), jobs=2))
    assert len(started) == 2
    assert [outcome.run for outcome in ends] == [*GOOD, *LONG]
    for outcome in ends:
        assert isinstance(outcome.error, TrainingFailed)
        assert "no process could begin: [Errno 22] Invalid argument" in str(outcome.error)


SCRIPT = """
import multiprocessing, os, sys
from execute.test_processes import one_process
from train.tinyruns import config

def main():
    runs = [config(seed=1), *(config(seed=seed, buffer=50) for seed in (11, 12, 13))]
    try:
        for outcome in one_process(runs, sys.argv[1]):
            print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)

if __name__ == "__main__":
    main()
"""


def test_an_interrupt_from_the_keyboard_leaves_records_and_no_process_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join(sys.path)
    given = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, str(script), str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given, start_new_session=True
    ) as process:
        workers = [int(word) for word in process.stdout.readline().split()]
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to the workers as well
        said, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert said.endswith("interrupted\n"), said + errors  # under load another run may have ended before it
    assert errors == ""
    assert len(workers) == 1
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    assert identity(GOOD[0], images(40)) in kept(tmp_path)


def test_an_impossible_number_of_processes_is_refused():
    with pytest.raises(ValueError, match="jobs must be 1 or more, got 0"):
        Processes(0)


def test_runs_are_asked_for_when_a_process_is_free_and_may_be_left_out():
    """Another campaign may have taken them meanwhile."""
    asked = []

    def start(run):
        asked.append(run)
        return None if run.seed % 2 else Job()

    audits = [Run.of(learner=None, classes=5, steps=9, seed=seed) for seed in range(8)]
    outcomes = Processes(1).execute(audits, start, lambda _: None)
    first = next(outcomes)
    assert len(asked) < 6
    assert [first.run, *(one.run for one in outcomes)] == audits[::2]
    assert asked == audits
    assert list(Processes(1).execute([], start, lambda _: None)) == []
