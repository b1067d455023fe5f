"""Options of a study that say who makes its runs reach the executor."""

from __future__ import annotations

import pytest

from reprise import execute
from reprise.cli.errors import WrongRequest
from reprise.cli.executors import ExecutorOptions, make_executor
from reprise.execute import ray, slurm
from reprise.execute.one import ImageSource
from reprise.runs import Run, Store

RUNS = [Run.of(dataset="glyphs", learner="er", seed=seed) for seed in range(2)]


@pytest.mark.parametrize("lanes", [None, 3])
@pytest.mark.parametrize(
    ("executor", "maker", "gpus"),
    [("here", (execute, "choose"), 0), ("ray", (ray, "Ray"), 1), ("slurm", (slurm, "Slurm"), 1)],
    ids=["here", "ray", "slurm"],
)
def test_lanes_are_those_asked_for(executor, maker, gpus, lanes, monkeypatch, tmp_path):
    given: dict[str, object] = {}
    monkeypatch.setattr(*maker, lambda *_, **more: given.update(more))
    options = ExecutorOptions(executor=executor, lanes=lanes, gpus=gpus)
    make_executor(options, RUNS, ImageSource(), Store(tmp_path), "cuda")
    assert given["lanes"] == lanes


def test_lanes_of_runs_that_do_not_train_are_refused(tmp_path):
    """Whatever the device: there such runs need none, and it is not the user's choice that is wrong."""
    audit = Run.of(learner=None, classes=5, steps=9)
    with pytest.raises(WrongRequest, match="--lanes is for studies that train"):
        make_executor(ExecutorOptions(lanes=3, device="cuda"), [audit], ImageSource(), Store(tmp_path), "cpu")


@pytest.mark.parametrize(
    ("options", "device", "message"),
    [
        ({}, "cpu", "--lanes goes with --device cuda"),
        ({"executor": "ray"}, "cpu", "--lanes goes with --gpus 1 or more"),
        ({"executor": "slurm"}, "cpu", "--lanes goes with --gpus 1 or more"),
        (
            {"executor": "slurm", "gpus": 1, "slurm": "lanes=2"},
            "cpu",
            "--slurm lanes=… has an option of its own: --lanes",
        ),
    ],
    ids=str,
)
def test_lanes_without_a_gpu_are_refused(options, device, message, tmp_path):
    with pytest.raises(WrongRequest, match=message):
        make_executor(ExecutorOptions(lanes=3, **options), RUNS, ImageSource(), Store(tmp_path), device)
