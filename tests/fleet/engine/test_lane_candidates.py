"""Memories that ask the network on a lane: at every step the candidates that return are those of the plain loop."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.lane_runs import CLASSES, DEVICE, some_images
from learners.steps import NothingReadBack
from train.tinyruns import Thin

from reprise import nets
from reprise.fleet.engine import candidates
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.engine.lane import Lane
from reprise.fleet.lane_plan import make_lane_plan
from reprise.runs.plan import Labels
from reprise.train import Run, Training, steps
from reprise.train.pixels import Pixels
from reprise.train.state import make_network

pytestmark = [pytest.mark.gpu] if torch.cuda.is_available() else []  # where there is one, steps are of a captured graph
USUAL = {"dataset": "some", "tasks": 2, "batch": 5, "replay": 3, "buffer": 9, "width": 4, "ema": 32, "lr": 0.02}
RUNS = {
    "some candidates": {"learner": "er", "retrieval": "mir:4"},
    "the whole memory": {"learner": "er-ace", "retrieval": "mir:20", "storage": "cbrs"},
    "running statistics": {"learner": "er", "retrieval": "mir:4", "scoring": "eval"},
    "the learner's own loss": {"learner": "er-ace", "retrieval": "mir:4", "virtual_loss": "own", "head": "linear"},
    "what a learner remembers": {"learner": "der", "retrieval": "mir:4", "head": "linear"},
    "as many as are replayed": {"learner": "er", "retrieval": "mir:3"},
}
NETWORKS = {
    "ResNet": None,
    "BatchNorm": lambda classes, head, seed: Thin(classes, head, seed, batchnorm=True),
    "padded": lambda classes, head, seed: Thin(classes, head, seed, batchnorm=False),
}


def build_as(name, monkeypatch):
    if (thin := NETWORKS[name]) is not None:
        monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: thin(classes, head, seed))


def lane_of(run, images):
    """A lane for such runs, and the plan of this one."""
    planned = make_lane_plan(run, Labels.of(images, run))
    return Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, 12, 2), planned


def begin(lane, planned):
    lane.begin(0, planned, initial_row(make_network(planned.plan.run, CLASSES)))


@torch.no_grad()
def stand_alike(plain: Training, lane: Lane) -> None:
    """Give the plain run the lane's weights and statistics, so that nothing of earlier steps is between them."""
    for name, value in lane.nets[0].state_dict().items():
        if value.is_floating_point():
            plain.net.state_dict()[name].copy_(value)
    if hasattr(plain.learner, "stored"):
        plain.learner.stored.logits.copy_(lane.learners[0].stored.logits[:-1])


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_at_every_step_the_plain_loop_s_candidates_return(settings, network, monkeypatch):
    """Nothing stored, a few, all; short batches; and a run after another one."""
    build_as(network, monkeypatch)
    images = some_images()
    run = Run.of(**{**USUAL, **settings})
    lane, planned = lane_of(run, images)
    other = run.replace(seed=1)
    begin(lane, make_lane_plan(other, Labels.of(images, other)))
    lane.advance(3)
    begin(lane, planned)
    lane.synchronize()
    assert (lane.graph is None) is (DEVICE.type == "cpu")
    plain = Training(run, images, DEVICE)
    going, chosen_otherwise = steps(plain), 0
    for step in range(plain.steps):
        stand_alike(plain, lane)
        next(going)
        lane.advance(1)
        lane.synchronize()
        drawn = plain.feed.replay[step, 0]
        count = np.count_nonzero(drawn >= 0)
        first = lane.batch
        assert lane.ids[0, step, first : first + count].tolist() == drawn[:count].tolist(), step
        torch.testing.assert_close(lane.losses[0, step], plain.losses[step], rtol=1e-3, atol=1e-4)
        chosen_otherwise += sorted(drawn[:count]) != sorted(planned.pools.first.replay[step, 0, :count])
    assert chosen_otherwise or planned.pools.slots.shape[1] <= run.memory.replay
    assert not lane.candidates.failed.any()
    tape = planned.tape(lane.candidates.chosen[: plain.steps].cpu().numpy())
    assert tape.hash == plain.feed.tape().hash


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_a_step_can_be_captured(settings, network, monkeypatch):
    """Nothing in it is read back, or has a shape that depends on a value; checked without a GPU, too."""
    build_as(network, monkeypatch)
    lane, planned = lane_of(Run.of(**{**USUAL, **settings}), some_images())
    begin(lane, planned)
    lane.advance(3)
    with NothingReadBack():
        lane._step()


