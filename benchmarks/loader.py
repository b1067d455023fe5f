"""What a tape costs in a DataLoader, beside the floor: torch's own BatchSampler over a random permutation.

    python benchmarks/loader.py [--steps N] [--rounds N] [--check]

A data set of uint8 images, 32×32×3, is read in steps of 32 incoming and 8 replayed images, and the floor reads as many
in batches of 40. Both are timed in turn, a whole pass each, with garbage collection held back: without workers in
processor time of one thread, with two workers on the wall clock, from the first batch to the last.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from _rows import Row, compared, environment
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import reprise

ARRIVING, REPLAYED, CLASSES = 32, 8, 100
LIMIT = 1.5  # of the floor


class Images(Dataset[Any]):
    """Images in memory, converted one by one."""

    def __init__(self, count: int) -> None:
        self.pixels = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8)
        self.targets = torch.arange(count) % CLASSES

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, example: int) -> tuple[torch.Tensor, int]:
        return self.pixels[example].float() / 255, int(self.targets[example])


def timed(loader: Iterable[Any], clock: Callable[[], float], steps: int) -> float:
    """Microseconds a step from the first batch to the last; workers are started before, and end after."""
    batches = iter(loader)
    next(batches)
    gc.collect()
    began = clock()
    count = sum(1 for _ in batches)
    taken = clock() - began
    assert count == steps - 1, (count, steps)
    return 1e6 * taken / count


def rows(steps: int, rounds: int) -> list[Row]:
    """Both ways to load a tape, without workers and with two."""
    images = Images(steps * ARRIVING)
    memory = reprise.Memory(5 * CLASSES, seed=0)
    tape = reprise.plan(images.targets, memory, REPLAYED, batch=ARRIVING)
    taken = int(np.count_nonzero(tape.incoming >= 0) + np.count_nonzero(tape.replay >= 0))
    per_batch = -(-taken // steps)
    chosen = RandomSampler(images, replacement=True, num_samples=taken, generator=torch.Generator().manual_seed(0))
    floor = BatchSampler(list(chosen), per_batch, drop_last=False)
    steps_of_it = reprise.TapeDataset(images, tape)
    found = []
    gc.disable()
    for workers in (0, 2):
        clock = time.perf_counter if workers else time.process_time
        ways = {
            "TapeBatchSampler": DataLoader(images, batch_sampler=reprise.TapeBatchSampler(tape), num_workers=workers),
            "TapeDataset": DataLoader(steps_of_it, batch_size=None, num_workers=workers),
            "floor": DataLoader(images, batch_sampler=floor, num_workers=workers),
        }
        measured: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds):
            order = list(ways.items())
            for name, loader in order[number % 3 :] + order[: number % 3]:
                measured[name].append(timed(loader, clock, steps if name != "floor" else len(floor)))
        facts = {"steps": steps, "limit": LIMIT}
        found += [
            compared("loader", f"{name}, {workers} workers", measured[name], measured["floor"], **facts)
            for name in ("TapeBatchSampler", "TapeDataset")
        ]
    gc.enable()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="how many steps the tape has")
    parser.add_argument("--rounds", type=int, default=15, help="how many passes of each are timed")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a limit is broken")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = rows(arguments.steps, arguments.rounds)
    for row in found:
        print(
            f"{row.what}: {row.value:.0f} µs a step, floor {row.floor:.0f} µs, ratio {row.ratio:.2f} "
            f"({row.low:.2f} … {row.high:.2f}), limit {row.limit:g}"
        )
    facts = environment()
    print(f"{facts['machine']}, {facts['cores']} cores, Python {facts['versions']['python']}")
    return 1 if arguments.check and not all(row.within for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
