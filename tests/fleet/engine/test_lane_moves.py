"""Learners that move the weights before a step, and parameters that no step moves: on a lane as in the plain loop."""

from __future__ import annotations

import os
from functools import partial

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
from reprise.fleet.lane_plan import make_lane_plan
from reprise.learners import Learner
from reprise.learners.er import ER
from reprise.learners.losses import cross_entropy
from reprise.learners.refresh import Refresh
from reprise.runs.plan import Labels
from reprise.train import Run
from reprise.train.machine import computes_bf16
from reprise.train.pixels import Pixels


def left_by(lane: Lane, slot: int, steps: int) -> dict[str, torch.Tensor]:
    """All that a run leaves after so many steps."""
    left = {name: getattr(lane, name)[slot] for name in ("rows", "mean_rows", "counter")}
    left |= {name: getattr(lane, name)[slot, :steps] for name in ("losses", "hits")}
    return {name: one.clone() for name, one in (left | dict(lane.learners[slot].named_buffers())).items()}


def test_a_learner_that_moves_first_depends_neither_on_its_neighbour_nor_on_who_was_there_before(monkeypatch):
    """It comes after a run whose weights were not numbers, and beside one of another seed; and is the plain loop's."""
    taken = 3  # with nothing stored, with little, and a short batch
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **REFRESH)
    planned = [make_lane_plan(run.replace(seed=seed), Labels.of(images, run)) for seed in range(2)]
    rows = [initial_row(nets.build(classes=CLASSES, head="linear", width=2, seed=seed)) for seed in range(2)]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    alone, amid = (Lane(run, train, test, CLASSES, planned[0].plan.steps, 2, width=width) for width in (1, 2))
    amid.begin(1, planned[0], torch.full_like(rows[0], torch.nan))
    amid.rest(0)
    amid.advance(1)
    amid.synchronize()
    assert amid.learners[1].fisher.isnan().any()
    amid.begin(0, planned[1], rows[1])
    amid.begin(1, planned[0], rows[0])
    alone.begin(0, planned[0], rows[0])
    for lane in (alone, amid):
        lane.advance(taken)
        lane.synchronize()
    mine, theirs = left_by(amid, 1, taken), left_by(alone, 0, taken)
    assert mine["fisher"].any()
    for name, value in theirs.items():
        if name == "stored.logits":  # the last row is of what is not real
            value, mine[name] = value[:-1], mine[name][:-1]
        assert torch.equal(mine[name], value), name
    assert not torch.equal(left_by(amid, 0, taken)["rows"], mine["rows"])
    check(alone, 0, run.replace(seed=0), images, taken)


def move_and_more(learner, step):
    """What a learner does before a step that is not only to move."""
    Learner.before(learner, step)
    with torch.no_grad():
        for parameter in learner.net.parameters():
            parameter.mul_(1.01)


def test_what_a_learner_does_before_a_step_by_itself_is_done_on_a_lane(monkeypatch):
    monkeypatch.setattr(Refresh, "before", move_and_more)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **REFRESH)
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    assert not lane.padded  # the network is not stacked
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="linear", width=2, seed=0)))
    lane.advance(3)
    lane.synchronize()
    check(lane, 0, run, images, 3)


