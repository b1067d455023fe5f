"""Runs on a GPU: lanes kept busy, the plain loop for the rest, and every run given its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.gpuruns import DEVICE, WIDTH, Mixing, config, images, plan
from fleet.planner import Planner
from train.tinyruns import result

from reprise import nets
from reprise.core import plugins, registry
from reprise.execute import gpus
from reprise.execute.gpus import GPUs
from reprise.execute.one import ImageSource
from reprise.fleet import driver, plans
from reprise.fleet.engine import lane as lane_module
from reprise.fleet.engine.lane import Lane
from reprise.lab import campaign, run_all
from reprise.runs import Store, make_plan
from reprise.runs.plan import Labels
from reprise.train import Images, Run, Training, TrainingFailed, steps, train

pytestmark = [
    pytest.mark.gpu,
    # Torch says so, once, of the thread that does the first backward pass, and then sets the context itself.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]
GROUP = [
    config(seed=1),
    config(seed=1, retrieval="uniform"),
    config(seed=2, imbalance=4.0, storage="cbrs", retrieval="iid"),
    config(seed=3, buffer=20, order="permuted"),
    config(seed=4),
]


@pytest.fixture
def planned_here(monkeypatch):
    """Tapes planned in this process: others take seconds to begin, and one test with them is enough."""
    monkeypatch.setattr(plans, "Pool", Planner)


def trained(runs: list[Run], **given: Any) -> dict[Run, Any]:
    ends = list(run_all(runs, images(), device=str(DEVICE), jobs=2, **given))
    assert len({outcome.run for outcome in ends}) == len(ends)
    return {outcome.run: outcome for outcome in ends}


def test_a_mixture_gives_every_run_its_end(tmp_path):
    other = config(learner="der++", head="linear", evaluate_every=7, validation=True)
    refresh = config(learner="refresh", head="linear", hyper={"fisher_every": 20})
    plainly = config(learner="ocm", hyper={"rotations": 1})
    diverged = config(lr=1e38, head="linear", seed=9)
    unknown = config(backbone="resnet19", seed=8, width=64)
    told = []
    ends = trained([*GROUP, diverged, plainly, unknown, other, refresh], out=tmp_path, watch=told.append)
    assert ends.keys() == {*GROUP, diverged, plainly, unknown, other, refresh}
    for run in (*GROUP, plainly, other, refresh):
        outcome = ends[run]
        assert outcome.error is None, outcome.name
        record = outcome.record
        assert record["identity"] == run.identity(images().fingerprints(run))
        assert {name: record[name] for name in plan(run).plan.summary} == plan(run).plan.summary
        assert record["evaluations"]["boundary"][-1]
        assert result(Store(tmp_path).get(record["identity"])) == result(record)
        assert record.keys() == ends[plainly].record.keys()
        assert record["timings"].keys() == ends[plainly].record["timings"].keys()
        assert record["metrics"]["ema"].keys() == ends[plainly].record["metrics"]["ema"].keys()
    assert ends[other].record["split"] == "validation"
    assert set(range(7, plan(other).plan.steps, 7)) < set(ends[other].record["evaluations"]["steps"])
    assert "bias_displacement" in ends[other].record["diagnostics"]
    assert isinstance(ends[diverged].error, TrainingFailed)
    assert "diverged" in str(ends[diverged].error)
    assert ends[diverged].name.endswith("seed 9")
    assert "resnet19" in str(ends[unknown].error)
    last = told[-1]
    assert (last.done, last.failed, last.total) == (10, 2, 10)
    assert last.steps == sum(plan(run).plan.steps for run in (*GROUP, diverged, plainly, other, refresh))


@pytest.mark.usefixtures("planned_here")
def test_a_lanes_evaluations_are_of_the_classes_seen_and_near_the_plain_loops():
    """Later steps drift apart, as they do under any other kernel; what is tested, and when, does not."""
    (mine,) = trained(GROUP[:1], lanes=1).values()
    plain = Training(GROUP[0], images(), DEVICE)
    for _ in steps(plain):
        pass
    found, expected = mine.record["evaluations"], plain.evaluations()["ema"]
    assert found["steps"] == expected.steps.tolist()
    assert found["test_counts"] == expected.counts.tolist()
    got = np.array(found["accuracies"]["ema"], float)
    assert np.array_equal(np.isnan(got), np.isnan(expected.accuracy))
    assert abs(np.nanmean(got) - np.nanmean(expected.accuracy)) < 0.15
    hits = mine.record["prequential"]["accuracy"] * len(plain.plan.stream.ids)
    assert abs(hits - plain.hits.sum().item()) < 0.15 * len(plain.plan.stream.ids)


def counted(monkeypatch, most: int, widest: int = 8) -> list[Lane]:
    """Let there be room for so many lanes, of no more than so many runs; gives those that were made."""
    made: list[Lane] = []

    def build(*given: Any) -> Lane:
        if len(made) == most or given[-1] > widest:
            raise torch.OutOfMemoryError("CUDA out of memory: so it is said")
        made.append(Lane(*given))
        return made[-1]

    monkeypatch.setattr(lane_module, "Lane", build)
    return made


@pytest.mark.usefixtures("planned_here")
def test_where_memory_ends_fewer_runs_go_at_once(monkeypatch):
    made = counted(monkeypatch, 2, widest=2)
    ends = trained(GROUP, lanes=5)
    assert [lane.width for lane in made] == [2, 2]
    assert [run for run in GROUP if ends[run].error is not None] == []
    monkeypatch.setattr(lane_module, "Lane", Lane)
    alone = trained(GROUP[:1], lanes=1)
    assert alone[GROUP[0]].record["metrics"] == ends[GROUP[0]].record["metrics"]


@pytest.mark.usefixtures("planned_here")
def test_lanes_are_added_while_they_pay(monkeypatch):
    made = counted(monkeypatch, 9)
    monkeypatch.setattr(driver, "RUNS_PER_LANE", 2)
    rates = iter([100.0, 150.0, 151.0])
    monkeypatch.setattr(driver, "measured_rate", lambda lanes: next(rates))
    runs = [config(seed=seed) for seed in range(8)]
    assert len(driver.Group(images(), DEVICE)._lanes(runs, None, stacked=True)) == 2
    assert [lane.width for lane in made] == [2, 2, 2]


@pytest.mark.usefixtures("planned_here")
def test_without_room_for_one_lane_every_run_says_so_and_the_others_go_on(monkeypatch):
    counted(monkeypatch, 0)
    plainly = config(learner="ocm", hyper={"rotations": 1})
    ends = trained([*GROUP[:2], plainly])
    for run in GROUP[:2]:
        assert isinstance(ends[run].error, torch.OutOfMemoryError)
    assert ends[plainly].error is None


@pytest.mark.usefixtures("planned_here")
def test_a_campaign_that_is_closed_goes_on_where_it_stood(tmp_path):
    outcomes = run_all(GROUP[:3], images(), device=str(DEVICE), out=tmp_path, lanes=1, jobs=2)
    first = next(outcomes)
    outcomes.close()
    assert [record["identity"] for record in Store(tmp_path).records()] == [first.record["identity"]]
    ends = trained(GROUP[:3], out=tmp_path, lanes=2)
    assert [run for run in GROUP[:3] if ends[run].known] == [first.run]
    assert all(outcome.error is None for outcome in ends.values())


@pytest.mark.usefixtures("planned_here")
def test_images_that_stay_on_disk_are_trained_on_by_the_plain_loop(tmp_path, monkeypatch):
    monkeypatch.setattr("reprise.train.pixels._fits", lambda size, device: False)
    np.save(tmp_path / "train.npy", images().train.images)
    on_disk = replace(images().train, images=np.load(tmp_path / "train.npy", mmap_mode="c"))
    counted(monkeypatch, 0)
    (outcome,) = run_all(GROUP[:1], Images(on_disk, images().test), device=str(DEVICE), jobs=1)
    assert outcome.error is None
    assert outcome.record["tape"] == plan(GROUP[0]).plan.tape.hash


@pytest.mark.usefixtures("planned_here")
def test_runs_whose_networks_mix_examples_have_a_lane_each(monkeypatch):
    monkeypatch.setattr(nets, "build", lambda backbone, *, classes, head, seed, **_: Mixing(classes, head, seed))
    made = counted(monkeypatch, 9)
    ends = trained(GROUP, lanes=3)
    assert [lane.width for lane in made] == [1, 1, 1]
    for run in GROUP:
        assert ends[run].error is None
        assert ends[run].record["tape"] == plan(run).plan.tape.hash
    alone = trained(GROUP[:1], lanes=1)
    assert alone[GROUP[0]].record["metrics"] == ends[GROUP[0]].record["metrics"]


PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"


def test_a_storage_and_a_data_set_of_ones_own_are_played_by_lanes(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})
    plugins.load_modules([str(PLUGINS / f"my_{name}.py") for name in ("storage", "dataset")])
    settings = {
        "storage": "mine",
        "dataset": "mine",
        "width": WIDTH,
        "per_class": 8,
        "buffer": 30,
        "batch": 8,
        "replay": 4,
    }
    runs = [Run.of(**settings, seed=seed) for seed in range(3)]
    ends = {outcome.run: outcome for outcome in run_all(runs, device=str(DEVICE), jobs=2)}  # planned in processes
    for run in runs:
        assert ends[run].error is None
        assert ends[run].record["tape"] == make_plan(run, Labels.of(Images.load(run), run)).tape.hash
        assert ends[run].record["provenance"]["modules"] == ["my_storage.py", "my_dataset.py"]


def test_two_processes_that_drive_a_gpu_each_make_every_run_once(tmp_path):
    runs = [config(seed=seed, retrieval=name) for seed in range(4) for name in ("rpr", "iid")]
    store = Store(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpus, "share_of", lambda _: 3)
        source = ImageSource(images())
        ends = list(campaign(runs, GPUs(["cuda:0", "cuda:0"], source), store, images=source))
    assert {outcome.run for outcome in ends} == set(runs)
    assert [outcome.error for outcome in ends] == [None] * len(runs)
    alone = trained(runs)
    for outcome in ends:
        assert result(outcome.record) == result(alone[outcome.run].record)


def test_a_memory_that_asks_the_network_goes_on_lanes(planned_here, monkeypatch):
    """And learns about as in the plain loop."""
    runs = [config(learner="er", retrieval="mir:12", seed=seed) for seed in range(3)]
    plainly: list[Run] = []
    with monkeypatch.context() as patched:
        patched.setattr(GPUs, "_side_by_side", lambda self, left, start, tick: plainly.extend(left) or ())
        ends = trained(runs)
    assert not plainly
    for run in runs:
        assert ends[run].error is None
        plain = train(run, images(), device=DEVICE)
        mine, theirs = (np.array(record["curves"]["loss"]) for record in (ends[run].record, plain))
        assert abs(mine[0] - theirs[0]) < 0.02 * theirs[0]
        assert abs(mine.mean() - theirs.mean()) < 0.15 * theirs.mean()
