"""A training step of EfficientNet-lite0 on a CPU, beside the same step with torch's own depthwise convolutions.

    python benchmarks/depthwise.py [--size N] [--rounds N] [--threads N]

Forward and backward pass of 32 and of 8 images in bf16, timed in turn, in processor time. In single precision both are
torch's own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import torch
import torch.nn.functional as F
from _rows import Row, compared, environment
from torch import Tensor

from reprise import nets

TARGET = "reprise.nets.efficientnet.depthwise"


def plain(x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    return F.conv2d(x, weight, None, stride, padding, 1, len(weight))


def timed(step: Callable[[], None]) -> float:
    """Microseconds of one step."""
    began = time.process_time()
    step()
    return 1e6 * (time.process_time() - began)


def rows(size: int, rounds: int) -> list[Row]:
    net = nets.build("efficientnet_lite0", classes=100).train()
    found = []
    for images in (32, 8):
        x = torch.rand(images, size, size, 3).permute(0, 3, 1, 2)
        labels = torch.arange(images) % 100

        def step(x: Tensor = x, labels: Tensor = labels) -> None:
            net.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                logits = net(x)
            F.cross_entropy(logits.float(), labels).backward()

        ours, theirs = [], []
        for number in range(-1, rounds):  # the first round is not counted
            with patch(TARGET, plain):
                slow = timed(step)
            fast = timed(step)
            if number >= 0:
                ours.append(fast)
                theirs.append(slow)
        found.append(compared("depthwise", f"{images} images of {size}×{size}, bf16", ours, theirs, steps=1))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=96, help="height and width of the images")
    parser.add_argument("--rounds", type=int, default=9, help="how many steps of each are timed")
    parser.add_argument("--threads", type=int, default=1, help="how many threads torch has")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for row in rows(arguments.size, arguments.rounds):
        assert row.value is not None
        assert row.floor is not None
        print(
            f"{row.what}: {row.value / 1e3:.0f} ms a step, torch's own {row.floor / 1e3:.0f} ms, ratio {row.ratio:.2f} "
            f"({row.low:.2f} … {row.high:.2f}), {row.rounds} rounds"
        )
    facts = environment()
    instructions = torch.backends.cpu.get_cpu_capability()
    print(f"{facts['machine']}, {instructions}, threads {arguments.threads}, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
