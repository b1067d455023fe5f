"""A tape and a data set as one data set, whose items are whole steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from reprise.loader.checking import check_dataset, check_place, check_tape
from reprise.loader.nested import mapped, split_batch
from reprise.loader.sampler import step_of
from reprise.tape import Tape
from reprise.tape_step import TapeStep, only


class TapeBatch:
    """The examples of one step: `incoming`, and `replay` with one entry per draw; None where there are no examples.

    It unpacks into these: `(x, y), replay = batch`. `whole` holds the same examples in one batch, for one forward pass;
    it is None where a function of one's own collates. `ids`, `slots` and `written` are tensors on the CPU, by which
    further things can be kept for the examples; `step` has the same and labels as arrays.
    """

    def __init__(self, step: TapeStep, incoming: Any, replay: tuple[Any, ...], whole: Any = None) -> None:
        self.step, self.incoming, self.replay, self.whole = step, incoming, replay, whole

    @classmethod
    def of(cls, step: TapeStep, whole: Any) -> TapeBatch:
        """The batch whose parts are rows of `whole`."""
        incoming, *replay = split_batch(whole, step)
        return cls(step, incoming, tuple(replay), whole)

    @property
    def replayed(self) -> Any:
        """What the one draw brought, where a step has one."""
        return only(self.replay)

    @property
    def ids(self) -> tuple[Tensor, ...]:
        """The example ids of each part: those that arrive, then each draw's."""
        return tuple(map(torch.tensor, (self.step.incoming, *self.step.replay)))

    @property
    def slots(self) -> tuple[Tensor, ...]:
        """The slots that each draw's examples came from."""
        return tuple(map(torch.tensor, self.step.slots))

    @property
    def written(self) -> Tensor:
        """The slot that each incoming example is written to, −1 if it is not kept."""
        return torch.tensor(self.step.written)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.incoming, *self.replay))

    def to(self, *args: Any, **kwargs: Any) -> TapeBatch:
        """The same batch with `.to(…)` of every tensor: a device, a dtype, `non_blocking=True`."""
        return self._with(lambda leaf: leaf.to(*args, **kwargs) if hasattr(leaf, "to") else leaf)

    def pin_memory(self) -> TapeBatch:
        """The same batch in pinned memory: what a DataLoader with `pin_memory=True` asks for."""
        return self._with(lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf)

    def _with(self, change: Callable[[Any], Any]) -> TapeBatch:
        if self.whole is not None:
            return TapeBatch.of(self.step, mapped(change, self.whole))
        incoming, *replay = (mapped(change, part) for part in self)
        return TapeBatch(self.step, incoming, tuple(replay))

    def __reduce__(self) -> tuple[Any, ...]:
        if self.whole is not None:  # a tensor that comes from a worker costs more than its bytes: half as many are sent
            return TapeBatch.of, (self.step, self.whole)
        return TapeBatch, (self.step, self.incoming, self.replay)

    def __repr__(self) -> str:
        came, *drawn = self.step.sizes
        return f"TapeBatch(step {self.step.number}: {came} incoming, {' + '.join(map(str, drawn))} replayed)"


class TapeDataset(Dataset[TapeBatch]):
    """A map-style data set of the steps of a tape; each item holds the step's examples, part by part.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from reprise import Memory, plan
    >>> y = torch.tensor([0, 1, 0, 1, 2, 2])
    >>> tape = plan(y, Memory(4, seed=0), replay=1, batch=2)
    >>> for (x, y), replay in DataLoader(TapeDataset(TensorDataset(torch.rand(6, 8), y), tape), batch_size=None):
    ...     print(len(x), "incoming,", 0 if replay is None else len(replay[0]), "replayed")
    2 incoming, 0 replayed
    2 incoming, 1 replayed
    2 incoming, 1 replayed

    `batch_size=None` tells the DataLoader that items are batches already. Its workers each make whole steps, in any
    number, and it gives them in order. `collate_fn` makes a batch of a list of examples, as for a DataLoader; one of
    your own is called for each part by itself, so that it may return anything.

    `start` is the first step, for a run that goes on. `rank` and `world_size` give this process its part of every
    step: every `world_size`-th of the incoming examples and of each draw. The data set must be the one whose labels
    were planned: its length is compared with the tape, and its `targets`, if it has any, unless `check_targets=False`.
    """

    def __init__(
        self,
        dataset: Any,
        tape: Tape,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
        *,
        start: int = 0,
        rank: int = 0,
        world_size: int = 1,
        check_targets: bool = True,
    ) -> None:
        self.tape = check_tape(tape)
        self.start, self.rank, self.world_size = check_place(tape, start, rank, world_size)
        check_dataset(dataset, tape, check_targets)
        self.dataset, self.collate_fn = dataset, collate_fn

    def __len__(self) -> int:
        return len(self.tape) - self.start

    def __getitem__(self, place: int) -> TapeBatch:
        step = self.tape[self.start :][place].part(self.rank, self.world_size)
        examples = self._examples(step.ids.tolist())
        if examples and self.collate_fn is default_collate:
            return TapeBatch.of(step, default_collate(examples))
        parts = [examples[start:stop] for start, stop in pairwise([0, *accumulate(step.sizes)])]
        incoming, *replay = (self.collate_fn(part) if part else None for part in parts)
        return TapeBatch(step, incoming, tuple(replay))

    def _examples(self, ids: list[int]) -> list[Any]:
        """Examples by id, all at once where the data set can."""
        if getattr(self.dataset, "__getitems__", None):
            found: list[Any] = self.dataset.__getitems__(ids) if ids else []
            return found
        return [self.dataset[example] for example in ids]

    def __getitems__(self, places: list[int]) -> Any:
        raise TypeError("an item of a TapeDataset is a batch already: give the DataLoader batch_size=None")

    def __repr__(self) -> str:
        part = "" if self.world_size == 1 else f", rank={self.rank}, world_size={self.world_size}"
        return f"TapeDataset({type(self.dataset).__name__}, {self.tape!r}, start={self.start}{part})"

    def state_dict(self) -> dict[str, Any]:
        """Which tape this is, for torchdata's `StatefulDataLoader`, which counts steps by itself."""
        return {"version": 1, "tape": self.tape.hash}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Refuse the state of another tape."""
        step_of(state, self.tape)
