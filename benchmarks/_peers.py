"""The same step in other libraries, where they are installed: the same images, capacity and thread, the same floor.

torchrl keeps the latest examples, so its floor writes every arrival. Avalanche's buffers are updated once a step,
as its own ER-ACE does with mini-experiences, and a new loader draws from them; its floor is that of a reservoir at the
same place in the stream.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from _rows import Row, compared
from _steps import CLASSES, INCOMING, REPLAY, TURN, Images, Play, Setting, collector_held, settings, timer

Step = Callable[[int], Any]


def torchrl_step(images: Images, sampler: str) -> Step:
    """Draw by the named sampler, then write the next batch in the place of the oldest."""
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, replay_buffers

    torch.set_num_threads(1)
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    capacity = len(images.stored)
    chosen = getattr(replay_buffers, sampler)()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), sampler=chosen, batch_size=REPLAY)
    labels = np.random.default_rng(1).integers(CLASSES, size=(len(images.incoming), INCOMING))
    batches = [
        TensorDict({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, [INCOMING])
        for x, y in zip(images.incoming, labels, strict=True)
    ]
    for turn in range(-(-capacity // INCOMING)):
        buffer.extend(batches[turn % len(batches)])

    def step(turn: int) -> Any:
        replayed = buffer.sample()["x"]
        buffer.extend(batches[turn % len(batches)])
        return replayed

    return step


def avalanche_step(images: Images, policy: str, seen: int) -> Step:
    """Update the buffer with a mini-experience of 32, then take the first batch of a new shuffled loader."""
    import torch
    from avalanche.benchmarks.utils import as_taskaware_classification_dataset, make_avalanche_dataset
    from avalanche.benchmarks.utils.data_attribute import DataAttribute
    from avalanche.training import storage_policy
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.from_numpy(np.concatenate(images.incoming))
    targets = np.random.default_rng(1).integers(CLASSES, size=len(x))
    data = as_taskaware_classification_dataset(
        make_avalanche_dataset(
            TensorDataset(x, torch.from_numpy(targets)),
            data_attributes=[
                DataAttribute(targets.tolist(), "targets"),
                DataAttribute([0] * len(x), "targets_task_labels", use_in_getitem=True),
            ],
        )
    )
    buffer = getattr(storage_policy, policy)(max_size=len(images.stored))
    for _ in range(-(-seen // len(x))):
        buffer.update_from_dataset(data)
    parts = [data.subset(list(range(start, start + INCOMING))) for start in range(0, len(x), INCOMING)]

    def step(turn: int) -> Any:
        buffer.update_from_dataset(parts[turn % len(parts)])
        loader = cycle(DataLoader(buffer.buffer, batch_size=REPLAY, shuffle=True, drop_last=True))
        return next(loader)[0]

    return step


def timed(step: Step, turn: slice) -> float:
    """Seconds for these steps."""
    with timer() as seconds:
        for number in range(turn.start, turn.stop):
            replayed = step(number)
    if len(replayed) != REPLAY:
        raise RuntimeError(f"{len(replayed)} examples were drawn instead of {REPLAY}")
    return seconds()


def rows(quick: bool) -> Iterator[Row]:
    setting = settings(quick)[0]
    images = Images(setting.capacity)
    seen = int(setting.seen * setting.capacity)
    rounds = 3 if quick else 30
    for sampler in ("RandomSampler", "SamplerWithoutReplacement"):
        yield _row(f"torchrl {sampler}", "fifo", partial(torchrl_step, images, sampler), images, setting, TURN, rounds)
    for policy, storage in (("ReservoirSamplingBuffer", "reservoir"), ("ClassBalancedBuffer", "cbrs")):
        make = partial(avalanche_step, images, policy, seen)
        yield _row(f"Avalanche {policy}", storage, make, images, setting, 4 if quick else 16, rounds)


def _row(
    what: str, storage: str, make: Callable[[], Step], images: Images, setting: Setting, steps: int, rounds: int
) -> Row:
    theirs: list[float] = []
    floor: list[float] = []
    try:
        with warnings.catch_warnings(), collector_held():
            warnings.simplefilter("ignore")  # of other people's making
            step = make()
            play = Play(setting, storage, "uniform")
            timed(step, slice(0, 1))
            for turn in range(rounds):
                theirs.append(timed(step, slice(turn * steps, turn * steps + steps)) / steps * 1e6)
                start = turn * TURN % setting.steps
                floor.append(play.floor(images, slice(start, start + TURN)) / TURN * 1e6)
    except ImportError as error:
        return Row("peers", what, skipped=f"not installed ({error.name or error})")
    except Exception as error:  # whatever another version does: our own rows are to be seen all the same
        return Row("peers", what, skipped=f"{type(error).__name__}: {error}")
    return compared("peers", what, theirs, floor, steps=steps, written=play.written)
