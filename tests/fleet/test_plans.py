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
from reprise.fleet.planned import make_plan
from reprise.fleet.plans import Plans

RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
LABELS = images().train.labels


def taken(made: Plans) -> list:
    """All that comes, in order."""
    found = []
    while made:
        if made.ready:
            found.append((*made.take(), len(made.rows)))
        time.sleep(0.001)
    return found


def check(config, prepared) -> None:
    assert not isinstance(prepared, Exception), prepared
    planned, weights = prepared
    assert planned.config == config
    wanted = make_plan(config, LABELS)
    assert planned.tape.hash == wanted.tape.hash
    for name in ("ids", "counts", "crops"):
        assert np.array_equal(getattr(planned, name), getattr(wanted, name))
    net = nets.build(classes=CLASSES, width=config.width, head=config.head, seed=config.seed)
    assert torch.equal(weights, initial_row(net))


def test_plans_and_weights_are_each_runs_own_and_nothing_is_kept_for_long():
    with Plans(RUNS, LABELS, CLASSES, 1, ahead=2) as made:
        found = taken(made)
    assert [run for run, _, _ in found] == RUNS
    for run, prepared, _ in found:
        check(run, prepared)
    held = [kept for _, _, kept in found]
    assert max(held) <= 2  # weights of a seed, while a run needs them
    assert held[-1] == 0
    assert multiprocessing.active_children() == []


def test_a_planner_that_is_lost_costs_no_run():
    with Plans(RUNS[:3], LABELS, CLASSES, 1, ahead=3) as made:
        for child in multiprocessing.active_children():
            child.kill()  # before it could begin: nobody is left, so plans are made here
        found = taken(made)
    for run, prepared, _ in found:
        check(run, prepared)


def test_what_is_wrong_with_the_processes_themselves_is_raised(monkeypatch):
    def unguarded(*_):
        raise NoMainGuard("no guard")

    monkeypatch.setattr(Pool, "poll", unguarded)
    with Plans(RUNS[:1], LABELS, CLASSES, 1, ahead=1) as made, pytest.raises(NoMainGuard):
        taken(made)


def test_an_error_ends_the_processes_without_waiting_for_plans():
    made = Plans(RUNS * 20, LABELS, CLASSES, 1, ahead=100)

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
from train.tinyruns import CLASSES, config, images
from reprise.fleet.plans import Plans

if __name__ == "__main__":
    made = Plans([config()], images().train.labels, CLASSES, 2, ahead=1)
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
