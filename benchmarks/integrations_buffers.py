"""What replay costs in Avalanche and in torchrl with our parts, beside the libraries' own: one run, ratios.

    python benchmarks/integrations_buffers.py [--quick] [--json FILE]

A step stores 32 images of 3×32×32 bytes and draws 8, in a full memory of 200, 2,000 and 50,000 slots with 100 classes,
after twice its capacity has been seen. In Avalanche it is the step of its online strategies: update the exemplars with
a mini-experience of 32, then take a batch from a new shuffled loader over them. Ours and theirs are timed in turn, in
processor time of one thread, with garbage collection held back. A ratio below 1 says that ours is quicker.

Needs both libraries: `make integrations` has them, and `.venv-integrations/bin/python` runs this.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from _rows import Row, compared, environment

from reprise import ReplayBuffer

CLASSES, INCOMING, REPLAY, SHAPE = 100, 32, 8, (3, 32, 32)
CAPACITIES = (200, 2_000, 50_000)
Step = Callable[[int], Any]


def images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, *SHAPE), dtype=torch.uint8, generator=random)
    return pixels, torch.randint(CLASSES, (count,), generator=random)


def avalanche_data(count: int) -> tuple[Any, list[Any]]:
    """A data set, and the mini-experiences it is offered in."""
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
    from torch.utils.data import TensorDataset

    x, y = images(count)
    data = AvalancheDataset([TensorDataset(x, y)], data_attributes=[DataAttribute(y.tolist(), "targets")])
    return data, [data.subset(list(range(first, first + INCOMING))) for first in range(0, 64 * INCOMING, INCOMING)]


def avalanche_step(buffer: Any, capacity: int) -> Step:
    """As Avalanche's online strategies do it: update, then a batch of a new loader."""
    data, parts = avalanche_data(max(2 * capacity, 64 * INCOMING))
    buffer.update_from_dataset(data)

    def step(turn: int) -> Any:
        buffer.update_from_dataset(parts[turn % len(parts)])
        loader = torch.utils.data.DataLoader(buffer.buffer, batch_size=REPLAY, shuffle=True, drop_last=True)
        return next(iter(loader))[0]

    return step


