"""Examples on a device, and the memory that decides which of them stay and return."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from reprise.audit import Audit, measure
from reprise.buffer.columns import Replay, as_device, as_labels, as_slots, as_tensor, kind, names
from reprise.buffer.record import Record
from reprise.buffer.state import as_bytes, from_bytes, packed, unpacked
from reprise.memory import Memory, Retrieval, Schedule, Storage
from reprise.tape import Tape

Ids = NDArray[np.int64]


class ReplayBuffer:
    """At most `capacity` examples on a device, a rule for who is kept and a rule for who returns.

    The ten lines a training loop needs, here on a stream of four classes that change every five steps:

    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 16))
    >>> criterion, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)
    >>> stream = [(torch.rand(4, 3, 8, 8), torch.arange(4) + step // 5 * 4) for step in range(20)]
    >>> buffer = ReplayBuffer(capacity=100, retrieval="rpr", device="cpu", seed=0)
    >>> for x, y in stream:
    ...     loss = criterion(model(x), y)
    ...     if replay := buffer.draw(8):  # falsy while nothing is stored
    ...         loss = loss + criterion(model(replay.x), replay.y)
    ...     loss.backward(); optimizer.step(); optimizer.zero_grad()
    ...     slots = buffer.store(x, y)  # more columns by keyword: logits=…, task=…
    >>> buffer
    ReplayBuffer(capacity=100, storage='reservoir', retrieval='rpr', device='cpu', seed=0: 80 stored of 16 classes)
    >>> buffer.audit().violations
    0

    Examples, labels and further columns may have any shape, and keep their dtype; room for `capacity` of them
    is made on the device when the first arrive, once. Who is kept and who returns is decided by
    `buffer.memory`, which sees labels only: buffers of one seed hold the same examples whatever the retrieval.

    `draws` is the number of draws a step takes, each with a schedule of its own. `record=False` keeps no tape:
    for a stream without end, since a tape grows by 16 bytes for each example that arrives and 8 for each that returns.

    In a worker process of a DataLoader there is a copy, which nothing that the loop stores ever reaches. A worker that
    draws from it twice without storing in between is stopped, unless `worker_draws=True`.

    A buffer, and a module that holds one, may be copied and pickled. The copy has its own room on the same device and
    goes on as this buffer would have.
    """

    def __init__(
        self,
        capacity: int,
        storage: str | Storage = "reservoir",
        retrieval: str | Retrieval | Schedule = "rpr",
        device: str | torch.device = "cpu",
        seed: int = 0,
        draws: int = 1,
        *,
        record: bool = True,
        worker_draws: bool = False,
    ) -> None:
        self.memory = Memory(capacity, storage, retrieval, seed, draws)
        self.device = as_device(device)
        self._record = Record(self.memory.draws) if record else None
        self.worker_draws = worker_draws
        self._alone: set[int] = set()  # channels that a DataLoader's worker has drawn since it stored last
        self._columns: dict[str, Tensor] = {}
        self._last = np.zeros(self.memory.capacity + 1, np.int64)  # the last place stands for slot −1

    def draw(self, n: int, *, channel: int = 0, score: Callable[[Tensor], ArrayLike | Tensor] | None = None) -> Replay:
        """At most n stored examples, none twice; falsy when nothing is stored or n is 0.

        `score` is for retrieval that asks for it (`mir:N`): it is given candidate slots, looks at them by
        `buffer.at(slots)`, and returns one number for each.
        """
        worker = get_worker_info()
        if worker is not None and channel in self._alone and not self.worker_draws:
            raise RuntimeError(
                f"worker {worker.id} of a DataLoader draws from a copy of this buffer, as it was when the worker "
                "started: nothing that the loop stores reaches it, and the loader runs ahead of the loop. Draw in the "
                "loop, or plan a tape and load it by reprise.TapeDataset; worker_draws=True allows it"
            )
        slots = self.memory.draw(n, channel=channel, score=None if score is None else _on_host(score)).slots
        if worker is not None:
            self._alone.add(channel)
        if self._record is not None:
            self._record.draw(channel, int(n), slots)
        return self._read(torch.from_numpy(slots))

    def store(
        self,
        x: Tensor | ArrayLike,
        y: Tensor | ArrayLike,
        *,
        score: Callable[..., ArrayLike | Tensor] | None = None,
        **columns: Tensor | ArrayLike,
    ) -> Tensor:
        """Offer a batch in order; for each example, the slot it was written to, or −1 when it was not kept.

        Every batch has the columns of the first. A plain number stands for a column of that number. When an
        example takes the slot of one that came in the same batch, the later one is what the slot holds.

        `score` is for storage that asks for it: given slots, it tells of the stored examples by a number or a row of
        numbers for each; without, of those in this batch.
        """
        if score is not None and not callable(score):
            raise TypeError(f"score must be a function of slots, and no column has that name, got {score!r}")
        labels = as_labels(y)
        given = self._checked({"x": x, **columns}, len(labels), f"y has {len(labels)} labels")
        if self._columns and given.keys() != self._columns.keys() - {"y"}:
            raise ValueError(f"every batch has the columns {names(self._columns)}, got {names(['y', *given])}")
        # Room first: should the device have none left, nothing has been decided yet.
        room = self._columns or (self._room(given) if len(labels) else {})
        slots = self.memory.store(labels, score=None if score is None else _on_host(score))
        labels = labels.astype(np.int64)
        self._columns = room
        self._alone.clear()
        if self._record is not None:
            self._record.store(labels, slots)
        self._write(slots, given, labels)
        return torch.from_numpy(slots)

    def update(self, slots: Tensor | ArrayLike, **columns: Tensor | ArrayLike) -> None:
        """Rewrite columns of stored examples; −1 among the slots is passed over, so `store`'s answer may be given.

        Labels cannot be changed: the memory goes by them.
        """
        places = as_slots(slots, -1, len(self))
        for name in columns:
            if name == "y" or name not in self._columns:
                allowed = names(self._columns.keys() - {"y"}) if self._columns else "none, as nothing is stored"
                raise ValueError(f"update rewrites the columns the buffer has but for labels: {allowed}; got {name!r}")
        self._write(places, self._checked(columns, len(places), f"there are {len(places)} slots"))

    def at(self, slots: Tensor | ArrayLike) -> Replay:
        """The stored examples of these slots. This is no draw: nothing moves and nothing is recorded."""
        return self._read(torch.from_numpy(as_slots(slots, 0, len(self))))

    def tape(self) -> Tape:
        """All that has happened so far as a tape; an example's id says that it was the id-th to arrive.

        A step begins with its draws and takes in all that is stored before the next draw.
        """
        if self._record is None:
            raise ValueError("this buffer was made with record=False, so it has no tape and no audit")
        memory = self.memory
        return self._record.tape(memory.storage_spec, memory.retrieval_spec, memory.capacity, memory.seed)

    def audit(self) -> Audit:
        """Measure what has happened so far: gaps and other waits, bounds kept or broken, co-occurrence, exposure."""
        return measure(self.tape())

    @property
    def classes(self) -> Ids:
        """The classes with at least one stored example, sorted."""
        return self.memory.classes

    def __len__(self) -> int:
        return len(self.memory)

    def __repr__(self) -> str:
        about = repr(self.memory)[len("Memory(") : -1].replace(", seed=", f", device={str(self.device)!r}, seed=")
        return f"ReplayBuffer({about}: {len(self)} stored of {len(self.classes)} classes)"

    def state_dict(self) -> dict[str, Any]:
        """Everything: plain numbers, strings, lists, dicts and tensors, none shared with the buffer.

        So `torch.save` writes it, and plain `torch.load` reads it.
        """
        memory = self.memory.state_dict()
        return {
            "version": 1,
            "memory": {**memory, "index": packed(memory["index"])},
            "columns": {name: table[: len(self)].clone() for name, table in self._columns.items()},
            "record": None if self._record is None else packed(self._record.state_dict()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the buffer that gave this state, seed included; on any fault, an error and no change.

        The state may come from another device: its tensors are moved to this one.
        """
        mine = self.memory
        memory = Memory(mine.capacity, mine.storage, mine.retrieval, mine.seed, mine.draws)
        try:
            if state["version"] != 1:
                raise ValueError(f"its version is {state['version']!r}, known is 1")
            memory.load_state_dict({**state["memory"], "index": unpacked(state["memory"]["index"])})
            saved = {str(name): as_tensor(name, column, 0, self.device) for name, column in state["columns"].items()}
            if any(not column.dim() or len(column) != len(memory) for column in saved.values()) or (
                len(memory) and not {"x", "y"} <= saved.keys()
            ):
                raise ValueError(f"its columns do not hold the {len(memory)} examples of its memory")
            if saved and (saved["y"].dtype != torch.int64 or saved["y"].tolist() != memory.labels.tolist()):
                raise ValueError("its labels are not those of its memory")
            if (state["record"] is None) != (self._record is None):
                kept = {True: "no tape", False: "a tape"}
                raise ValueError(f"it has {kept[state['record'] is None]}, this buffer {kept[self._record is None]}")
            record = None
            if state["record"] is not None:
                record = Record.from_state(mine.draws, unpacked(state["record"]), memory)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            detail = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise ValueError(f"this buffer state cannot be loaded: {detail}") from error
        room = {
            name: old
            if (old := self._columns.get(name)) is not None and (old.shape[1:], old.dtype) == (new.shape[1:], new.dtype)
            else self._empty(new)
            for name, new in saved.items()
        }
        for name, table in room.items():
            table[: len(memory)] = saved[name]
        self.memory, self._record, self._columns = memory, record, room

    def __getstate__(self) -> dict[str, Any]:
        columns = {name: as_bytes(table[: len(self)]) for name, table in self._columns.items()}
        kept = {"memory": self.memory, "device": str(self.device), "record": self._record, "columns": columns}
        return {**kept, "worker_draws": self.worker_draws}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.memory, self.device, self._record = saved["memory"], as_device(saved["device"]), saved["record"]
        self.worker_draws, self._alone = saved.get("worker_draws", False), set()
        self._last = np.zeros(self.memory.capacity + 1, np.int64)
        self._columns = {}
        for name, content in saved["columns"].items():
            rows = from_bytes(content)
            self._columns[name] = self._empty(rows)
            self._columns[name][: len(rows)] = rows.to(self.device)

    def __copy__(self) -> ReplayBuffer:
        return copy.deepcopy(self)  # a buffer that shared its memory with another would be neither

    def _checked(self, columns: Mapping[str, Tensor | ArrayLike], count: int, why: str) -> dict[str, Tensor]:
        """Columns as tensors of `count` rows that fit what the buffer holds."""
        checked = {}
        for name, given in columns.items():
            if name == "slots" or name.startswith("_"):
                raise ValueError(f"a column cannot be named {name!r}: 'slots' and names with a leading _ are taken")
            value = as_tensor(name, given, count, self.device)
            if value.device != self.device:
                here = str(self.device)
                raise ValueError(f"{name} is on {value.device} and this buffer on {here}: give {name}.to({here!r})")
            if not value.dim() or len(value) != count:
                raise ValueError(f"{name} must have one row per example, got shape {tuple(value.shape)} where {why}")
            held = self._columns.get(name)
            if held is not None and (value.shape[1:] != held.shape[1:] or value.dtype != held.dtype):
                raise ValueError(
                    f"{name} of an example is {kind(held)} in this buffer since the first batch, got {kind(value)}"
                )
            checked[name] = value
        return checked

    def _room(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = torch.empty(0, dtype=torch.int64)
        return {name: self._empty(value) for name, value in {**given, "y": labels}.items()}

    def _empty(self, like: Tensor) -> Tensor:
        with torch.inference_mode(False):  # a table made inside inference mode could not be written to outside
            return torch.empty((self.memory.capacity, *like.shape[1:]), dtype=like.dtype, device=self.device)

    @torch.no_grad()
    def _write(self, slots: Ids, given: Mapping[str, Tensor], labels: Ids | None = None) -> None:
        """Write rows to their slots. Of rows with the same slot only the last is written: a device keeps no order."""
        order = np.arange(len(slots))
        self._last[slots] = order  # where a slot comes twice, NumPy keeps the last
        rows = order[(self._last[slots] == order) & (slots >= 0)]
        if not len(rows):
            return
        plan = [slots[rows], rows] if labels is None else [slots[rows], rows, labels[rows]]
        moved = torch.from_numpy(np.stack(plan)).to(self.device)  # one transfer for all that the host decided
        for name, value in given.items():
            self._columns[name].index_copy_(0, moved[0], value.index_select(0, moved[1]))
        if labels is not None:
            self._columns["y"].index_copy_(0, moved[0], moved[2])

    def _read(self, slots: Tensor) -> Replay:
        where = slots.to(self.device)
        return Replay(slots, {name: table.index_select(0, where) for name, table in self._columns.items()})


def _on_host(score: Callable[..., ArrayLike | Tensor]) -> Callable[..., ArrayLike]:
    def scored(*slots: Ids) -> ArrayLike:
        values = score(*map(torch.from_numpy, slots))
        return values.detach().to("cpu", torch.float64).numpy() if isinstance(values, Tensor) else values

    return scored
