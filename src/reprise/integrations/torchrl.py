"""torchrl: a sampler that draws by a schedule over any writer, and a writer that keeps what our storage keeps."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from reprise.audit import Audit
from reprise.core.extras import NotInstalled, not_installed
from reprise.memory import Memory, Retrieval, Schedule, Storage
from reprise.recorded import RecordedMemory
from reprise.tape import Tape

try:
    from tensordict import is_tensor_collection
    from torchrl.data.replay_buffers.samplers import Sampler
    from torchrl.data.replay_buffers.writers import Writer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("tensordict", "torchrl"):
        raise
    raise NotInstalled(not_installed(f"{__name__} needs torchrl", "torchrl"), name=error.name) from None

Ids = NDArray[np.int64]
Key = str | tuple[str, ...] | Callable[[Any], Any]
_AT_ONCE = 2**20  # a storage of up to so many slots gets its memory whole, a larger or an endless one as it fills


class ScheduledSampler(Sampler):
    """Draws by one of our schedules, whatever writer fills the storage.

    `ReplayBuffer(storage=LazyTensorStorage(10_000), sampler=ScheduledSampler("rpr", key="task"), batch_size=32)`

    The schedule goes by `key`, an entry of the stored tensordicts with one whole number for each, or a function of what
    `storage.get(indices)` gives. It is read when a slot has been written, at the next sample. A batch never has an
    entry twice, and is short while the storage holds fewer than `batch_size`.

    `seed` is this sampler's own: torch's generators are not used. With `record=True`, `tape()` and `audit()` tell what
    was sampled so far; the record grows by 16 bytes for each entry written and 8 for each sampled.

    A buffer with `prefetch` samples in other threads and ahead of the loop: what is written meanwhile may come into a
    batch or not, by chance. So this is refused, unless `prefetch=True` says that it is meant.
    """

    def __init__(
        self,
        retrieval: str | Retrieval | Schedule = "rpr",
        key: Key = "label",
        seed: int = 0,
        *,
        record: bool = False,
        prefetch: bool = False,
    ) -> None:
        self.retrieval, self.key, self.seed, self.prefetch = retrieval, _checked(key), seed, prefetch
        self._kind: type[Memory] = RecordedMemory if record else Memory
        self._thread: int | None = None
        self._fresh: list[Any] = []  # indices written since the last sample
        self._memory: Memory = self._new(1)

    def _new(self, capacity: int) -> Memory:
        return self._kind(capacity, "external", self.retrieval, self.seed)

    @property
    def memory(self) -> Memory:
        """The memory that decides what returns."""
        return self._memory

    def sample(self, storage: Any, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """The indices of at most `batch_size` entries, none twice."""
        if storage.ndim > 1:
            raise ValueError(f"a ScheduledSampler needs a storage of one dimension, this one has {storage.ndim}")
        if not len(storage):
            raise RuntimeError("Cannot sample from an empty storage.")
        here = threading.get_ident()
        if self._thread not in (None, here) and not self.prefetch:
            raise RuntimeError(
                "this buffer samples in several threads, as one with prefetch does: what is written meanwhile would "
                "come into a batch or not, by chance. Make it without prefetch, or the sampler with prefetch=True"
            )
        self._thread = here
        self._hear(storage)
        index = torch.from_numpy(self._memory.draw(int(batch_size)).slots)
        device = getattr(storage, "device", None)
        return (index if device in (None, "auto") else index.to(device)), {}

    def _hear(self, storage: Any) -> None:
        """Tell the memory what the slots hold that have been written."""
        filled = len(storage)
        fresh = _flat(self._fresh)
        self._grow(storage, filled)
        if len(fresh):
            self._tell(storage, np.unique(fresh[(fresh >= 0) & (fresh < filled)]))
            self._fresh = []
        if len(self._memory) != filled:  # it was filled before it met this sampler, or emptied apart from it
            labels = self._memory.labels
            gone = np.flatnonzero(labels[filled:] >= 0) + filled
            self._memory.assign(gone, np.full(len(gone), -1))
            self._tell(storage, np.flatnonzero(labels[:filled] < 0))

    def _grow(self, storage: Any, filled: int) -> None:
        memory = self._memory
        if memory.capacity < filled or (memory.capacity == 1 and not memory.steps):
            whole = storage.max_size if storage.max_size <= _AT_ONCE else min(storage.max_size, max(2 * filled, 1024))
            if len(memory) or memory.steps:
                memory.resize(whole)
            else:
                self._memory = self._new(whole)

    def _tell(self, storage: Any, slots: Ids) -> None:
        if len(slots):
            labels = _labels(self.key, _rows(storage, self.key, slots), len(slots))
            if labels.min() < 0:  # to the memory, such a slot would be empty
                raise ValueError(
                    f"{self.key!r} must be 0 or more, got {labels.min()}: such an entry would never return"
                )
            self._memory.assign(slots, labels)

    def add(self, index: Any) -> None:
        """A slot has been written; None when what was added was not kept."""
        if index is not None:
            self._fresh.append(index)

    def extend(self, index: Any) -> None:
        """Slots have been written; −1 stands for what was not kept."""
        self._fresh.append(index)

    def mark_update(self, index: Any, *, storage: Any = None) -> None:
        """What slots hold has been changed in place: `buffer.mark_update(index)` says so."""
        self.add(index)

    def tape(self) -> Tape:
        """What has been written and sampled so far, as a tape."""
        return self._recorded().tape()

    def audit(self) -> Audit:
        """How long classes waited so far, and whether the bound was kept."""
        return self._recorded().audit()

    def _recorded(self) -> RecordedMemory:
        if not isinstance(self._memory, RecordedMemory):
            raise ValueError("this sampler was made with record=False, so it has no tape and no audit")
        return self._memory

    def state_dict(self) -> dict[str, Any]:
        """Everything, in plain numbers, strings, lists and dicts: the state belongs to that of the storage."""
        return {"version": 1, "memory": self._memory.state_dict(), "fresh": _flat(self._fresh).tolist()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Become the sampler that gave this state; on any fault, an error and no change."""
        memory = _loaded(state_dict, self._new)
        self._fresh = [np.array(state_dict["fresh"], np.int64)]
        self._memory, self.seed = memory, memory.seed

    def dumps(self, path: str | Path) -> None:
        """Write the state into a folder, as JSON."""
        _dump(path, self.state_dict())

    def loads(self, path: str | Path) -> None:
        """Read the state that `dumps` wrote."""
        self.load_state_dict(_undump(path))

    def _empty(self) -> None:
        self._fresh = []
        self._memory.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_thread": None, "_fresh": [_flat(self._fresh)]}

    def __repr__(self) -> str:
        return f"ScheduledSampler({self._memory.retrieval_spec!r}, key={self.key!r}, seed={self.seed})"


