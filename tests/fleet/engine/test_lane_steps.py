"""A lane of two runs, step by step, against the plain loop; without a GPU, Triton's interpreter runs its kernels."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.lane_runs import CLASSES, DEVICE, DONE, REFRESH, check, same_tests, some_images
from fleet.engine.stacked import few_tiles
from train.tinyruns import Thin

from reprise import nets
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.engine.lane import Lane
from reprise.fleet.lane_plan import LanePlan, make_lane_plan
from reprise.runs.plan import Labels
from reprise.train import Images, Run
from reprise.train.evaluate import correct_per_class
from reprise.train.pixels import Pixels


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01}, {"learner": "der++", "head": "linear"}, REFRESH], ids=str)
def test_steps_are_the_plain_loops(settings, monkeypatch):
    """Nothing stored; a few; a short batch; a second task. Little is learnt, so that little drifts apart.

    The second slot has run something before, and rests while the first goes one step on.
    """
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **settings)
    runs = [run.replace(seed=seed) for seed in range(3)]
    plans = [make_lane_plan(one, Labels.of(images, one)) for one in runs]
    assert plans[0].counts[:DONE, 0].tolist() == [5, 5, 4, 5, 5]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    lane = Lane(run, train, test, CLASSES, plans[0].plan.steps, 2, width=2)

    def begin(slot, seed):
        net = nets.build(classes=CLASSES, head=run.network.head, width=run.network.width, seed=seed)
        lane.begin(slot, plans[seed], initial_row(net))

    begin(1, 2)
    lane.rest(0)
    lane.advance(1)
    begin(0, 0)
    begin(1, 1)
    lane.advance(DONE)
    lane.rest(1)
    for slot in (0, 1):
        lane.evaluate(slot, 0, np.arange(len(images.test)))
    lane.synchronize()
    check(lane, 0, runs[0], images)
    check(lane, 1, runs[1], images)
    before = lane.rows[1].clone()
    lane.advance(1)
    lane.synchronize()
    assert lane.counter.tolist() == [DONE + 1, DONE]
    assert torch.equal(lane.rows[1], before)
    ids = torch.arange(len(images.test), device=DEVICE)
    for which, net in enumerate((lane.mean_nets[1], lane.nets[1])):
        assert lane.correct[1, 0, which].tolist() == correct_per_class(net, test, ids, CLASSES).tolist()


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01}, {"learner": "der++", "head": "linear"}], ids=str)
def test_batches_that_are_not_full_are_no_matter_of_batchnorm(settings, monkeypatch):
    """A network with BatchNorm that is not stacked: its statistics are those of the real images of every step."""
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: Thin(classes, head, seed, batchnorm=True))
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=1e-3, ema=32, **settings)
    planned = make_lane_plan(run, Labels.of(images, run))
    assert planned.counts[:DONE, :2].tolist() == [[5, 0], [5, 3], [4, 3], [5, 3], [5, 3]]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    with pytest.raises(ValueError, match="a lane each, got 2"):
        Lane(run, train, test, CLASSES, planned.plan.steps, 2, width=2)
    lane = Lane(run, train, test, CLASSES, planned.plan.steps, 2)
    net = nets.build(classes=CLASSES, head=run.network.head, seed=run.seed)
    lane.rewind()
    lane.advance(2)  # as a measurement does, on whatever is there
    for _ in range(2):  # the second time, nothing of the first remains
        lane.begin(0, planned, initial_row(net))
        lane.advance(DONE)
        lane.evaluate(0, 0, np.arange(len(images.test)))
        lane.rest(0)
        before = lane.rows.clone()
        lane.advance(2)
        lane.synchronize()
        assert torch.equal(lane.rows, before)
        check(lane, 0, run, images)
    same_tests(lane, test)


@pytest.mark.parametrize("momentum", [None, 0.1])
def test_batches_are_counted_anew_for_every_run(momentum, monkeypatch):
    """BatchNorm without a momentum averages over all batches that it has counted."""
    if momentum is None and DEVICE.type == "cuda":
        pytest.skip("the host reads the count in every step: that cannot be captured")

    def build(*_, classes, head, seed, **__):
        net = Thin(classes, head, seed, batchnorm=True)
        for norm in nets.batch_norms(net):
            norm.momentum = momentum
        return net

    monkeypatch.setattr(nets, "build", build)
    images = some_images()
    lane, planned, weights = one_of(images)
    for _ in range(2):
        lane.begin(0, planned, weights)
        lane.advance(DONE)
        lane.synchronize()
        check(lane, 0, planned.plan.run, images)
        assert lane.nets[0].bn1.num_batches_tracked == DONE + (DONE - 1)  # those that came in, and were replayed


@pytest.mark.parametrize("shuffled", [True, False])
def test_whole_numbers_of_a_network_are_every_run_s_or_it_has_no_lane(shuffled, monkeypatch):
    """Initial weights, which a run brings, have no others than those with a point."""

    def build(*_, classes, head, seed, **__):
        net = Thin(classes, head, seed, batchnorm=True)
        order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
        net.register_buffer("order", order if shuffled else torch.arange(9))
        return net

    monkeypatch.setattr(nets, "build", build)
    if not shuffled:
        lane, _, _ = one_of(some_images())
        assert lane.nets[0].order.tolist() == [*range(9)]
        return
    with pytest.raises(ValueError, match="the same 'order' for every run; here it depends on the seed"):
        one_of(some_images())


class FullSteps:
    """Stands in for a graph: takes steps whose batches are full, and no others."""

    def __init__(self, lane: Lane) -> None:
        self.lane, self.replayed = lane, 0

    def replay(self) -> None:
        lane = self.lane
        assert lane.counts[0, lane.counter[0]].tolist() == list(lane.sizes)
        self.replayed += 1
        lane._step()


def one_of(images: Images) -> tuple[Lane, LanePlan, torch.Tensor]:
    """A lane of one run, its plan and its initial weights."""
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=1e-3, ema=32)
    planned = make_lane_plan(run, Labels.of(images, run))
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    weights = initial_row(nets.build(classes=CLASSES, head="cosine", seed=0))
    return Lane(run, train, test, CLASSES, planned.plan.steps, 2), planned, weights


@pytest.mark.usefixtures("own_norm")
def test_full_steps_are_of_the_graph_and_others_search_for_no_algorithm(monkeypatch):
    lane, planned, weights = one_of(some_images())
    lane.graph = graph = FullSteps(lane)
    searched, usual = [], Lane._step

    def noted(self, counts=None):
        searched.append((counts, torch.backends.cudnn.benchmark))
        usual(self, counts)

    monkeypatch.setattr(Lane, "_step", noted)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    lane.begin(0, planned, weights)
    lane.advance(DONE)
    lane.synchronize()
    assert graph.replayed == 3
    assert [(list(counts), found) for counts, found in searched if counts is not None] == [
        ([5, 0], False),
        ([4, 3], False),
    ]
    assert lane.counter.tolist() == [DONE]
    lane.rest(0)
    lane.advance(2)
    assert lane.counter.tolist() == [DONE]
    lane.counts.copy_(torch.tensor(lane.sizes))
    lane.rewind()  # as if all batches were full, also where a run has ended
    lane.advance(2)
    lane.synchronize()
    assert (lane.counter.tolist(), graph.replayed) == ([2], 5)


@pytest.mark.usefixtures("own_norm")
@pytest.mark.parametrize("which", [1, 2], ids=["average", "live"])
def test_a_test_that_fails_leaves_nothing_for_the_next_run(which, monkeypatch):
    images = some_images()
    lane, planned, weights = one_of(images)

    def losses():
        lane.begin(0, planned, weights)
        lane.advance(DONE)
        lane.synchronize()
        return lane.losses[0, :DONE].clone()

    first, usual, tested = losses(), Thin.features, []

    def failing(net, x):
        if not net.training:
            tested.append(net)
            if len(tested) == which:
                raise torch.OutOfMemoryError("so it is said")
        return usual(net, x)

    with monkeypatch.context() as patched:
        patched.setattr(Thin, "features", failing)
        with pytest.raises(torch.OutOfMemoryError):
            lane.evaluate(0, 0, np.arange(len(images.test)))
    assert torch.equal(losses(), first)
