"""Runs small enough to be made whole in a test: random images, a thin network, fifteen steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprise import nets
from reprise.core.rng import Random
from reprise.data import from_arrays
from reprise.learners import LEARNERS
from reprise.nets.initial import fill
from reprise.runs.augmentation import PAD
from reprise.train import Images, Run, Training, steps

CLASSES, EACH, SIDE = 10, 10, 16

# Settings under which a learner does in fifteen steps all that it ever does.
BRISK: dict[str, dict[str, Any]] = {
    "refresh": {"fisher_every": 20},
    "ocm": {"refresh": 20, "rotations": 4, "projection": 8},
}
ARMS: dict[str, dict[str, Any]] = {
    **{name: {"learner": name, "hyper": BRISK.get(name, {})} for name in LEARNERS},
    "er, mir:12": {"learner": "er", "retrieval": "mir:12"},
    "er-ace, linear, momentum": {"learner": "er-ace", "head": "linear", "momentum": 0.9, "weight_decay": 0.01},
}
"""Every learner, live retrieval, and an optimiser that has a state beside a head that has a bias."""


@cache
def images(each: int = EACH) -> Images:
    """Random pixels; a class's images are brighter the larger its number, so that something can be learnt."""
    random = np.random.default_rng(5)

    def part(count: int, split: str) -> tuple[np.ndarray, np.ndarray, str]:
        labels = random.permutation(np.repeat(np.arange(CLASSES), count))
        pixels = random.integers(0, 100, (len(labels), SIDE, SIDE, 3)) + 15 * labels[:, None, None, None]
        return pixels.astype(np.uint8), labels, split

    train = from_arrays(*part(each, "train")[:2], name="tiny")
    pixels, labels, split = part(4, "test")
    return Images(train, from_arrays(pixels, labels, name="tiny", split=split, mean=train.mean, std=train.std))


def config(**settings: Any) -> Run:
    """A run of five tasks of two classes; each task brings batches of 8, 8 and 4."""
    usual: dict[str, Any] = {"dataset": "tiny", "tasks": 5, "batch": 8, "buffer": 20, "replay": 4, "width": 2}
    return Run.of(**{**usual, **settings})


def other_pixels(given: Images | None = None, part: str = "train") -> Images:
    """The same images, but for one bit of one pixel."""
    given = given or images()
    changed = getattr(given, part).images.copy()
    changed[3, 2, 1, 0] ^= 1
    return replace(given, **{part: replace(getattr(given, part), images=changed)})


def identity(run: Run, given: Images | None = None) -> str:
    """The name of the run's record."""
    return run.identity((given or images()).fingerprints(run))


def run_to(settings: Run, stop: int | None = None, given: Images | None = None) -> Training:
    """The run after `stop` steps, or ended."""
    run = Training(settings, given or images())
    go_to(run, stop)
    return run


def go_to(run: Training, stop: int | None = None) -> None:
    """Take the run on to step `stop`, or to its end."""
    if stop is not None and run.step >= stop:
        return
    for trained in steps(run):
        if trained.step == stop:
            return


def weights(run: Training) -> dict[str, Tensor]:
    """All that the run has learnt, and both read-outs."""
    both = {"live": run.learner, "ema": run.readout.net}
    return {f"{name}.{key}": value.clone() for name, net in both.items() for key, value in net.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two sets of weights are equal bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def result(record: dict[str, Any]) -> dict[str, Any]:
    """All of a record that does not say how, when and where it was made."""
    return {name: value for name, value in record.items() if name not in ("provenance", "timings", "checksum")}


def cut_by_hand(image: np.ndarray, down: int, right: int, flip: int) -> np.ndarray:
    """One image's crop: pad with black, cut out, and then turn round."""
    height, width, _ = image.shape
    padded = np.zeros((height + 2 * PAD, width + 2 * PAD, 3), np.uint8)
    padded[PAD : PAD + height, PAD : PAD + width] = image
    crop = padded[down : down + height, right : right + width]
    return crop[:, ::-1] if flip else crop


class Thin(nets.Network):
    """Two convolutions, each with BatchNorm if wanted, and a head: a twentieth of a ResNet-18's work."""

    output_stride = 4

    def __init__(self, classes: int, head: str, seed: int, batchnorm: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(6) if batchnorm else nn.Identity()
        self.conv2 = nn.Conv2d(6, 12, 3, 2, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(12) if batchnorm else nn.Identity()
        self.fc = nets.make_head(head, 12, classes)
        fill(self, Random(seed, "initial weights"))

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x))).mean((2, 3))

    def published(self, name: str) -> str:
        return name


@contextmanager
def thin_networks(batchnorm: bool = True) -> Iterator[None]:
    """Within it, runs are made around thin networks; without BatchNorm nothing mixes the examples of a batch."""

    def build(backbone: str, *, classes: int, head: str, width: int, seed: int, **_: object) -> nets.Network:
        return Thin(classes, head, seed, batchnorm)

    usual = nets.build
    nets.build = build  # type: ignore[assignment]
    try:
        yield
    finally:
        nets.build = usual