class MemoryWriter(Writer):
    """Writes into the slot that one of our storages chooses, and drops what it does not keep.

    `ReplayBuffer(storage=LazyTensorStorage(10_000), writer=MemoryWriter("reservoir"), sampler=…)`

    `extend` returns the index of every entry, −1 for one that was not kept or was replaced within the batch; `add`
    returns None then. Balanced storages (`brs`, `cbrs`, …) go by `key`, an entry of what is written, or a function of
    it; a storage that does not balance may have `key=None`. Any sampler may read what is written.
    """

    def __init__(
        self,
        storage: str | Storage = "reservoir",
        key: Key | None = "label",
        seed: int = 0,
        *,
        compilable: bool = False,
    ) -> None:
        if compilable:
            raise ValueError("a MemoryWriter decides in Python: it cannot be compiled")
        super().__init__()
        self.rule, self.key, self.seed = storage, None if key is None else _checked(key), seed
        self.memory = self._new(1)
        self._write_count = 0

    def _new(self, capacity: int) -> Memory:
        return Memory(capacity, self.rule, "uniform", self.seed)

    def register_storage(self, storage: Any) -> None:
        """Write into this storage, which must have one dimension and an end."""
        if storage.ndim > 1:
            raise ValueError(f"a MemoryWriter needs a storage of one dimension, this one has {storage.ndim}")
        if storage.max_size > 2**40:
            raise ValueError("a MemoryWriter needs a storage with max_size: one without end keeps everything anyway")
        super().register_storage(storage)
        if self.memory.capacity != storage.max_size:
            self.memory = self._new(storage.max_size)

    def add(self, data: Any) -> int | None:
        """Offer one entry; the index it was written to, or None when it was not kept."""
        slot = int(self._store(data, 1)[0])
        if slot < 0:
            return None
        if is_tensor_collection(data):
            data.set("index", torch.tensor(slot))
        self._write(slot, data, 1)
        return slot

    def extend(self, data: Any) -> Tensor:
        """Offer a batch in order; the index of each entry, −1 for one that the storage does not hold now."""
        count = _length(data)
        if not count:
            raise RuntimeError("Expected at least one element in extend.")
        slots = self._store(data, count)
        last = dict(zip(slots.tolist(), range(count), strict=True))  # where a slot comes twice, the later entry stays
        last.pop(-1, None)
        rows = [last[slot] for slot in sorted(last)]  # a list can only grow at its end
        index = torch.full((count,), -1, dtype=torch.int64)
        index[rows] = torch.from_numpy(slots[rows])
        if is_tensor_collection(data):
            data.set("index", index.reshape(count, *[1] * (data.batch_dims - 1)).expand(data.batch_size).clone())
        if rows:
            self._write(index[rows], _take(data, rows), len(rows))
        return index

    def _store(self, data: Any, count: int) -> Ids:
        storage = self._storage
        if storage is None:
            raise RuntimeError("this writer has no storage yet: a replay buffer registers it")
        if len(storage) != len(self.memory):
            raise RuntimeError(
                f"the storage holds {len(storage)} entries and this writer wrote {len(self.memory)}: it must write all"
            )
        if self.key is None:
            return self.memory.store(np.zeros(count, np.int64))
        try:
            labels = _labels(self.key, data, count)
        except KeyError as error:
            raise KeyError(f"{error.args[0]}; a storage that does not balance may have key=None") from None
        return self.memory.store(labels)

    def _write(self, index: int | Tensor, data: Any, count: int) -> None:
        self._storage.set(index, data)
        self._write_count += count
        for one in self._storage._attached_entities_iter():
            one.mark_update(index)

    def state_dict(self) -> dict[str, Any]:
        """Everything, in plain numbers, strings, lists and dicts."""
        return {"version": 1, "memory": self.memory.state_dict(), "write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Become the writer that gave this state; on any fault, an error and no change."""
        memory = _loaded(state_dict, self._new)
        if self._storage is not None and memory.capacity != self._storage.max_size:
            raise ValueError(f"the state is of {memory.capacity} slots, the storage has {self._storage.max_size}")
        self._write_count = int(state_dict["write_count"])
        self.memory, self.seed = memory, memory.seed

    def dumps(self, path: str | Path) -> None:
        """Write the state into a folder, as JSON."""
        _dump(path, self.state_dict())

    def loads(self, path: str | Path) -> None:
        """Read the state that `dumps` wrote."""
        self.load_state_dict(_undump(path))

    def _empty(self, empty_write_count: bool = True) -> None:
        self.memory.clear()
        if empty_write_count:
            self._write_count = 0

    def __repr__(self) -> str:
        return f"MemoryWriter({self.memory.storage_spec!r}, key={self.key!r}, seed={self.seed})"


def _rows(storage: Any, key: Key, slots: Ids) -> Any:
    """What these slots hold, only the one column where that can be had."""
    index = torch.from_numpy(slots)
    held: Any = getattr(storage, "_storage", None)
    if not callable(key) and is_tensor_collection(held) and key in held.keys(include_nested=True):
        column = held.get(key)
        return {key: column[index.to(column.device)]}
    return storage.get(index)


def _labels(key: Key, data: Any, count: int) -> Ids:
    """The label of each entry."""
    if callable(key):
        values = key(data)
    elif isinstance(data, list):
        values = [_entry(one, key) for one in data]
        values = torch.stack(values) if all(isinstance(value, Tensor) for value in values) else values
    else:
        values = _entry(data, key)
    try:
        values = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{key!r} must be whole numbers, got {values!r:.60}: names must be numbered") from None
    if values.numel() != count:
        raise ValueError(f"{key!r} must be one whole number for each of {count} entries, got {tuple(values.shape)}")
    if values.dtype.is_floating_point or values.dtype.is_complex:
        raise TypeError(f"{key!r} must be whole numbers, got {values.dtype}")
    labels: Ids = values.detach().reshape(-1).cpu().numpy().astype(np.int64)
    return labels


def _checked(key: Any) -> Key:
    if not (callable(key) or isinstance(key, str) or (isinstance(key, tuple) and key)):
        raise TypeError(f"key must be the name of an entry, a tuple of names, or a function, got {key!r}")
    checked: Key = key
    return checked


def _entry(data: Any, key: Any) -> Any:
    if is_tensor_collection(data):
        found = data.get(key, None)
        if found is not None:
            return found
    elif isinstance(data, dict) and key in data:
        return data[key]
    has = f"has {', '.join(map(repr, data.keys()))}" if hasattr(data, "keys") else f"is a {type(data).__name__}"
    raise KeyError(f"what is stored goes by the key {key!r}, and an entry {has}: name another, or give a function")


def _flat(indices: list[Any]) -> Ids:
    """Indices that were noted one after the other, as one array."""
    rows = [np.asarray(one.cpu().numpy() if isinstance(one, Tensor) else one, np.int64).reshape(-1) for one in indices]
    return np.concatenate(rows) if rows else np.empty(0, np.int64)


def _length(data: Any) -> int:
    return len(data) if is_tensor_collection(data) or isinstance(data, (Tensor, list)) else len(tree_leaves(data)[0])


def _take(data: Any, rows: list[int]) -> Any:
    if isinstance(data, list):
        return [data[row] for row in rows]
    return data[rows] if is_tensor_collection(data) else tree_map(lambda leaf: leaf[rows], data)


def _loaded(state: Any, new: Callable[[int], Memory]) -> Memory:
    if not isinstance(state, dict) or "version" not in state:
        raise ValueError(f"this state cannot be loaded: it is of something else, {state!r:.60}")
    try:
        if state["version"] != 1:
            raise ValueError(f"its version is {state['version']!r}, known is 1")
        memory = new(state["memory"]["capacity"])
        memory.load_state_dict(state["memory"])
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"this state cannot be loaded: {error}") from error
    return memory


def _dump(path: str | Path, state: dict[str, Any]) -> None:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reprise.json").write_text(json.dumps(state), encoding="utf-8")


def _undump(path: str | Path) -> Any:
    return json.loads((Path(path) / "reprise.json").read_text(encoding="utf-8"))
