"""Ways of training that need no captured step: the faithful loop, the plain loop, and processes on cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from reprise.bench.eager import Eager
from reprise.bench.results import Timing
from reprise.core.rng import Random
from reprise.data import ImageSet
from reprise.execute import Job, Processes
from reprise.execute.one import ImageSource
from reprise.train import Images, Run, Training, steps


@dataclass(frozen=True)
class Size:
    """How large the images and the network are, and how much is timed."""

    side: int = 32
    width: int = 64
    each: int = 100
    """Images of each class."""
    classes: int = 100
    warm: int = 10
    """Steps that are not timed, before those that are."""
    steps: int = 60
    rounds: int = 2

    @property
    def part(self) -> str:
        return f"{self.side}×{self.side}"


def noise(size: Size) -> Images:
    """Images of noise: what they show does not matter to a clock."""
    count = size.each * size.classes
    shape = (count, size.side, size.side, 3)
    words = Random(0, "noise").words(-(-int(np.prod(shape)) // 8))
    pixels = words.view(np.uint8)[: int(np.prod(shape))].reshape(shape)
    labels = np.tile(np.arange(size.classes), size.each)
    names = tuple(map(str, range(size.classes)))
    middle, spread = (0.5, 0.5, 0.5), (0.29, 0.29, 0.29)
    train = ImageSet(pixels, labels, names, "noise", middle, spread)
    few = slice(0, size.classes)
    return Images(train, ImageSet(pixels[few], labels[few], names, "noise", middle, spread, "test"))


def config(size: Size, precision: str, seed: int = 0) -> Run:
    """The run that is timed: all images as one task, so that no test falls among the steps."""
    return Run.of(
        dataset="noise",
        tasks=1,
        width=size.width,
        precision=precision,
        seed=seed,
        augment="crop+flip",
        learner="er-ace",
    )


def faithful(images: Images, size: Size, device: torch.device) -> Timing:
    """The loop as it is commonly written."""
    return _timed(Eager(images, device, width=size.width).step, size, device)


def plain(images: Images, size: Size, device: torch.device, precision: str) -> Timing:
    """`reprise.train.steps`, which trains one run."""
    return _timed(partial(next, steps(Training(config(size, precision), images, device))), size, device)


def on_processes(images: Images, size: Size, jobs: int) -> Timing:
    """`reprise.execute.Processes`: what its processes do together, each timed by itself from first to last step."""
    rate, done = 0.0, 0
    runs = [config(size, "fp32", seed) for seed in range(jobs)]
    for outcome in Processes(jobs, ImageSource(images)).execute(runs, lambda _: Job(), lambda _: None):
        if outcome.record is None:
            raise outcome.error or RuntimeError(f"{outcome.name} has neither record nor error")
        count = int(outcome.record["stream"]["steps"])
        rate += count / outcome.record["timings"]["train"]
        done += count
    return Timing(done, [done / rate])


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _timed(step: Callable[[], object], size: Size, device: torch.device) -> Timing:
    for _ in range(size.warm):
        step()
    wall, host = [], []
    for _ in range(size.rounds):
        wait(device)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(size.steps):
            step()
        wait(device)
        wall.append(time.perf_counter() - began)
        host.append(time.process_time() - used)
    return Timing(size.steps, wall, host)
