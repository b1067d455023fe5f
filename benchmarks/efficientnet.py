"""EfficientNet-lite0 on a CPU in bf16: a training step beside torch's own gradients, a test beside larger batches.

    python benchmarks/efficientnet.py [--size N] [--rounds N] [--images N]

A step is a forward and backward pass of 32 or of 8 images; beside it stands the same with torch's own depthwise
convolutions. A test is that of some images in the batches that training takes, beside batches of 250. Both are timed in
turn, in processor time of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from _rows import Row, compared, environment
from torch import Tensor

from reprise import nets
from reprise.data import from_arrays
from reprise.train.evaluate import correct_per_class
from reprise.train.pixels import Pixels

CLASSES = 100


def torchs_own(x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
    return F.conv2d(x, weight, None, stride, padding, 1, len(weight))


def in_turn(rounds: int, ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Milliseconds of each; the first round is not counted."""
    found: tuple[list[float], list[float]] = [], []
    for _ in range(rounds + 1):
        for way, times in zip((ours, theirs), found, strict=True):
            began = time.process_time()
            way()
            times.append(1e3 * (time.process_time() - began))
    return found[0][1:], found[1][1:]


def step_row(size: int, images: int, rounds: int) -> Row:
    net = nets.build("efficientnet_lite0", classes=CLASSES).train()
    x, labels = torch.rand(images, size, size, 3).permute(0, 3, 1, 2), torch.arange(images) % CLASSES

    def step() -> None:
        net.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(x)
        F.cross_entropy(logits.float(), labels).backward()

    def slow_step() -> None:
        with patch("reprise.nets.efficientnet.depthwise", torchs_own):
            step()

    times = in_turn(rounds, step, slow_step)
    return compared("step", f"a step of {images} images of {size}×{size}", *times, unit="ms", steps=1)


def test_row(size: int, images: int, rounds: int) -> Row:
    net = nets.build("efficientnet_lite0", classes=CLASSES)
    random = np.random.default_rng(0)
    shown = random.integers(0, 256, (images, size, size, 3), np.uint8), np.arange(images) % CLASSES
    pixels, ids = Pixels(from_arrays(*shown, name="random"), torch.device("cpu")), torch.arange(images)

    def test() -> None:
        correct_per_class(net, pixels, ids, CLASSES, "bf16")

    def slow_test() -> None:
        with patch("reprise.train.evaluate._SMALLEST", 250):
            test()

    times = in_turn(rounds, test, slow_test)
    return compared("test", f"a test of {images} images of {size}×{size}", *times, unit="ms", steps=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=96, help="height and width of the images")
    parser.add_argument("--rounds", type=int, default=9, help="how many of each are timed")
    parser.add_argument("--images", type=int, default=500, help="how many images are tested")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    size, rounds = arguments.size, arguments.rounds
    for row in (step_row(size, 32, rounds), step_row(size, 8, rounds), test_row(size, arguments.images, rounds)):
        print(
            f"{row.what}: {row.value:.0f} ms, beside {row.floor:.0f} ms, ratio {row.ratio:.2f} "
            f"({row.low:.2f} … {row.high:.2f}), {row.rounds} rounds"
        )
    print(f"{environment()['machine']}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
