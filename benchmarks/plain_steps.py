"""Steps that the host takes part in, OCM's and MIR's, beside the convolutions that they make.

    python benchmarks/plain_steps.py [--device cuda] [--size N] [--width N] [--buffer N] [--rounds N] [--profile]

The floor of a step is the time of its convolutions alone: of as many images, in the same batches and shapes, forward,
and backward where the step goes backward. Both are timed in turn, with a full memory, until the device has nothing left
to do. Products are in bf16, or in single precision on a CPU without instructions for bf16. `--profile` lists what takes
the device's time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from _rows import Row, compared, environment
from torch import Tensor, nn

from reprise.data import from_arrays
from reprise.runs import Images, Run
from reprise.train import Training, steps
from reprise.train.machine import computes_bf16

CLASSES, BATCH = 100, 32
STEPS = 4  # timed at a stretch


@dataclass(frozen=True)
class Convolution:
    """A layer's convolution of one batch."""

    layer: nn.Conv2d
    shape: tuple[int, ...]
    of_input: bool  # whether it goes backward to its input
    of_weight: bool

    def make(self) -> Callable[[], object]:
        weight = self.layer.weight.detach().contiguous(memory_format=torch.channels_last)
        if computes_bf16(weight.device.type):  # as the run does
            weight = weight.bfloat16()
        x = torch.randn(self.shape, device=weight.device, dtype=weight.dtype).contiguous(
            memory_format=torch.channels_last
        )
        around = (self.layer.stride, self.layer.padding, [1, 1])
        forward = partial(torch.ops.aten.convolution, x, weight, None, *around, False, [0, 0], 1)
        if not self.of_weight:
            return forward
        dy = torch.randn_like(forward())
        mask = [self.of_input, True, False]
        backward = partial(torch.ops.aten.convolution_backward, dy, x, weight, None, *around, False, [0, 0], 1, mask)
        return lambda: (forward(), backward())


@contextmanager
def noted(found: Counter[Convolution]) -> Iterator[None]:
    """Within it, count the convolutions of every network."""

    def note(module: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            (x,) = given
            backward = torch.is_grad_enabled()
            found[Convolution(module, tuple(x.shape), backward and x.requires_grad, backward)] += 1

    handle = nn.modules.module.register_module_forward_hook(note)
    try:
        yield
    finally:
        handle.remove()


def images(size: int, steps: int) -> Images:
    """Noise, enough for so many full batches, in as many examples of each class."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (-(-steps * BATCH // CLASSES) * CLASSES, size, size, 3), np.uint8)
    labels = np.arange(len(pixels)) % CLASSES
    return Images(from_arrays(pixels, labels), from_arrays(pixels[:CLASSES], labels[:CLASSES], split="test"))


def measured(run: Run, data: Images, device: str, rounds: int, profile: bool) -> Row:
    """A step of a run whose memory is full."""
    training = Training(run, data, device)
    playing = steps(training)
    for _ in range(filling(run.memory.buffer)):
        next(playing)
    found: Counter[Convolution] = Counter()
    with noted(found):
        next(playing)
    alone = [(convolution.make(), count) for convolution, count in found.items()]

    def convolve() -> None:
        for way, count in alone:
            for _ in range(count):
                way()

    def step() -> None:
        next(playing)

    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds + 1):
        for way, mine in zip((step, convolve), times, strict=True):
            wait(device)
            began = time.perf_counter()
            for _ in range(STEPS):
                way()
            wait(device)
            mine.append(1e3 * (time.perf_counter() - began) / STEPS)
    if profile:
        print_profile(step, device)
    assert run.learner is not None
    what = f"{run.learner.name}, {run.memory.retrieval} {run.memory.replay}"
    return compared("step", what, times[0][1:], times[1][1:], unit="ms", steps=STEPS)


def filling(buffer: int) -> int:
    """Steps until a memory is full, and two more."""
    return -(-buffer // BATCH) + 2


def wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


def print_profile(step: Callable[[], None], device: str) -> None:
    on = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[on.CPU, *([] if device == "cpu" else [on.CUDA])]) as found:
        step()
        wait(device)
    key = "cpu_time_total" if device == "cpu" else "cuda_time_total"
    print(found.key_averages().table(sort_by=f"self_{key}", row_limit=25, max_name_column_width=80))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=16, help="height and width of the images")
    parser.add_argument("--width", type=int, default=8, help="channels of the network's first layer")
    parser.add_argument("--buffer", type=int, default=128, help="images stored, all of them MIR's candidates")
    parser.add_argument("--rounds", type=int, default=5, help="how many of each are timed")
    parser.add_argument("--profile", action="store_true", help="list what takes the device's time")
    arguments = parser.parse_args()
    buffer, rounds = arguments.buffer, arguments.rounds
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    # One task, which is not come to the end of: every step is timed with full batches, and nothing is tested.
    data = images(arguments.size, filling(buffer) + STEPS * (rounds + 1) + 3)
    shared = {"dataset": "arrays", "tasks": 1, "batch": BATCH, "buffer": buffer, "width": arguments.width}
    shared |= {"precision": "bf16"}
    runs = (
        Run.of(**shared, learner="ocm", head="linear", retrieval="rpr", replay=8),
        Run.of(**shared, learner="er-ace", retrieval=f"mir:{min(50, buffer)}", replay=32),
        Run.of(**shared, learner="er-ace", retrieval=f"mir:{buffer}", replay=32),
    )
    for run in runs:
        row = measured(run, data, arguments.device, rounds, arguments.profile)
        print(
            f"{row.what}: {row.value:.1f} ms a step, its convolutions {row.floor:.1f} ms, ratio {row.ratio:.2f} "
            f"({row.low:.2f} … {row.high:.2f}), {row.rounds} × {row.steps} steps"
        )
        if arguments.device != "cpu":
            print(f"  most device memory so far: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    name = environment()["machine"] if arguments.device == "cpu" else torch.cuda.get_device_name(arguments.device)
    print(f"{name}, images of {arguments.size}×{arguments.size}, width {arguments.width}, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
