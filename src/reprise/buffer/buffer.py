"""Examples on a device or a disk, and the memory that decides which of them stay and return."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import get_worker_info

from reprise.audit import Audit
from reprise.buffer.arguments import Ids, Score, as_device, as_labels, as_slots, each_key, names, numbers_of, on_host
from reprise.buffer.columns import Collation, Columns
from reprise.buffer.disk import DiskRoom
from reprise.buffer.nesting import LEAF
from reprise.buffer.ragged import Collate
from reprise.buffer.replay import Example, Replay
from reprise.buffer.restore import put_back, read_state, whole_state
from reprise.buffer.room import DeviceRoom
from reprise.buffer.state import as_bytes, from_bytes
from reprise.core.arguments import as_int
from reprise.memory import External, Memory, Retrieval, Schedule, Storage
from reprise.memory.keys import Keys
from reprise.recorded import RecordedMemory
from reprise.tape import Tape

_NOBODY: tuple[()] = ()


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

    Examples, targets and further columns may be tensors of any shape, or dicts, tuples, lists and named tuples of them;
    they keep their dtype. Room for `capacity` of them is made when the first arrive, once. Who is kept and who returns
    is decided by `buffer.memory`, which sees labels only: buffers of one seed hold the same examples whatever the
    retrieval. The labels are `y`, unless `store(…, key=…)` names something else.

    `collate` makes a batch of rows that differ in shape: a function of a list of rows, or a dict of these by column;
    without, `pad()` does. `transform` is called with the `x` of every draw. `path` keeps the columns in files of that
    folder; draws still come to `device`.

    `draws` is the number of draws a step takes, each with a schedule of its own. `record=False` keeps no tape:
    for a stream without end, since a tape grows by 16 bytes for each example that arrives and 8 for each that returns.

    In a worker process of a DataLoader there is a copy, which nothing that the loop stores ever reaches. A worker that
    draws from it twice without storing in between is stopped, unless `worker_draws=True`.

    A buffer, and a module that holds one, may be copied and pickled, unless it is on disk. The copy has its own room on
    the same device and goes on as this buffer would have.
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
        collate: Collate | Mapping[str, Collate] | None = None,
        transform: Callable[[Any], Any] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.memory = (RecordedMemory if record else Memory)(capacity, storage, retrieval, seed, draws)
        self.device = as_device(device)
        if isinstance(self.memory.storage, External):
            raise ValueError(
                "storage 'external' is for a reprise.Memory beside examples of your own: a buffer has its own"
            )
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be a function of a replay's x, got {transform!r}")
        self.transform, self.worker_draws = transform, worker_draws
        self._alone: set[int] = set()  # channels that a DataLoader's worker has drawn since it stored last
        self._keys: Keys | None = None  # those of a buffer that goes by keys
        room = DeviceRoom(self.device) if path is None else DiskRoom(path, self.capacity)
        self._columns = Columns(self.capacity, room, self.device, Collation(collate))

    # Draw and store ------------------------------------------------------------------------------------------------

    def draw(
        self,
        n: int,
        *,
        channel: int = 0,
        score: Callable[[Tensor], ArrayLike | Tensor] | None = None,
        exclude: Iterable[Hashable] = _NOBODY,
        only: Iterable[Hashable] | None = None,
    ) -> Replay:
        """At most n stored examples, none twice; falsy when nothing is stored or n is 0.

        `score` is for retrieval that asks for it (`mir:N`): it is given candidate slots, looks at them by
        `buffer.at(slots)`, and returns one number for each. `exclude` names keys (or labels) that must not return in
        this draw, `only` those that may.
        """
        worker = get_worker_info()
        if worker is not None and channel in self._alone and not self.worker_draws:
            raise RuntimeError(
                f"worker {worker.id} of a DataLoader draws from a copy of this buffer, as it was when the worker "
                "started: nothing that the loop stores reaches it, and the loader runs ahead of the loop. Draw in the "
                "loop, or plan a tape and load it by reprise.TapeDataset; worker_draws=True allows it"
            )
        limits = {} if only is None and exclude is _NOBODY else self._limits(exclude, only)
        drawn = self.memory.draw(n, channel=channel, score=None if score is None else on_host(score), **limits)
        if worker is not None:
            self._alone.add(channel)
        replay = self._read(drawn.slots, drawn.labels)
        if self.transform is not None and replay:
            replay.x = self.transform(replay.x)
        return replay

    def store(self, x: Any, y: Any = None, *, key: Any = None, score: Score | None = None, **columns: Any) -> Tensor:
        """Offer a batch in order; for each example, the slot it was written to, or −1 when it was not kept.

        Every batch has the columns of the first. A plain number stands for a column of that number. When an
        example takes the slot of one that came in the same batch, the later one is what the slot holds.

        `key` says what the examples are scheduled by, when it is not `y`: one hashable for each, or one string or
        number for all. `y` may then be anything that `x` may be, or None. The first batch decides whether a buffer
        goes by labels or by keys.

        `score` is for storage that asks for it: given slots, it tells of the stored examples by a number or a row of
        numbers for each; without, of those in this batch.
        """
        if score is not None and not callable(score):
            raise TypeError(f"score must be a function of slots, and no column has that name, got {score!r}")
        self._columns.room.check_ours()
        held, keys, new = self._columns, self._keys, list[Hashable]()
        if self._by_key(key):
            keys = Keys() if keys is None else keys
            labels, new = keys.look(each_key(key, x))
            nests, given = held.taken({"x": x, "y": y, **columns}, len(labels), f"there are {len(labels)} keys")
        else:
            labels = as_labels(y)
            nests, given = held.taken({"x": x, **columns}, len(labels), f"y has {len(labels)} labels")
            nests = {"x": nests.pop("x"), "y": LEAF, **nests}
        if held.leaves and nests.keys() != held.nests.keys():
            raise ValueError(f"every batch has the columns {names(held.nests)}, got {names(nests)}")
        # Room first: should the device have none left, nothing has been decided yet.
        leaves = held.leaves
        if not leaves and len(labels):
            like = given if keys is not None else {**given, "y": torch.empty(0, dtype=torch.int64)}
            leaves = held.made(like)
        held.reserve(given, leaves)
        slots = self.memory.store(labels, score=None if score is None else on_host(score))
        if len(labels):
            self._keys = keys
            held.settle(nests, leaves)
            if keys is not None:
                keys.extend(new)
        self._alone.clear()
        held.write(slots, given, None if keys is not None else labels.astype(np.int64))
        return torch.from_numpy(slots)

    def update(self, slots: Tensor | ArrayLike, **columns: Any) -> None:
        """Rewrite columns of stored examples; −1 among the slots is passed over, so `store`'s answer may be given.

        Labels and keys cannot be changed: the memory goes by them.
        """
        self._columns.room.check_ours()
        places = as_slots(slots, -1, len(self))
        free = self._columns.nests.keys() - ({"y"} if self._keys is None else set())
        for name in columns:
            if name not in free:
                allowed = names(free) if free else "none, as nothing is stored"
                raise ValueError(f"update rewrites the columns the buffer has but for labels: {allowed}; got {name!r}")
        _, given = self._columns.taken(columns, len(places), f"there are {len(places)} slots")
        self._columns.reserve(given, self._columns.leaves)
        self._columns.write(places, given, stored=False)

    # Look ----------------------------------------------------------------------------------------------------------

    def at(self, slots: Tensor | ArrayLike) -> Replay:
        """The stored examples of these slots. This is no draw: nothing moves, changes or is recorded."""
        places = as_slots(slots, 0, len(self))
        return self._read(places, self.memory._index.labels.take(places))

    def batches(self, n: int) -> Iterator[Replay]:
        """All that is stored, n at a time by slot. This is no draw: nothing moves, changes or is recorded."""
        first, size = 0, as_int(n, "the size of a batch", 1)
        while first < len(self):  # it may grow or shrink meanwhile
            yield self.at(np.arange(first, min(first + size, len(self))))
            first += size

    def __iter__(self) -> Iterator[Example]:
        """All that is stored, one after the other by slot, each as it was given."""
        slot = 0
        while slot < len(self):
            places = np.arange(slot, min(slot + 64, len(self)))
            keys = self._read_keys(self.memory._index.labels.take(places))
            for place, columns in zip(places.tolist(), self._columns.rows(places), strict=True):
                yield Example(columns, keys[place - slot], place)
            slot += 64

    def tape(self) -> Tape:
        """All that has happened so far as a tape; an example's id says that it was the id-th to arrive.

        A step begins with its draws and takes in all that is stored before the next draw. The labels on the tape of a
        buffer that goes by keys are their numbers: `buffer.keys[number]` is the key.
        """
        return self._recorded().tape()

    def audit(self) -> Audit:
        """Measure what has happened so far: gaps and other waits, bounds kept or broken, co-occurrence, exposure."""
        return self._recorded().audit()

    def _recorded(self) -> RecordedMemory:
        if not isinstance(self.memory, RecordedMemory):
            raise ValueError("this buffer was made with record=False, so it has no tape and no audit")
        return self.memory

    @property
    def capacity(self) -> int:
        """How many examples there is room for."""
        return self.memory.capacity

    @property
    def keys(self) -> Keys | None:
        """The keys and their numbers, by which memory, tape and audit go; None where the buffer goes by labels."""
        return self._keys

    @property
    def classes(self) -> Ids | list[Hashable]:
        """The classes with at least one stored example, sorted; of a buffer that goes by keys, these, in a list."""
        return self.memory.classes if self._keys is None else self._keys.named(self.memory.classes)

    def counts(self) -> dict[Any, int]:
        """How many examples of each class, or key, are stored."""
        counts = self.memory.counts()
        return counts if self._keys is None else dict(zip(self._keys.named(counts), counts.values(), strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of all columns on the device or the disk, filled or not."""
        return self._columns.nbytes

    def __len__(self) -> int:
        return len(self.memory)

    def __repr__(self) -> str:
        about = repr(self.memory).partition("(")[2][:-1].replace(", seed=", f", device={str(self.device)!r}, seed=")
        what = "classes" if self._keys is None else "keys"
        return f"ReplayBuffer({about}: {len(self)} stored of {len(self.classes)} {what})"

    # Change --------------------------------------------------------------------------------------------------------

    def remove(self, *, keys: Iterable[Hashable] | None = None, slots: Tensor | ArrayLike | None = None) -> int:
        """Take stored examples out: all of these keys (or labels), or those of these slots; how many there were.

        Their rows are overwritten, on the device or in the folder, and the last examples move to their slots, so that
        slots are filled from 0 again. `keys` also takes the keys themselves out of `buffer.keys`: their numbers, which
        the tape keeps, belong to nobody then. States and tapes that were saved before are not reached.
        """
        if (keys is None) == (slots is None):
            raise TypeError("remove takes keys= or slots=, one of them")
        self._columns.room.check_ours()
        before = len(self)
        if slots is not None:
            moves = self.memory.remove(slots=as_slots(slots, 0, before))
        else:
            labels = self._labels_of(keys, "keys")
            moves = self.memory.remove(labels=labels)
            if self._keys is not None:
                self._keys.drop(labels)
        self._columns.move(moves.removed, moves.source, moves.target, len(self), before)
        return before - len(self)

    def clear(self) -> None:
        """Take out all that is stored, and all keys; the columns, and their room, stay."""
        self._columns.room.check_ours()
        before = len(self)
        self.memory.clear()
        if self._keys is not None:
            self._keys.drop(range(self._keys.given))
        self._columns.move(np.arange(before), _NOBODY, _NOBODY, 0, before)

    def resize(self, capacity: int) -> int:
        """Have room for so many examples; how many had to leave. The room is made anew, so that both fit at once."""
        self._columns.room.check_ours()
        before, wanted = len(self), as_int(capacity, "capacity", 1)
        if wanted > self.capacity:  # room first: should there be none left, nothing has been decided yet
            self._columns.resize(wanted)
        try:
            moves = self.memory.resize(wanted)
            self._columns.move(moves.removed, moves.source, moves.target, len(self), before)
        finally:
            if self._columns.capacity != self.capacity:
                self._columns.resize(self.capacity)
        return before - len(self)

    def to(self, device: str | torch.device) -> ReplayBuffer:
        """Move to a device, and return the buffer. What is on disk stays there: draws then come to the device."""
        self._columns.to(DeviceRoom(there := as_device(device)), there)
        self.device = there
        return self

    def close(self) -> None:
        """Let another buffer have the folder; nothing may be done with this one then."""
        if isinstance(self._columns.room, DiskRoom):
            self._columns.room.close()

    # Stop and go on ------------------------------------------------------------------------------------------------

    def state_dict(self, *, columns: bool | None = None) -> dict[str, Any]:
        """Everything: plain numbers, strings, lists, dicts and tensors, none shared with the buffer.

        So `torch.save` writes it, and plain `torch.load` reads it; but where keys are other things than strings,
        numbers and tuples of these, only with `weights_only=False`.

        The state of a buffer on disk has no rows: they are in its folder, which must be there when it is loaded.
        `columns=True` has them in the state.
        """
        return whole_state(self.memory, self._keys, self._columns, columns)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the buffer that gave this state, seed included; on any fault, an error and no change.

        The state may come from another device: its tensors are moved to this one. Where a folder has had other
        examples written to it since the state was made, those they replaced are lost: a warning says how many.
        """
        self._columns.room.check_ours()
        loaded = read_state(state, self.memory, self._columns)
        loaded.settle(self._columns)
        self.memory, self._keys = loaded.memory, loaded.keys
        if len(loaded.lost):
            kept = len(self) - self.remove(slots=loaded.lost)
            warnings.warn(
                f"{len(loaded.lost)} of {len(loaded.lost) + kept} examples of this state are gone: their slots in the "
                "folder were written to since",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        held = self._columns
        if isinstance(held.room, DiskRoom):
            raise TypeError(
                "a buffer on disk cannot be copied or pickled, as its folder belongs to one buffer: load "
                "state_dict(columns=True) into another"
            )
        rows = {path: as_bytes(column.saved(len(self))) for path, column in held.leaves.items()}
        kept = {"memory": self.memory, "device": str(self.device), "keys": self._keys, "columns": rows}
        kept |= {"nests": held.nests, "collation": held.collation, "transform": self.transform}
        return {**kept, "worker_draws": self.worker_draws}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.memory, self.device, self._keys = saved["memory"], as_device(saved["device"]), saved["keys"]
        self.worker_draws, self.transform, self._alone = saved["worker_draws"], saved["transform"], set()
        self._columns = Columns(self.capacity, DeviceRoom(self.device), self.device, saved["collation"])
        rows = {path: from_bytes(content) for path, content in saved["columns"].items()}
        put_back(self._columns, saved["nests"], rows, len(self))

    def __copy__(self) -> ReplayBuffer:
        return copy.deepcopy(self)  # a buffer that shared its memory with another would be neither

    def _by_key(self, key: Any) -> bool:
        """Whether this batch goes by keys, as the first one did."""
        if self._columns.leaves and (key is not None) != (self._keys is not None):
            by, cure = ("labels", "give no key=") if self._keys is None else ("keys", "give key=")
            raise ValueError(f"this buffer goes by {by} since its first batch: {cure}")
        return key is not None

    def _limits(self, exclude: Any, only: Any) -> dict[str, Any]:
        given = {"exclude": exclude, "only": only}
        return {name: self._labels_of(keys, name) for name, keys in given.items() if keys is not None}

    def _labels_of(self, keys: Any, what: str) -> list[int]:
        return numbers_of(keys, self._keys, what, bool(self._columns.leaves))

    def _read(self, slots: Ids, labels: Ids) -> Replay:
        columns, lengths = self._columns.read(slots)
        return Replay(torch.from_numpy(slots), columns, lengths, self._read_keys(labels))

    def _read_keys(self, labels: Ids) -> Any:
        return labels if self._keys is None else self._keys.named(labels.tolist())
