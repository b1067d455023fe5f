"""Runs on a GPU that are small enough for a test: random images, a thin network, twenty-five steps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprise import nets
from reprise.core.rng import Random
from reprise.data import from_arrays
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.lane_plan import LanePlan, make_lane_plan
from reprise.nets import resnet
from reprise.nets.initial import fill
from reprise.runs.plan import Labels
from reprise.train import Images, Run
from reprise.train.evaluate import arithmetic
from reprise.train.pixels import Pixels
from reprise.train.state import make_network

if TYPE_CHECKING:
    from reprise.fleet.engine.lane import Lane

DEVICE = torch.device("cuda")
CLASSES, EACH, SIDE, WIDTH = 10, 19, 32, 8


@cache
def images() -> Images:
    """Random pixels; a class's images are brighter the larger its number."""
    random = np.random.default_rng(5)

    def part(each: int) -> tuple[np.ndarray, np.ndarray]:
        labels = random.permutation(np.repeat(np.arange(CLASSES), each))
        pixels = random.integers(0, 100, (len(labels), SIDE, SIDE, 3)) + 15 * labels[:, None, None, None]
        return pixels.astype(np.uint8), labels

    train = from_arrays(*part(EACH), name="tiny")
    return Images(train, from_arrays(*part(20), name="tiny", split="test", mean=train.mean, std=train.std))


def config(**settings: Any) -> Run:
    """Five tasks of five steps: four batches of 8 and one of 6."""
    usual: dict[str, Any] = {"dataset": "tiny", "tasks": 5, "batch": 8, "buffer": 40, "replay": 4, "width": WIDTH}
    return Run.of(**{**usual, **settings})


@cache
def pixels() -> tuple[Pixels, Pixels]:
    return Pixels(images().train, DEVICE), Pixels(images().test, DEVICE)


@cache
def plan(run: Run) -> LanePlan:
    return make_lane_plan(run, Labels.of(images(), run))


def weights(run: Run) -> Tensor:
    return initial_row(make_network(run, CLASSES)).to(DEVICE)


def make_lane(run: Run, width: int = 2) -> Lane:
    """A lane with this run in its last slot, and other seeds of it in the others."""
    from reprise.fleet.engine.lane import Lane  # needs Triton; this file is looked at where there is none

    lane = Lane(run, *pixels(), CLASSES, longest=60, tests=8, width=width)
    for slot in range(width - 1):
        begin(lane, run.replace(seed=100 + slot), slot)
    begin(lane, run)
    return lane


def begin(lane: Lane, run: Run, slot: int = -1) -> None:
    lane.begin(slot % lane.width, plan(run), weights(run))
    torch.cuda.synchronize()


class Kinks:
    """Within it, the plain network's ReLUs let through what they are told to, and what that changes is counted.

    `sides` has for every ReLU in turn, of one batch after the other, which of its inputs to let through.
    """

    def __init__(self, sides: list[Tensor]) -> None:
        self.sides = sides
        self.calls = 0
        self.flips = 0  # inputs that would have been on the other side of 0
        self.farthest = 0.0  # of them, the largest distance from 0

    def __enter__(self) -> Kinks:
        resnet.F = self
        return self

    def __exit__(self, *error: object) -> None:
        resnet.F = F
        assert any(error) or self.calls == len(self.sides)

    def relu(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return F.relu(x)  # of an evaluation
        side = self.sides[self.calls]
        self.calls += 1
        flipped = x.detach().abs()[side != (x > 0)]
        self.flips += len(flipped)
        self.farthest = max(self.farthest, flipped.max().item() if len(flipped) else 0.0)
        return torch.where(side, x, 0.0)

    def __repr__(self) -> str:
        return f"{self.flips} of {sum(map(torch.numel, self.sides))} inputs flipped, at most {self.farthest} from 0"


def sides_of(lane: Lane) -> list[Tensor]:
    """Which inputs each ReLU of the next step of the lane's last run lets through, pass by pass.

    Moves statistics, and weights where the learner moves first.
    """
    from reprise.fleet.engine.bodies import Stacked
    from reprise.fleet.engine.stack import Stack

    if not isinstance(lane.body, Stacked):
        return []
    first: list[Tensor] = []  # of the pass before the step
    found: list[Tensor] = []
    plain, body = Stack._normalise, lane.body

    def noted(self: Stack, *given: Any) -> Tensor:
        y = plain(self, *given)
        (found if self is body.stack else first).append(y[-1].permute(0, 3, 1, 2) > 0)
        return y

    Stack._normalise = noted
    try:
        with torch.cuda.stream(lane.stream), arithmetic(lane.precision):
            lane._forward(lane.sizes)
        lane.synchronize()
    finally:
        Stack._normalise = plain
    starts = [sum(lane.sizes[:segment]) for segment in range(lane.segments)]
    counts = lane.real[-1].tolist()
    return [side[: counts[0]] for side in first] + [
        side[start : start + count] for start, count in zip(starts, counts, strict=True) if count for side in found
    ]


class Attentive(nets.Network):
    """Patches, one layer of attention, a layer of its own, no BatchNorm: a transformer as small as can be."""

    def __init__(self, classes: int, head: str, seed: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.mixed, self.joined = nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
        self.fc = nets.make_head(head, 16, classes)
        fill(self, Random(seed, "initial weights"))

    def features(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        query, key, value = self.mixed(self.norm1(x)).chunk(3, dim=2)
        x = x + self.joined(F.scaled_dot_product_attention(query, key, value))
        return (x + self.narrow(F.gelu(self.wide(self.norm2(x))))).mean(1)

    def published(self, name: str) -> str:
        return name


class Mixing(Attentive):
    """The same, with BatchNorm before the head, and no bias whose gradient would be 0."""

    def __init__(self, classes: int, head: str, seed: int) -> None:
        super().__init__(classes, head, seed)
        self.among = nn.BatchNorm1d(16)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.among(F.gelu(super().features(x)))
        return found
