"""Small runs of a lane, and the plain loop's run that they are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reprise.data import from_arrays
from reprise.learners.refresh import Refresh
from reprise.train import Images, Run, Training, steps
from reprise.train.evaluate import correct_per_class
from reprise.train.pixels import Pixels

if TYPE_CHECKING:
    from reprise.fleet.engine.lane import Lane

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES, SIDE = 4, 8
DONE = 5  # steps: three of the first task, the last of them short, and two of the second


def some_images() -> Images:
    """Random pixels, brighter the larger the class's number; not in the order of C."""
    random = np.random.default_rng(3)

    def part(each, split):
        labels = np.repeat(np.arange(CLASSES), each)
        pixels = random.integers(0, 100, (len(labels), SIDE, SIDE, 3)) + 40 * labels[:, None, None, None]
        backwards = pixels.transpose(3, 2, 1, 0).astype(np.uint8, order="C").transpose(3, 2, 1, 0)
        return from_arrays(backwards if DEVICE.type == "cuda" else pixels.astype(np.uint8), labels, split=split)

    return Images(part(7, "train"), part(5, "test"))


def far(mine, other, start):
    """How far apart two networks are, relative to the way that one of them has come."""
    ways = [
        torch.cat([(value.detach() - start[name]).flatten() for name, value in net.named_parameters()])
        for net in (mine, other)
    ]
    return ((ways[0] - ways[1]).norm() / ways[1].norm()).item()


def plainly(run: Run, images: Images, done: int) -> tuple[Training, dict[str, torch.Tensor]]:
    """The plain loop's run after so many steps, and where it began."""
    plain = Training(run, images, DEVICE)
    start = {name: value.detach().clone() for name, value in plain.net.named_parameters()}
    going = steps(plain)
    while plain.step < done:
        next(going)
    return plain, start


def check(lane: Lane, slot: int, run: Run, images: Images, done: int = DONE) -> None:
    plain, start = plainly(run, images, done)
    torch.testing.assert_close(lane.losses[slot, :done], plain.losses[:done], rtol=2e-3, atol=0)
    assert torch.equal(lane.hits[slot, :done], plain.hits[:done])
    assert torch.equal(lane.seen[slot, :-1], plain.feed.seen)
    assert far(lane.nets[slot], plain.net, start) < 1e-2
    assert far(lane.mean_nets[slot], plain.readout.net, start) < 1e-2
    for name, value in plain.net.named_buffers():
        if value.is_floating_point():
            torch.testing.assert_close(lane.nets[slot].get_buffer(name), value, rtol=1e-3, atol=1e-4, msg=name)
    if hasattr(plain.learner, "stored"):
        mine = lane.learners[slot].stored.logits[:-1]
        torch.testing.assert_close(mine, plain.learner.stored.logits, rtol=1e-3, atol=1e-3)
    if hasattr(plain.learner, "fisher"):
        check_remembered(lane.learners[slot], plain.learner)
    if lane.biases is not None:
        torch.testing.assert_close(lane.biases[slot, : done + 1], plain.biases[: done + 1], rtol=1e-3, atol=1e-6)


def check_remembered(mine: Refresh, theirs: Refresh) -> None:
    """Moves and examples are counted alike, and F has been refreshed from the same gradients, to rounding."""
    assert mine.moves > 0
    for name in ("key", "moves", "since"):
        assert torch.equal(mine.get_buffer(name), theirs.get_buffer(name)), name
    for name in ("fisher", "gathered"):
        one, other = mine.get_buffer(name), theirs.get_buffer(name)
        assert (one - other).norm() < 1e-2 * other.norm(), name


REFRESH = {
    "learner": "refresh",
    "head": "linear",
    "hyper": {"unlearn": 1e-3, "noise": 0.1, "damping": 1.0, "fisher_every": 8},
}


def same_tests(lane: Lane, test: Pixels) -> None:
    """The counts of the first slot are those of its networks."""
    ids = torch.arange(len(test.labels), device=DEVICE)
    for which, net in enumerate((lane.mean_nets[0], lane.nets[0])):
        assert lane.correct[0, 0, which].tolist() == correct_per_class(net, test, ids, CLASSES).tolist()
