"""Avalanche: exemplars kept by our storage, and a plugin that replays by a schedule at every iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise.audit import Audit
from reprise.buffer import Replay, ReplayBuffer
from reprise.core.arguments import as_int
from reprise.core.extras import NotInstalled, not_installed
from reprise.memory import Memory, Retrieval, Schedule, Storage
from reprise.tape import Tape

try:
    from avalanche.benchmarks.utils import AvalancheDataset, _taskaware_classification_subset
    from avalanche.training.plugins import SupervisedPlugin
    from avalanche.training.storage_policy import ExemplarsBuffer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "avalanche":
        raise
    raise NotInstalled(not_installed(f"{__name__} needs avalanche-lib", "avalanche"), name="avalanche") from None

By = Literal["class", "task", "experience"]
_ATTRIBUTES = {"class": "targets", "task": "targets_task_labels"}


class MemoryBuffer(ExemplarsBuffer):
    """Exemplars kept by one of our storages, in place of Avalanche's own buffers.

    `ReplayPlugin(mem_size=2000, storage_policy=MemoryBuffer(2000, "brs"))`, or `strategy.storage_policy = …` for the
    strategies that make their own. `by` says what a balanced storage balances, and what `buffer_groups` groups by:
    the class, the task label, the experience (one for each update), or nothing (None).

    `buffer` has the exemplar of slot s at place s. It is put together when somebody asks for it, so an update costs
    what the new data costs, whatever the capacity.
    """

    def __init__(
        self, max_size: int, storage: str | Storage = "reservoir", by: By | None = "class", seed: int = 0
    ) -> None:
        super().__init__(as_int(max_size, "max_size", 1))
        self._buffer: AvalancheDataset
        self.by = _checked(by)
        self.memory = Memory(max_size, storage, "uniform", seed)
        self.updates = 0
        # `_place` is where each slot's exemplar stands in the row of all of `_buffer` and then all of `_fresh`.
        self._place = np.zeros(max_size, np.int64)
        self._fresh: list[AvalancheDataset] = []
        self._rows = 0
        self._current = True

    @property
    def buffer(self) -> AvalancheDataset:
        """The exemplars as one data set, in the order of their slots; to be read only."""
        if not self._current:
            parts = [part for part in (self._buffer, *self._fresh) if len(part)]
            if parts:
                whole = parts[0] if len(parts) == 1 else type(parts[0])(parts)
                self._buffer = whole.subset(self._place[: len(self.memory)].tolist())
            self._fresh, self._rows, self._current = [], len(self._buffer), True
            self._place[: self._rows] = np.arange(self._rows)
        return self._buffer

    @property
    def buffer_groups(self) -> dict[int, Group]:
        """The exemplars of every class, task or experience, by its number; to be read only."""
        return {label: Group(self, label) for label in self.memory.classes.tolist()}

    @property
    def buffer_datasets(self) -> list[AvalancheDataset]:
        """The data sets of all groups."""
        return [group.buffer for group in self.buffer_groups.values()]

    def update(self, strategy: Any, **kwargs: Any) -> None:
        """Offer the examples of the strategy's experience, in order."""
        self.post_adapt(strategy, strategy.experience)

    def post_adapt(self, agent: Any, exp: Any) -> None:
        """Offer the examples of an experience, in order."""
        self.update_from_dataset(exp.dataset, agent)

    def update_from_dataset(self, new_data: AvalancheDataset, strategy: Any = None) -> None:
        """Offer the examples of a data set, in order."""
        if not len(new_data):
            return
        slots = self.memory.store(self._labels(new_data))
        self.updates += 1
        rows = np.flatnonzero(slots >= 0)
        if not len(rows):
            return
        self._place[slots[rows]] = self._rows + np.arange(len(rows))  # where a slot comes twice, the last stays
        self._fresh.append(_subset(new_data, rows.tolist()))
        self._rows += len(rows)
        self._current = False
        if len(self._fresh) > 64 or self._rows > 2 * self.max_size + 1024:
            _ = self.buffer  # let go of what has been replaced

    def resize(self, strategy: Any, new_size: int) -> None:
        """Change the capacity; where exemplars have to go, the storage says which."""
        moves = self.memory.resize(new_size)
        place = np.zeros(new_size, np.int64)
        kept = min(len(place), len(self._place))
        place[:kept] = self._place[:kept]
        place[moves.target] = self._place[moves.source]
        self._place, self.max_size, self._current = place, new_size, False

    def _labels(self, data: AvalancheDataset) -> NDArray[np.int64]:
        if self.by is None or self.by == "experience":
            return np.full(len(data), 0 if self.by is None else self.updates, np.int64)
        name = _ATTRIBUTES[self.by]
        values = getattr(data, name, None)
        if values is None:
            raise ValueError(f"by={self.by!r} goes by the data set's attribute {name!r}, which this one does not have")
        return np.array([int(value) for value in values], np.int64)

    def __getstate__(self) -> dict[str, Any]:
        _ = self.buffer  # so that nothing is saved that has been replaced
        return self.__dict__.copy()

    def __repr__(self) -> str:
        held = f"{len(self.memory)} stored in {len(self.memory.classes)} groups"
        return f"MemoryBuffer({self.max_size}, {self.memory.storage_spec!r}, by={self.by!r}: {held})"