@pytest.mark.parametrize("network", NETWORKS)
def test_a_graph_is_for_steps_whose_pool_is_full(network, monkeypatch):
    """A step that looks at fewer candidates is another one, unless networks do not mix the examples of a batch."""
    build_as(network, monkeypatch)
    images = some_images()
    run = Run.of(**{**USUAL, "learner": "er", "retrieval": "mir:7"})
    lane, planned = lane_of(run, images)
    taken, usual = [], Lane._step

    class Graph:
        def replay(self):
            usual(lane)
            taken.append("graph")

    monkeypatch.setattr(lane, "graph", Graph())
    monkeypatch.setattr(Lane, "_step", lambda self, counts=None: usual(self, counts) or taken.append(tuple(counts)))
    begin(lane, planned)
    lane.advance(planned.plan.steps)
    assert [tuple(row) for row in planned.real[:4].tolist()] == [(5, 0, 0), (5, 3, 5), (4, 3, 7), (5, 3, 7)]
    irregular = [(5, 0, 0), (5, 3, 5), (4, 3, 7), "graph", "graph", (4, 3, 7)]
    assert taken == (["graph"] * 6 if network == "padded" else irregular)


def test_a_score_that_is_not_a_number_is_noted_at_its_step():
    images = some_images()
    run = Run.of(**{**USUAL, "learner": "er", "retrieval": "mir:4"})
    lane, planned = lane_of(run, images)
    begin(lane, planned)
    lane.advance(2)
    lane.synchronize()
    with torch.no_grad():
        lane.nets[0].conv1.weight.fill_(torch.nan)
    lane.advance(2)
    lane.synchronize()
    assert lane.candidates.failed.nonzero().flatten().tolist() == [2, 3]
    lane.candidates.failed[0] = True  # as a measurement may; the first step has nobody to ask about
    begin(lane, planned)  # nothing of it remains
    lane.advance(4)
    lane.synchronize()
    assert not lane.candidates.failed.any()


def test_such_runs_have_a_lane_each(monkeypatch):
    build_as("padded", monkeypatch)
    images = some_images()
    run = Run.of(**{**USUAL, "learner": "er", "retrieval": "mir:4"})
    with pytest.raises(ValueError, match="runs whose memory asks the network have a lane each, got 2 for one"):
        Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, 12, 2, width=2)


def score_of(ids):
    """Higher for lower ids, equal for four of them, and for the first not a number."""
    return torch.where(ids == 0, torch.nan, -(ids / 4).floor())


@pytest.mark.parametrize("network", ["padded", "BatchNorm"])
def test_padding_of_a_pool_never_returns_and_its_score_may_be_anything(network, monkeypatch):
    """It stands for example 0, whose score is not a number here; of equal scores the first drawn return."""
    build_as(network, monkeypatch)
    monkeypatch.setattr(candidates, "interference", lambda learner, step, batch, **_: score_of(batch.ids))
    images = some_images()
    run = Run.of(**{**USUAL, "learner": "er", "retrieval": "mir:9"})
    lane, planned = lane_of(run, images)
    begin(lane, planned)
    lane.advance(planned.plan.steps)
    lane.synchronize()
    for step in range(1, planned.plan.steps):
        pool = planned.pools.ids[step, : planned.pools.counts[step]].tolist()
        wanted = sorted(pool, key=lambda number: number // 4)[:3]
        assert lane.candidates.failed[step] == (0 in pool)
        assert 0 in pool or lane.ids[0, step, 5:8].tolist() == wanted
