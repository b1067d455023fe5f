"""Plans made ahead by processes: each run's own, whatever befalls the processes; and none outlives its parent."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from train.tinyruns import CLASSES, config, images

from reprise import nets
from reprise.core.workers import NoMainGuard, Pool
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.lane_plan import make_lane_plan
from reprise.fleet.plans import Plans
from reprise.runs.plan import Labels

RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
LABELS = Labels.of(images(), RUNS[0])


def begin(_) -> bool:
    """Every run is to be made."""
    return True


def taken(made: Plans) -> list:
    """All that comes, in order."""
    found = []
    while made:
        if made.ready:
            found.append((*made.take(), len(made.rows)))
        time.sleep(0.001)
    return found


def check(run, prepared) -> None:
    assert not isinstance(prepared, Exception), prepared
    planned, weights = prepared
    assert planned.plan.run == run
    wanted = make_lane_plan(run, LABELS)
    assert planned.plan.tape.hash == wanted.plan.tape.hash
    for name in ("ids", "counts", "crops"):
        assert np.array_equal(getattr(planned, name), getattr(wanted, name))
    net = nets.build(classes=CLASSES, width=run.network.width, head=run.network.head, seed=run.seed)
    assert torch.equal(weights, initial_row(net))


def test_plans_and_weights_are_each_runs_own_and_nothing_is_kept_for_long():
    with Plans(RUNS, LABELS, 1, ahead=2, begin=begin) as made:
        found = taken(made)
    assert [run for run, _, _ in found] == RUNS
    for run, prepared, _ in found:
        check(run, prepared)
    held = [kept for _, _, kept in found]
    assert max(held) <= 2  # weights of a seed, while a run needs them
    assert held[-1] == 0
    assert multiprocessing.active_children() == []


def test_runs_that_are_not_to_be_made_are_left_out_and_keep_no_weights():
    asked = []

    def begin(run):
        asked.append(run)
        return run not in (RUNS[0], RUNS[1], RUNS[4], RUNS[7])

    with Plans(RUNS, LABELS, 1, ahead=2, begin=begin) as made:
        while not made.ready:
            time.sleep(0.001)
        assert asked == RUNS[:4], "asked no further ahead than plans are made"
        found = taken(made)
    assert [run for run, _, _ in found] == [RUNS[2], RUNS[3], RUNS[5], RUNS[6]]
    assert asked == RUNS
    assert found[-1][2] == 0
    for run, prepared, _ in found:
        check(run, prepared)


def test_a_planner_that_is_lost_costs_no_run():
    with Plans(RUNS[:3], LABELS, 1, ahead=3, begin=begin) as made:
        for child in multiprocessing.active_children():
            child.kill()  # before it could begin: nobody is left, so plans are made here
        found = taken(made)
    for run, prepared, _ in found:
        check(run, prepared)


def test_what_is_wrong_with_the_processes_themselves_is_raised(monkeypatch):
    def unguarded(*_):
        raise NoMainGuard("no guard")

    monkeypatch.setattr(Pool, "poll", unguarded)
    with Plans(RUNS[:1], LABELS, 1, ahead=1, begin=begin) as made, pytest.raises(NoMainGuard):
        taken(made)


def test_an_error_ends_the_processes_without_waiting_for_plans():
    made = Plans(RUNS * 20, LABELS, 1, ahead=100, begin=begin)

    def interrupted():
        with made:
            while not made.ready:
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert multiprocessing.active_children() == []
    assert len(made.made) < 100


SCRIPT = """
import time
from train.tinyruns import config, images
from reprise.fleet.plans import Plans
from reprise.runs.plan import Labels

if __name__ == "__main__":
    made = Plans([config()], Labels.of(images(), config()), 2, ahead=1, begin=lambda _: True)
    while not made.ready:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(100)
"""


def test_a_killed_parent_takes_its_planners_with_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=given) as parent:
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        parent.communicate(timeout=120)  # which ends when nobody is left who could write
