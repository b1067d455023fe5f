"""Runs on a Ray cluster of two nodes on this machine: the records of runs made here, whatever happens to a node."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import cache, partial

import pytest

pytest.importorskip("ray", reason="the executor Ray needs ray")
pytest.importorskip("torch", reason="training needs torch")

import ray
from execute.on_nodes import OnLogicalGPU, children, end_here
from processes import PYTHON
from ray.cluster_utils import Cluster
from train.tinyruns import config, identity, images, result

from reprise.core import plugins, registry
from reprise.core.files import Lock
from reprise.execute import Here, Job
from reprise.execute import ray as executor_module
from reprise.execute.one import ImageSource
from reprise.execute.ray import Ray, _Shares
from reprise.execute.ray_cluster import OPTIONS
from reprise.lab import campaign
from reprise.runs import Run, Store, TrainingFailed

GOOD = [config(seed=1), config(seed=2, learner="der++", head="linear")]
DIVERGED = config(seed=3, lr=1e38)
AUDIT = Run.of(learner=None, classes=5, steps=9)
LONG = config(seed=11, buffer=50)
FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]
SOON = {"health_check_period_ms": 500, "health_check_failure_threshold": 3, "health_check_initial_delay_ms": 500}
NODE = {"num_cpus": 2, "num_gpus": 2}  # logical ones


@pytest.fixture(scope="module")
def cluster():
    """A head on which nothing is made, and a node; whoever loses that node leaves another like it.

    This process is connected to it, so that its workers serve one test after the other.
    """
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        for name in OPTIONS:
            patch.setenv(name, "0")
        patch.setenv("PYTHONPATH", PYTHON["PYTHONPATH"])
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": SOON}
        found = Cluster(initialize_head=True, head_node_args=head)
        found.add_node(**NODE)
        ray.init(found.address, log_to_driver=False)
        yield found
        ray.shutdown()
        found.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def not_connected(cluster):
    ray.shutdown()
    yield cluster.address
    assert not ray.is_initialized()
    handler = signal.getsignal(signal.SIGTERM)
    ray.init(cluster.address, log_to_driver=False)
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(autouse=True)
def _handlers_as_they_were(cluster):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def here(*runs, given=None):
    """Results of runs made in this process."""
    return {run: made_here(run, given or images()) for run in runs}


@cache
def made_here(run, given):
    (outcome,) = Here(ImageSource(given)).execute([run], lambda _: Job(), lambda _: None)
    return result(outcome.record)


def made(executor, runs, store=None, given=None, **options):
    """How each run of a campaign ended, and the steps that were told of."""
    told = []
    source = ImageSource(given or images())
    ends = list(campaign(runs, executor, store, images=source, watch=told.append, **options))
    assert len({one.run for one in ends}) == len(ends) == len(runs)
    return {one.run: one for one in ends}, told[-1].steps


def results(ends):
    return {run: result(one.record) for run, one in ends.items() if one.record is not None}


def test_records_are_those_made_here_and_what_is_kept_travels_back(tmp_path):
    store, runs = Store(tmp_path / "store"), [*GOOD, DIVERGED, AUDIT]
    executor = Ray(None, ImageSource(images()))
    ends, steps = made(executor, runs, store, keep_files=True)
    assert results(ends) == here(*GOOD, AUDIT)
    assert 30 <= steps <= 45
    assert isinstance(ends[DIVERGED].error, TrainingFailed)
    assert "diverged" in str(ends[DIVERGED].error)
    alone = Job(keep=tmp_path / "alone")
    next(Here(ImageSource(images())).execute(GOOD[:1], lambda _: alone, lambda _: None))
    for name in FILES:
        kept = store.files(identity(GOOD[0])) / name
        assert kept.read_bytes() == (alone.keep / name).read_bytes()
    left = {path.name for path in store.folder.iterdir()}
    assert left == {"claims", "failed", "files", "index.md", "records"}, "nothing is written there by the node"

    class Nobody(Ray):
        def execute(self, runs, start, tick):
            assert runs == [DIVERGED], "the others have their records"
            yield from Ray.execute(self, runs, start, tick)

    again, _ = made(Nobody(None, ImageSource(images())), runs, store)
    assert {run: one.known for run, one in again.items()} == {run: run != DIVERGED for run in runs}


def test_a_node_that_is_lost_takes_no_run_with_it(cluster, tmp_path, monkeypatch):
    """It has the only CPUs when it is lost, and a run is under way on it; the store is on shared storage."""
    store, given, name = Store(tmp_path / "store"), images(60), identity(LONG, images(60))
    (node,) = cluster.worker_nodes
    news, lost = _Shares._news, []

    def lose():
        raylet = node.all_processes["raylet"][0].process.pid
        for process in [*children(raylet), raylet]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        handler = signal.getsignal(signal.SIGTERM)
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(**NODE)
        signal.signal(signal.SIGTERM, handler)  # the helper for tests has its own

    def looked(shares):
        if not lost and list(store.unfinished(name).glob("step-*")):
            lost.append(name)
            lose()
        return news(shares)

    monkeypatch.setattr(executor_module, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(_Shares, "_news", looked)
    runs = [LONG, AUDIT, GOOD[0]]
    executor = Ray(None, ImageSource(given), jobs=1, shared=True)
    ends, _ = made(executor, runs, store, given, keep_files=True, checkpoint_every=5)
    assert lost
    assert [one.error for one in ends.values() if one.error is not None] == []
    assert results(ends) == here(*runs, given=given)
    assert 0 < ends[LONG].record["timings"]["steps"] < 75, "it went on from its checkpoint on the other node"
    assert sorted(path.name for path in store.files(name).iterdir()) == FILES
    assert not store.unfinished(name).exists()


def test_a_task_that_holds_a_logical_gpu_makes_a_share_and_is_not_asked_again_for_what_has_ended(cluster, tmp_path):
    """There is no GPU: Ray is told of two, and an executor on the CPU stands in for the fleet."""
    runs = [config(seed=seed) for seed in range(4)]
    executor = Ray(None, ImageSource(images()), gpus=1)
    executor.on_gpu = partial(OnLogicalGPU, notes=tmp_path, dies=True)
    ends, steps = made(executor, [*runs, AUDIT])
    assert results(ends) == here(*runs, AUDIT)
    assert steps >= 15 * 4
    notes = {path.name: path.read_text().split() for path in tmp_path.glob("gpu-*")}
    assert {name.split("-")[1] for name in notes} == {"0", "1"}
    begun = sorted(int(seed) for seeds in notes.values() for seed in seeds)
    assert begun == list(range(4)), "two shares of two; of that which died the second task made one"
    assert sorted(map(len, notes.values())) == [1, 1, 2]


def test_what_ray_gives_up_is_said_of_its_runs(cluster):
    executor = Ray(None, ImageSource(images()), gpus=1, retries=0)
    executor.on_gpu = end_here
    ends, _ = made(executor, [*GOOD, AUDIT])
    assert results(ends) == here(AUDIT)
    for run in GOOD:
        assert isinstance(ends[run].error, TrainingFailed)
        assert "Ray gave it up: The worker died" in str(ends[run].error)


class Interrupted(Exception):
    """What a campaign is told to stop by."""


def test_a_campaign_that_is_stopped_stops_its_tasks(cluster, tmp_path):
    store, given = Store(tmp_path), ImageSource(images(60))
    executor = Ray(None, given, shared=True)

    def stop(progress):
        if progress.steps:
            raise Interrupted

    runs = [LONG.replace(seed=seed) for seed in (12, 13, 14)]
    with pytest.raises(Interrupted):
        list(campaign(runs, executor, store, images=given, watch=stop))
    begun = list(store.folder.glob("unfinished/*"))
    assert begun
    for folder in begun:
        Lock(folder / "lock").release()  # nobody makes it any more
    assert not list(store.folder.glob("claims/*"))
    assert not list(store.records())


def test_modules_of_other_people_reach_a_cluster_that_is_named_by_its_address(not_connected, monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})
    file = tmp_path / "mine.py"
    file.write_text(
        "from reprise.core.registry import register\nfrom reprise.memory import Fifo\n"
        "@register('storage', 'mine')\nclass Mine(Fifo):\n    pass\n"
    )
    plugins.load_modules([str(file)])
    run = AUDIT.replace(storage="mine")
    ends, _ = made(Ray(not_connected), [run])
    assert results(ends) == here(run)
    assert ends[run].record["provenance"]["modules"] == ["mine.py"]