class Group:
    """The exemplars of one class, task or experience; Avalanche's strategies ask for its `buffer`."""

    def __init__(self, whole: MemoryBuffer, label: int) -> None:
        self._whole, self._label = whole, label

    @property
    def buffer(self) -> AvalancheDataset:
        """Its exemplars as a data set."""
        return self._whole.buffer.subset(np.flatnonzero(self._whole.memory.labels == self._label).tolist())

    def __len__(self) -> int:
        return self._whole.memory.counts().get(self._label, 0)


class ScheduledReplayPlugin(SupervisedPlugin):
    """Replay by a schedule, for any strategy: `Naive(…, plugins=[ScheduledReplayPlugin(2000, 8)])`.

    At every training iteration `batch_size_mem` stored examples (as many as `train_mb_size`, if None) are joined to the
    mini-batch, and after it the incoming ones are offered to the storage. So replay begins with the second iteration,
    and needs no ends of experiences. With several epochs, only the first of an experience is stored, or all of them
    with `every_epoch=True`.

    The examples are stored as the mini-batch has them, on the strategy's device; `transform` is applied to the inputs
    that return. `by` says what the schedule goes by: the class, the task label, the experience, or nothing (None).

    `plugin.buffer` is the ReplayBuffer, `plugin.tape()` and `plugin.audit()` what it did. A checkpoint of the strategy
    has it all; after loading one, the plugin that goes on is the one in `strategy.plugins`.
    """

    def __init__(
        self,
        mem_size: int = 200,
        batch_size_mem: int | None = None,
        storage: str | Storage = "reservoir",
        retrieval: str | Retrieval | Schedule = "rpr",
        *,
        by: By | None = "class",
        seed: int = 0,
        transform: Callable[[Tensor], Tensor] | None = None,
        every_epoch: bool = False,
        record: bool = True,
    ) -> None:
        super().__init__()
        self.batch_size_mem = None if batch_size_mem is None else as_int(batch_size_mem, "batch_size_mem", 0)
        self.by = _checked(by)
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be a function of the inputs that return, got {transform!r}")
        self.transform = transform
        self.every_epoch = every_epoch
        self.replay: Replay | None = None  # of the current iteration
        self._incoming: list[Tensor] = []
        self._make: dict[str, Any] = {"capacity": mem_size, "storage": storage, "retrieval": retrieval, "seed": seed}
        self._make["record"] = record
        self.buffer = ReplayBuffer(**self._make)

    def before_training(self, strategy: Any, **kwargs: Any) -> None:
        """Refuse a second plugin of this kind: it would store what the first one replays, as if it had come in."""
        if any(isinstance(one, ScheduledReplayPlugin) and one is not self for one in strategy.plugins):
            raise ValueError(
                "a strategy takes one ScheduledReplayPlugin: another would store what the first one replays"
            )

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Draw, and join what was drawn to the mini-batch."""
        batch = strategy.mbatch
        if not isinstance(batch, (list, tuple)) or not all(isinstance(part, Tensor) for part in batch):
            raise TypeError(f"the mini-batch must be a list of tensors, input and target first; got {type(batch)}")
        if self.buffer.device != _with_number(strategy.device):
            self._move(strategy.device)
        n = strategy.train_mb_size if self.batch_size_mem is None else self.batch_size_mem
        self._incoming = list(batch)
        self.replay = self.buffer.draw(n)
        if self.replay:
            x = self.replay.x if self.transform is None else self.transform(self.replay.x)
            drawn = [x, *(getattr(self.replay, name) for name in _columns(len(batch)))]
            for place, (new, old) in enumerate(zip(batch, drawn, strict=True)):
                if new.shape[1:] != old.shape[1:]:
                    raise ValueError(
                        f"part {place} of the mini-batch has examples of shape {tuple(new.shape[1:])}, what returns "
                        f"has {tuple(old.shape[1:])}: they cannot be one batch"
                    )
            strategy.mbatch = [torch.cat([new, old]) for new, old in zip(batch, drawn, strict=True)]

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Offer what came in to the storage."""
        batch, self._incoming, self.replay = self._incoming, [], None
        if batch and (self.every_epoch or not strategy.clock.train_exp_epochs):
            columns: dict[str, Any] = dict(zip(_columns(len(batch)), batch[1:], strict=True))
            self.buffer.store(batch[0], self._labels(strategy, batch), **columns)

    def tape(self) -> Tape:
        """What has been replayed and stored so far, as a tape."""
        return self.buffer.tape()

    def audit(self) -> Audit:
        """How long classes waited so far, and whether the bound was kept."""
        return self.buffer.audit()

    def _labels(self, strategy: Any, batch: list[Tensor]) -> Any:
        if self.by == "class":
            return batch[1]
        if self.by == "task":
            if len(batch) < 3:
                raise ValueError("by='task' needs a mini-batch with task labels, that is, a task-aware benchmark")
            return batch[-1]
        return np.full(len(batch[1]), 0 if self.by is None else strategy.clock.train_exp_counter, np.int64)

    def _move(self, device: Any) -> None:
        moved = ReplayBuffer(**self._make, device=device)
        if self.buffer.memory.steps or len(self.buffer):
            moved.load_state_dict(self.buffer.state_dict())
        self.buffer = moved

    def __getstate__(self) -> dict[str, Any]:
        # On the CPU, so that it can be loaded where that device is not.
        here = self.__dict__.copy()
        if self.buffer.device.type != "cpu":
            here["buffer"] = ReplayBuffer(**self._make)
            here["buffer"].load_state_dict(self.buffer.state_dict())
        return {**here, "replay": None, "_incoming": []}


def _subset(data: Any, rows: list[int]) -> AvalancheDataset:
    # Some strategies offer plain data sets with the attributes of Avalanche's: its own buffers take those in this way.
    return data.subset(rows) if hasattr(data, "subset") else _taskaware_classification_subset(data, indices=rows)


def _columns(parts: int) -> Iterator[str]:
    """Names for what a mini-batch has beside its input: target, task label, whatever else."""
    return (f"part{number}" for number in range(1, parts))


def _with_number(device: Any) -> torch.device:
    """The device that is meant, with its number, so that devices compare."""
    meant = torch.device(device)
    if meant.type == "cpu" or meant.index is None:  # a tensor is on 'cpu', never on 'cpu:0'
        meant = torch.empty(0, device=meant).device
    return meant


def _checked(by: By | None) -> By | None:
    if by not in ("class", "task", "experience", None):
        raise ValueError(f"by must be 'class', 'task', 'experience' or None, got {by!r}")
    return by