def plugin_step(plugin: Any, capacity: int) -> Step:
    """Our plugin's two hooks around an iteration, on a mini-batch that Avalanche's loader has made."""
    x, y = images(max(2 * capacity, 64 * INCOMING))
    clock = types.SimpleNamespace(train_exp_epochs=0, train_exp_counter=0)
    strategy: Any = types.SimpleNamespace(device="cpu", train_mb_size=INCOMING, clock=clock, mbatch=None)

    def step(turn: int) -> Any:
        first = turn * INCOMING % (len(x) - INCOMING + 1)
        strategy.mbatch = [x[first : first + INCOMING], y[first : first + INCOMING]]
        plugin.before_training_iteration(strategy)
        replayed = strategy.mbatch[0][INCOMING:]
        plugin.after_training_iteration(strategy)
        return replayed

    for turn in range(2 * capacity // INCOMING + 1):
        step(turn)
    return step


def torchrl_step(capacity: int, sampler: Any, writer: Any) -> Step:
    """Sample a batch, then write the next."""
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(capacity), sampler=sampler, writer=writer, batch_size=REPLAY
    )
    x, y = images(64 * INCOMING)
    batches = [
        TensorDict({"x": x[first : first + INCOMING], "label": y[first : first + INCOMING]}, [INCOMING])
        for first in range(0, len(x), INCOMING)
    ]

    def step(turn: int) -> Any:
        replayed = buffer.sample()["x"] if len(buffer) else None
        buffer.extend(batches[turn % len(batches)])
        return replayed

    for turn in range(2 * capacity // INCOMING + 1):
        step(turn)
    return step


def own_step(capacity: int) -> Step:
    """Our plain buffer."""
    buffer = ReplayBuffer(capacity, "fifo", "rpr", record=False)
    x, y = images(64 * INCOMING)

    def step(turn: int) -> Any:
        replay = buffer.draw(REPLAY)
        first = turn * INCOMING % len(x)
        buffer.store(x[first : first + INCOMING], y[first : first + INCOMING])
        return replay.x if replay else None

    for turn in range(2 * capacity // INCOMING + 1):
        step(turn)
    return step


def timed(step: Step, start: int, count: int) -> float:
    """Microseconds of processor time a step."""
    began = time.process_time()
    for turn in range(start, start + count):
        drawn = step(turn)
    taken = time.process_time() - began
    assert len(drawn) == REPLAY, drawn
    return 1e6 * taken / count


def pairs(capacity: int) -> Iterator[tuple[str, str, Callable[[], Step], Callable[[], Step], int]]:
    """Library, what is compared, ours, theirs, and how many steps a round has."""
    from avalanche.training.storage_policy import ClassBalancedBuffer, ReservoirSamplingBuffer
    from torchrl.data import RandomSampler, TensorDictRoundRobinWriter

    from reprise.integrations.avalanche import MemoryBuffer, ScheduledReplayPlugin
    from reprise.integrations.torchrl import MemoryWriter, ScheduledSampler

    few = 8 if capacity <= 2000 else 2

    def reservoir() -> Step:
        return avalanche_step(ReservoirSamplingBuffer(capacity), capacity)

    def random() -> Step:
        return torchrl_step(capacity, RandomSampler(), TensorDictRoundRobinWriter())

    yield (
        "Avalanche",
        "MemoryBuffer 'reservoir' / ReservoirSamplingBuffer",
        lambda: avalanche_step(MemoryBuffer(capacity, "reservoir", by=None), capacity),
        reservoir,
        few,
    )
    yield (
        "Avalanche",
        "MemoryBuffer 'cbrs' / ClassBalancedBuffer",
        lambda: avalanche_step(MemoryBuffer(capacity, "cbrs"), capacity),
        lambda: avalanche_step(ClassBalancedBuffer(capacity), capacity),
        few,
    )
    yield (
        "Avalanche",
        "ScheduledReplayPlugin 'rpr' / ReservoirSamplingBuffer",
        lambda: plugin_step(ScheduledReplayPlugin(capacity, REPLAY), capacity),
        reservoir,
        few,
    )
    yield (
        "torchrl",
        "ScheduledSampler 'rpr' / RandomSampler",
        lambda: torchrl_step(capacity, ScheduledSampler("rpr"), TensorDictRoundRobinWriter()),
        random,
        200,
    )
    yield (
        "torchrl",
        "MemoryWriter 'reservoir' / TensorDictRoundRobinWriter",
        lambda: torchrl_step(capacity, RandomSampler(), MemoryWriter("reservoir")),
        random,
        200,
    )
    yield (
        "torchrl",
        "both of ours / both of theirs",
        lambda: torchrl_step(capacity, ScheduledSampler("rpr"), MemoryWriter("reservoir")),
        random,
        200,
    )
    yield "torchrl", "reprise.ReplayBuffer 'fifo', 'rpr' / both of theirs", lambda: own_step(capacity), random, 200


def rows(capacities: tuple[int, ...], rounds: int) -> Iterator[tuple[int, Row]]:
    for capacity in capacities:
        for library, what, ours, theirs, steps in pairs(capacity):
            measured: tuple[list[float], list[float]] = ([], [])
            ways = (ours(), theirs())
            for step in ways:
                timed(step, 0, 2)
            gc.collect()
            gc.disable()
            for turn in range(rounds):
                for one in ((0, 1), (1, 0))[turn % 2]:
                    measured[one].append(timed(ways[one], 2 + turn * steps, steps))
            gc.enable()
            yield capacity, compared(library, what, *measured, steps=steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small capacity: does it run?")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what other libraries say of themselves
            import avalanche  # noqa: F401
            import torchrl  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed here: make integrations makes an environment that has it.")
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    found = []
    print(f"{'slots':>7}  {'library':<10} {'ours / theirs':<56} {'ours µs':>9} {'theirs µs':>10}  ratio (quartiles)")
    for capacity, row in rows(CAPACITIES[:1] if options.quick else CAPACITIES, 3 if options.quick else 15):
        found.append({"capacity": capacity, **row.to_dict()})
        ratio = f"{row.ratio:5.2f} ({row.low:.2f} to {row.high:.2f})"
        print(f"{capacity:7,}  {row.part:<10} {row.what:<56} {row.value:9,.0f} {row.floor:10,.0f}  {ratio}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"environment": environment(), "rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