@pytest.mark.parametrize("norm", [True, False], ids=["BatchNorm", "padded"])
def test_a_learner_moves_first_on_a_lane_of_its_own(norm, monkeypatch):
    """Of networks that are not stacked: its moves are the plain loop's, whichever run the lane had before."""
    build = partial(Thin, batchnorm=norm)
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: build(classes, head, seed))
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=2e-5, ema=32, **REFRESH)
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    with pytest.raises(ValueError, match="a lane each, got 2"):
        Lane(run, train, test, CLASSES, 20, 2, width=2)
    lane = Lane(run, train, test, CLASSES, 20, 2)
    for seed in (1, 0):
        one = run.replace(seed=seed)
        planned = make_lane_plan(one, Labels.of(images, one))
        lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="linear", seed=seed)))
        lane.advance(DONE)
        lane.evaluate(0, 0, np.arange(len(images.test)))
        lane.synchronize()
        check(lane, 0, one, images)
    same_tests(lane, test)


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01, "head": "linear"}, REFRESH], ids=["er-ace", "refresh"])
@pytest.mark.parametrize("stackable", [True, False], ids=["ResNet", "Thin"])
def test_parameters_that_are_not_trained_stay_as_they_are(stackable, settings, monkeypatch):
    """A convolution's and a norm's. Such a network has a lane to itself, and is tested like any other."""
    usual, still = nets.build, ("conv1.weight", "bn1.bias", "fc.bias")

    def build(*names, classes, head, seed, **settings):
        net = Thin(classes, head, seed, batchnorm=True)
        if stackable:
            net = usual(*names, classes=classes, head=head, seed=seed, **settings)
        for name in still:
            net.get_parameter(name).requires_grad_(False)
        return net

    monkeypatch.setattr(nets, "build", build)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, **{"lr": 1e-4, "ema": 32, **settings})
    planned = make_lane_plan(run, Labels.of(images, run))
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    lane = Lane(run, train, test, CLASSES, planned.plan.steps, 2)
    net = nets.build(classes=CLASSES, head="linear", width=2, seed=0)
    lane.begin(0, planned, initial_row(net))
    lane.advance(DONE)
    lane.evaluate(0, 0, np.arange(len(images.test)))
    lane.synchronize()
    check(lane, 0, run, images)
    same_tests(lane, test)
    for name, parameter in net.named_parameters():
        for now in (lane.nets[0], lane.mean_nets[0]):
            assert torch.equal(now.get_parameter(name).cpu(), parameter) is (name in still), name


@pytest.mark.parametrize("what", ["frozen", "more"])
@pytest.mark.parametrize("stackable", [True, False], ids=["ResNet", "Thin"])
def test_a_learner_that_decides_itself_what_is_trained_has_no_lane(stackable, what, monkeypatch):
    """The plain loop trains what a learner leaves to be trained, and its own parameters; a lane would not."""
    usual = ER.__init__

    def probing(self, net, setting):
        usual(self, net, setting)
        if what == "frozen":
            next(net.parameters()).requires_grad_(False)
        else:
            self.scale = torch.nn.Parameter(torch.ones(1))

    monkeypatch.setattr(ER, "__init__", probing)
    if not stackable:
        monkeypatch.setattr(
            nets, "build", lambda *_, classes, head, seed, **__: Thin(classes, head, seed, batchnorm=True)
        )
    images = some_images()
    run = Run.of(dataset="some", learner="er", tasks=2, batch=5, replay=3, buffer=9, width=2)
    name = "scale" if what == "more" else r"\w+(\.\w+)*"
    with pytest.raises(ValueError, match=f"ER freezes some of them, or has parameters of its own: {name}$"):
        Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, 12, 2)


@pytest.mark.usefixtures("own_norm")
@pytest.mark.parametrize("moves", [True, False])
def test_before_is_called_of_learners_that_have_one_of_their_own(moves, monkeypatch):
    """And where the step's own passes are: a run in bf16 has them in bf16, where the device computes in it."""
    called = []
    monkeypatch.setattr(ER, "before", lambda self, step: called.append(torch.is_autocast_enabled(DEVICE.type)))
    monkeypatch.setattr(ER, "moves_first", moves)
    images = some_images()
    run = Run.of(dataset="some", learner="er", tasks=2, batch=5, replay=3, buffer=9, precision="bf16")
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    called.clear()
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="cosine", seed=0)))
    lane.advance(1)  # with nothing stored, and so outside the graph
    lane.synchronize()
    assert called == [computes_bf16(DEVICE.type)]


def test_the_loss_before_a_move_is_computed_as_the_step_s_own(monkeypatch):
    """In bf16 where the run is and the device computes in it; what the learner is given is in single precision."""
    seen = []

    def first_loss(self, logits, incoming):
        seen.append((torch.is_autocast_enabled(DEVICE.type), logits.dtype))
        return cross_entropy(logits, incoming)

    monkeypatch.setattr(ER, "moves_first", True)
    monkeypatch.setattr(ER, "first_loss", first_loss)
    monkeypatch.setattr(ER, "first_move", lambda self, gradient, incoming: torch.zeros_like(gradient))
    images = some_images()
    run = Run.of(dataset="some", learner="er", tasks=2, batch=5, replay=3, buffer=9, precision="bf16", width=2)
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    assert lane.incoming is not None
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, width=2, seed=0)))
    lane.advance(1)
    lane.synchronize()
    assert {*seen} == {(computes_bf16(DEVICE.type), torch.float32)}
