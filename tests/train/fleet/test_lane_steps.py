"""A lane of two runs, step by step, against the plain loop; without a GPU, Triton's interpreter runs its kernels."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from nets.stacked import few_tiles

from reprise import nets
from reprise.data import from_arrays
from reprise.nets.rows import initial_row
from reprise.train import Images, Run, TrainRun, steps
from reprise.train.evaluate import correct_per_class
from reprise.train.fleet.lane import Lane
from reprise.train.fleet.planned import make_plan
from reprise.train.pixels import Pixels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES, SIDE = 4, 16


def some_images() -> Images:
    random = np.random.default_rng(3)

    def part(each, split):
        labels = np.repeat(np.arange(CLASSES), each)
        return from_arrays(random.integers(0, 256, (len(labels), SIDE, SIDE, 3), dtype=np.uint8), labels, split=split)

    return Images(part(7, "train"), part(5, "test"))


def far(mine, other, start):
    """How far apart two networks are, relative to the way that one of them has come."""
    ways = [
        torch.cat([(value.detach() - start[name]).flatten() for name, value in net.named_parameters()])
        for net in (mine, other)
    ]
    return ((ways[0] - ways[1]).norm() / ways[1].norm()).item()


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01}, {"learner": "der++", "head": "linear"}], ids=str)
def test_steps_are_the_plain_loops(settings, monkeypatch):
    """Nothing stored; a few; the last of a task, which is short. Little is learnt, so that little drifts apart."""
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    images = some_images()
    run = TrainRun("some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=1e-4, ema=32, **settings)
    runs = [run.with_seed(seed) for seed in range(2)]
    plans = [make_plan(one, images.train.labels) for one in runs]
    assert plans[0].counts[:3, 0].tolist() == [5, 5, 4]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    lane = Lane(run, train, test, CLASSES, len(plans[0].stream), 2, width=2)
    plain = [Run(one, images, DEVICE) for one in runs]
    starts = [{name: value.detach().clone() for name, value in one.net.named_parameters()} for one in plain]
    for place, (one, planned) in enumerate(zip(runs, plans, strict=True)):
        net = nets.build(classes=CLASSES, head=one.head, width=one.width, seed=one.seed)
        lane.begin(place, planned, initial_row(net))
    for _ in range(3):
        lane.advance(1)
    lane.evaluate(1, 0, np.arange(len(images.test)))
    lane.synchronize()
    for place, (one, start) in enumerate(zip(plain, starts, strict=True)):
        going = steps(one)
        while one.step < 3:
            next(going)
        torch.testing.assert_close(lane.losses[place, :3], one.losses[:3], rtol=1e-4, atol=0)
        assert torch.equal(lane.hits[place, :3], one.hits[:3])
        assert far(lane.nets[place], one.net, start) < 1e-3
        assert far(lane.mean_nets[place], one.readout.net, start) < 1e-3
        for name, value in one.net.named_buffers():
            if value.is_floating_point():
                torch.testing.assert_close(lane.nets[place].get_buffer(name), value, rtol=1e-4, atol=1e-5, msg=name)
    ids = torch.arange(len(images.test), device=DEVICE)
    for which, net in enumerate((lane.mean_nets[1], lane.nets[1])):
        assert lane.correct[1, 0, which].tolist() == correct_per_class(net, test, ids, CLASSES).tolist()
    if lane.biases is not None:
        assert torch.equal(lane.biases[1, 3], lane.nets[1].fc.bias)
        assert not torch.equal(lane.biases[1, 3], lane.biases[1, 2])
