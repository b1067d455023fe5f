"""A tape as a batch sampler: every batch is a step's incoming and replayed examples in one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from reprise.loader.checking import check_dataset, check_place, check_tape
from reprise.tape import Tape
from reprise.tape_step import TapeSteps


class TapeBatchSampler(Sampler[list[int]]):
    """One batch of example ids a step: those that arrive, then those of each draw.

    >>> from reprise import Memory, plan
    >>> tape = plan([0, 1, 0, 1, 2, 2], Memory(4, seed=0), replay=1, batch=2)
    >>> list(TapeBatchSampler(tape))
    [[0, 1], [2, 3, 1], [4, 5, 0]]

    For `DataLoader(dataset, batch_sampler=TapeBatchSampler(tape, dataset))`, with any number of workers;
    `split_batch(batch, step)` takes a batch apart, and `steps` are the steps that belong to the batches. If the data
    set is given, its length and its `targets`, if it has any, are compared with the tape.

    `start` is the first step, for a run that goes on. `rank` and `world_size` give this process its part of every
    step: every `world_size`-th of the incoming examples and of each draw. The iterator has `state_dict` and
    `load_state_dict`, by which torchdata's `StatefulDataLoader` goes on where it stood.
    """

    def __init__(
        self,
        tape: Tape,
        dataset: Any = None,
        *,
        start: int = 0,
        rank: int = 0,
        world_size: int = 1,
        check_targets: bool = True,
    ) -> None:
        self.tape = check_tape(tape)
        self.start, self.rank, self.world_size = check_place(tape, start, rank, world_size)
        if dataset is not None:
            check_dataset(dataset, tape, check_targets)
        self._refuse_empty_steps()

    @property
    def steps(self) -> TapeSteps:
        """This process's part of every step, from the first on."""
        return TapeSteps(lambda number: self.tape[number].part(self.rank, self.world_size), self._numbers)

    @property
    def _numbers(self) -> range:
        return range(self.start, len(self.tape))

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[list[int]]:
        return TapeIterator(self)

    def __repr__(self) -> str:
        part = "" if self.world_size == 1 else f", rank={self.rank}, world_size={self.world_size}"
        return f"TapeBatchSampler({self.tape!r}, start={self.start}{part})"

    def batch(self, number: int) -> list[int]:
        """The example ids of a step, this process's part."""
        ids: list[int] = []
        for row in (self.tape.incoming[number], *self.tape.replay[number]):
            kept: list[int] = row[row >= 0].tolist()
            ids += kept[self.rank :: self.world_size]
        return ids

    def _refuse_empty_steps(self) -> None:
        """Torch cannot collate a batch of nothing, and a step must not be left out."""
        kept = [np.count_nonzero(self.tape.incoming[self.start :] >= 0, axis=1)[:, None]]
        kept.append(np.count_nonzero(self.tape.replay[self.start :] >= 0, axis=2))
        mine = (np.concatenate(kept, axis=1) > self.rank).any(axis=1)
        if not mine.all():
            who = "" if self.world_size == 1 else f" for rank {self.rank} of {self.world_size}"
            raise ValueError(
                f"step {self.start + int(np.argmin(mine))} has no example{who}, and a batch cannot be empty; a "
                "TapeDataset gives None in its place"
            )


class TapeIterator(Iterator[list[int]]):
    """Goes through the steps of a sampler. Its state says how far, and of which tape."""

    def __init__(self, sampler: TapeBatchSampler) -> None:
        self._sampler = sampler
        self._next = sampler.start

    def __next__(self) -> list[int]:
        if self._next >= len(self._sampler.tape):
            raise StopIteration
        self._next += 1
        return self._sampler.batch(self._next - 1)

    def state_dict(self) -> dict[str, Any]:
        """The step that comes next; the same for every rank."""
        return {"version": 1, "tape": self._sampler.tape.hash, "step": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._next = step_of(state, self._sampler.tape)


def step_of(state: Mapping[str, Any], tape: Tape) -> int:
    """The step that comes next by a state, if it is one of this tape."""
    if not isinstance(state, Mapping) or state.get("version") != 1 or "tape" not in state:
        raise ValueError(f"this is not the state of a tape that is played: {state!r:.80}")
    if state["tape"] != tape.hash:
        raise ValueError(f"the state is of the tape {str(state['tape'])[:12]}…, and this is {tape.hash[:12]}…")
    return check_place(tape, state.get("step", 0), 0, 1)[0]
