"""Two processes that share a run: what one alone would learn, up to the order in which sums are added."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed as dist
from train.tinyruns import BRISK, CLASSES, config, images, other_pixels, result, run_to, same, thin_networks, weights

from reprise.learners import LEARNERS
from reprise.learners.refresh import Refresh
from reprise.train import Training, TrainingFailed, make_record, ranks, train
from reprise.train.ranks import Ranks, leave

WORLD = 2
SHARED = [name for name, learner in LEARNERS.items() if learner.parallel]
ALONE = [name for name, learner in LEARNERS.items() if not learner.parallel]
# Odd batches; and a batch of one, and a replay of one, of which the second process has no part.
SIZES = {"odd": {"batch": 7, "replay": 3}, "one": {"batch": 19, "replay": 1}}
CASES = {f"{name}, {size}": {"learner": name, **SIZES[size]} for name in SHARED for size in SIZES}
# So fast that a mistake shows; without BatchNorm a learning rate of a few per cent moves hardly anything.
PACE = {"lr": 0.3, "head": "linear", "evaluate_every": 2, "ema": 64}


class Stopped(Exception):
    pass


def stop(step, run, trained):
    if trained.step == step:
        raise Stopped


def spoil(run, trained):
    if trained.step == 2:
        run.net.fc.weight.data.fill_(torch.nan)


def said(job):
    """What a job fails with."""
    try:
        job()
    except (ValueError, TrainingFailed) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def worker(rank, folder):
    """All that one of the two processes does; what it finds goes to the folder."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD)
    for case, settings in CASES.items():
        with thin_networks(batchnorm=False):
            keep(run_to(config(**settings, **PACE)), folder / f"{case}-{rank}")
    with thin_networks():
        run = run_to(config(**PACE))
        keep(run, folder / f"batchnorm-{rank}")
        whole = train(config(**PACE), images(), **folders(folder / "whole"), checkpoint_every=2)
        try:
            train(config(**PACE), images(), **folders(folder / "broken"), checkpoint_every=2, watch=partial(stop, 7))
        except Stopped:
            dist.barrier()
        broken = train(config(**PACE), images(), **folders(folder / "broken"))
        refusals = {
            name: said(lambda n=name: Training(config(learner=n, hyper=BRISK.get(n, {})), images())) for name in ALONE
        }
        Refresh.parallel = True  # as every learner is unless it says otherwise
        refusals["moves first"] = said(lambda: Training(config(learner="refresh"), images()))
        refusals["mir"] = said(lambda: Training(config(learner="er", retrieval="mir:12"), images()))
        refusals["images"] = said(lambda: Training(config(), other_pixels() if rank else images()))
        refusals["diverged"] = said(lambda: train(config(), images(), watch=spoil))
    (folder / f"said-{rank}.json").write_text(json.dumps(refusals))
    for name, record in (("whole", whole), ("broken", broken)):
        (folder / f"{name}-{rank}.json").write_text(json.dumps(record))
    leave()


def folders(out):
    return {"checkpoints": out / "checkpoints", "keep": out / "kept"}


