"""Plans made ahead by processes: each run's own, whatever befalls the processes; and none outlives its parent."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
import torch
from train.tinyruns import CLASSES, config, images

from reprise import nets
from reprise.nets.rows import initial_row
from reprise.train.fleet import plans
from reprise.train.fleet.planned import make_plan
from reprise.train.fleet.plans import Plans

RUNS = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("iid", "rpr")]
LABELS = images().train.labels


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


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


def test_plans_and_weights_are_each_runs_own_and_nothing_is_kept_for_long(folder):
    with Plans(RUNS, LABELS, CLASSES, 1, ahead=2) as made:
        found = taken(made)
    assert [run for run, _, _ in found] == RUNS
    for run, prepared, _ in found:
        check(run, prepared)
    held = [kept for _, _, kept in found]
    assert max(held) <= 2  # weights of a seed, while a run needs them
    assert held[-1] == 0
    assert list(folder.iterdir()) == []
    assert multiprocessing.active_children() == []


def full(path, labels):
    raise OSError(28, "No space left on device")


def damaged(path, labels):
    path.write_bytes(b"\x93NUMPY")


@pytest.mark.parametrize("save", [full, damaged])
def test_labels_that_cannot_be_handed_over_cost_no_run(folder, monkeypatch, save):
    monkeypatch.setattr(plans.np, "save", save)
    with Plans(RUNS[:3], LABELS, CLASSES, 1, ahead=2) as made:
        for run, prepared, _ in taken(made):
            check(run, prepared)


def test_an_error_ends_the_processes_without_waiting_for_plans(folder):
    made = Plans(RUNS * 20, LABELS, CLASSES, 1, ahead=100)

    def interrupted():
        with made:
            while not made.ready:
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for child in multiprocessing.active_children():
        child.join(20)
    assert multiprocessing.active_children() == []
    assert any(future.cancelled() for _, future in made.plans)
    assert list(folder.iterdir()) == []


SCRIPT = """
import time
from train.tinyruns import CLASSES, config, images
from reprise.train.fleet.plans import Plans

if __name__ == "__main__":
    made = Plans([config()], images().train.labels, CLASSES, 2, ahead=1)
    while not made.ready:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(100)
"""


def test_a_killed_parent_takes_its_planners_and_their_folder_with_it(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "temporary"
    script.write_text(SCRIPT)
    folder.mkdir()
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=given) as parent:
        assert parent.stdout.readline() == "ready\n"
        assert len(list(folder.iterdir())) == 1
        parent.kill()
        parent.communicate(timeout=120)  # which ends when nobody is left who could write
    assert list(folder.iterdir()) == []