def keep(run, path):
    found = {**weights(run), "losses": run.losses, "hits": run.hits}
    safetensors.torch.save_file(found, f"{path}.safetensors")
    Path(f"{path}.json").write_text(json.dumps(result(make_record(run.result({})))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have left what they learnt."""
    folder = tmp_path_factory.mktemp("ranks")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    code = "import pathlib, sys, train.test_ranks as t; t.worker(int(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    logs = [(folder / f"log-{rank}").open("w+") for rank in range(WORLD)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(rank), str(folder)],
            env={**os.environ, "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=logs[rank],
            stderr=subprocess.STDOUT,
        )
        for rank in range(WORLD)
    ]
    try:
        codes = [worker.wait(timeout=150) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    texts = [(folder / f"log-{rank}").read_text() for rank in range(WORLD)]
    for log in logs:
        log.close()
    assert codes == [0, 0], "\n".join(texts)
    return folder


def learnt(folder, case, rank):
    return safetensors.torch.load_file(folder / f"{case}-{rank}.safetensors")


def record(folder, case, rank):
    return json.loads((folder / f"{case}-{rank}.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns(case, folder):
    with thin_networks(batchnorm=False):
        begun = weights(Training(config(**CASES[case], **PACE), images()))
        run = run_to(config(**CASES[case], **PACE))
    alone = {**weights(run), "losses": run.losses, "hits": run.hits}
    for rank in range(WORLD):
        shared = learnt(folder, case, rank)
        assert shared.keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(shared[name], value, rtol=1e-5, atol=1e-5 * float(value.abs().max()), msg=name)
    for name in ("live.net.conv1.weight", "live.net.fc.bias"):
        assert (alone[name] - begun[name]).abs().max() > 1e-2, "it has learnt something"
    mine = result(make_record(run.result({})))
    theirs = record(folder, case, 0)
    assert theirs["tape"] == mine["tape"]
    assert theirs["evaluations"] == mine["evaluations"]
    assert theirs["metrics"] == mine["metrics"]


@pytest.mark.parametrize("case", [*CASES, "batchnorm"])
def test_both_processes_hold_the_same(case, folder):
    one, two = (learnt(folder, case, rank) for rank in range(WORLD))
    assert same(one, two)  # BatchNorm's statistics too, for the last step ends with a test
    assert record(folder, case, 0) == record(folder, case, 1)


def test_batchnorm_sees_parts_and_the_difference_is_no_more_than_that(folder):
    """Each process normalises its part of a batch: half as many images, so another network, if not a far one."""
    with thin_networks():
        run = run_to(config(**PACE))
    alone, shared = run.losses, learnt(folder, "batchnorm", 0)["losses"]
    assert torch.isfinite(shared).all()
    assert not torch.allclose(alone, shared, rtol=1e-3)
    assert abs(float(shared.mean() / alone.mean()) - 1) < 0.5
    assert record(folder, "batchnorm", 0)["tape"] == run.feed.tape().hash


def test_the_kept_weights_are_those_that_were_tested(folder):
    """Both processes test with the first one's BatchNorm statistics, which are the ones in the files."""
    found = record(folder, "whole", 0)
    assert found["provenance"]["processes"] == WORLD
    assert result(found) == record(folder, "batchnorm", 0)
    with thin_networks():
        run = Training(config(**PACE), images())
    for name, net in (("live", run.net), ("ema", run.readout.net)):
        net.load_state_dict(safetensors.torch.load_file(folder / "whole" / "kept" / f"{name}.safetensors"))
    run.step = run.steps
    run.correct = {name: [np.zeros(CLASSES, np.int64)] * (len(run.due) - 1) for name in run.correct}  # the last is left
    run.evaluate()
    counts = np.array(found["evaluations"]["test_counts"])
    for name in ("live", "ema"):
        np.testing.assert_allclose(found["evaluations"]["accuracies"][name][-1], run.correct[name][-1] / counts)


def test_two_processes_resume_as_one(folder):
    for rank in range(WORLD):
        whole, broken = (record(folder, name, rank) for name in ("whole", "broken"))
        assert (whole["timings"]["steps"], broken["timings"]["steps"]) == (15, 9)
        assert result(broken) == result(whole)
    for name in ("live.safetensors", "ema.safetensors", "tape.safetensors"):
        whole, broken = (folder / one / "kept" / name for one in ("whole", "broken"))
        assert whole.read_bytes() == broken.read_bytes()


@pytest.mark.parametrize("rank", range(WORLD))
def test_what_cannot_be_shared_says_so(rank, folder):
    found = json.loads((folder / f"said-{rank}.json").read_text())
    for name in ALONE:
        assert found[name] == f"ValueError: learner {name!r} cannot share its steps; train it in one process"
    assert found["moves first"] == found["refresh"]
    assert found["mir"].startswith("ValueError: 'mir:12' asks the network at every step")
    assert found["images"].startswith("ValueError: the processes that share this run have different images")
    assert found["diverged"].startswith("TrainingFailed: ")
    assert {"er", "er-ace", "der", "der++"} <= set(SHARED)
    assert {"refresh", "ocm"} <= set(ALONE)


@pytest.mark.parametrize(("backend", "done"), [("gloo", ["parted", "waited"]), ("nccl", ["parted"])])
def test_leaving_gives_the_threads_of_gloo_time(backend, done, monkeypatch):
    """An interpreter that ends at once may abort with them: seldom, so their end itself makes no test."""
    found = []
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: found.append("parted"))
    monkeypatch.setattr(ranks, "time", SimpleNamespace(sleep=lambda seconds: found.append("waited" if seconds else "")))
    leave()
    assert found == done


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("count", range(1, 9))
def test_parts_are_disjoint_and_their_weights_make_the_mean(world, count):
    values = torch.arange(1.0, count + 1)
    taken, total = [], 0.0
    for rank in range(world):
        mine, weight = Ranks(rank, world).part(count, torch.device("cpu"))
        assert len(values[mine]) == len(weight) > 0, "no process may be left without a pass"
        taken += [float(value) for value, share in zip(values[mine], weight, strict=True) if share]
        total += float((values[mine] * weight).sum()) / world
    assert sorted(taken) == values.tolist()
    assert total == pytest.approx(float(values.mean()))
