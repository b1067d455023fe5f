"""The state of a buffer: what is written, how it is checked, and how it comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reprise.buffer.arguments import Ids, as_tensor
from reprise.buffer.columns import TAKEN, Columns, Leaf
from reprise.buffer.dense import Dense
from reprise.buffer.disk import DiskRoom, Tokens
from reprise.buffer.nesting import LEAF, Nest
from reprise.buffer.ragged import Ragged
from reprise.buffer.state import packed, unpacked
from reprise.memory import Memory
from reprise.memory.keys import Keys
from reprise.recorded import RecordedMemory


def whole_state(memory: Memory, keys: Keys | None, columns: Columns, rows: bool | None) -> dict[str, Any]:
    """The state of a buffer: with the rows of its columns, or without, where a folder has them."""
    disk = isinstance(columns.room, DiskRoom)
    if rows is False and not disk:
        raise ValueError("a buffer that is not on disk has its columns nowhere else: give it path=, or no columns=")
    saved = Memory.state_dict(memory)
    record = memory.record if isinstance(memory, RecordedMemory) else None
    return {
        "version": 2,
        "memory": {**saved, "index": packed(saved["index"])},
        "record": None if record is None else packed(record.state_dict()),
        "keys": None if keys is None else keys.state_dict(),
        **_saved(columns, len(memory), rows if rows is not None else not disk),
    }


def _saved(columns: Columns, size: int, whole: bool) -> dict[str, Any]:
    """The parts of a state that tell of columns: with their rows, or where the folder has them."""
    parts: dict[str, Any] = {"nests": {name: nest.plain() for name, nest in columns.nests.items()}}
    if whole:
        rows = {path: column.saved(size) for path, column in columns.leaves.items()}
        return {**parts, "columns": rows, "folder": None}
    tokens = torch.empty(0, dtype=torch.int64) if columns.tokens is None else columns.tokens.table[:size].clone()
    places = {path: column.places() for path, column in columns.leaves.items() if isinstance(column, Ragged)}
    return {**parts, "columns": None, "folder": {"tokens": tokens, "places": places}}


@dataclass
class Loaded:
    """What a state holds, checked; `lost` are slots whose rows are no longer in the folder."""

    memory: Memory
    keys: Keys | None
    nests: dict[str, Nest]
    rows: dict[str, Any] | None
    leaves: dict[str, Leaf]
    tokens: Tokens | None
    lost: Ids

    def settle(self, columns: Columns) -> None:
        """Have the columns hold it."""
        if isinstance(columns.room, DiskRoom):
            columns.room.old = False  # whatever else is in it belongs to nobody
        if self.rows is not None:
            if columns.capacity != self.memory.capacity:
                columns.resize(self.memory.capacity)
            put_back(columns, self.nests, self.rows, len(self.memory))
        else:
            columns.nests, columns.leaves, columns.tokens = self.nests, self.leaves, self.tokens


def read_state(state: Mapping[str, Any], mine: Memory, columns: Columns) -> Loaded:
    """Read a state for a buffer of such a memory and such columns, and change nothing."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise ValueError(f"this buffer state cannot be loaded: it is of something else, {state!r:.60}")
    try:
        memory = _memory(state, mine)
        nests = _nests(state)
        keys = None if state.get("keys") is None else Keys.from_state(state["keys"])
        if state["columns"] is None:
            if memory.capacity != columns.capacity:
                raise ValueError(f"it is of {memory.capacity} slots, and the folder has {columns.capacity}")
            found = _opened(columns, nests, state["folder"], len(memory))
            return Loaded(memory, keys, nests, None, *found)
        rows = _rows(state, nests, len(memory), columns.room.device)
        _check_labels(rows, memory.labels, keys)
        return Loaded(memory, keys, nests, rows, {}, None, np.empty(0, np.int64))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        detail = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"this buffer state cannot be loaded: {detail}") from error


def _memory(state: Mapping[str, Any], mine: Memory) -> Memory:
    recorded = isinstance(mine, RecordedMemory)
    if state["version"] not in (1, 2):
        raise ValueError(f"its version is {state['version']!r}, known are 1 and 2")
    if (state["record"] is None) == recorded:
        kept = {True: "no tape", False: "a tape"}
        raise ValueError(f"it has {kept[recorded]}, this buffer {kept[not recorded]}")
    memory = type(mine)(mine.capacity, mine.storage, mine.retrieval, mine.seed, mine.draws)
    memory._made = mine._made  # its first capacity may be the state's, too
    whole = {**state["memory"], "index": unpacked(state["memory"]["index"])}
    memory.load_state_dict({**whole, "record": unpacked(state["record"])} if recorded else whole)
    return memory


def _nests(state: Mapping[str, Any]) -> dict[str, Nest]:
    """How the columns of a state stand together; those of version 1 are one tensor each."""
    if state["version"] == 1:
        nests = dict.fromkeys(map(str, state["columns"]), LEAF)
    else:
        nests = {str(name): Nest.from_plain(saved) for name, saved in state["nests"].items()}
    for name in nests:
        if name in TAKEN:
            raise ValueError(f"it has a column {name!r}, and this name is taken")
    return nests


def _rows(state: Mapping[str, Any], nests: Mapping[str, Nest], size: int, device: torch.device) -> dict[str, Any]:
    """The rows of a state on a device, if there are as many as the memory holds."""
    saved: dict[str, Any] = {}
    paths = [path for name, nest in nests.items() for path in nest.paths(name)]
    wrong: bool = set(paths) != set(map(str, state["columns"])) or bool(size and "x" not in nests)
    for path in [] if wrong else paths:
        given = state["columns"][path]
        if isinstance(given, Mapping):
            flat, shapes = as_tensor(path, given["flat"], 0, device), as_tensor(path, given["shapes"], 0, device).cpu()
            counts = np.prod(shapes.numpy(), axis=1, dtype=np.int64) if shapes.dim() == 2 else np.empty(0)
            wrong = (
                wrong or len(shapes) != size or flat.dim() != 1 or counts.sum() != len(flat) or bool((shapes < 0).any())
            )
            saved[path] = {"flat": flat, "shapes": shapes, "page": max(int(given["page"]), 1)}
        else:
            saved[path] = as_tensor(path, given, 0, device)
            wrong = wrong or not saved[path].dim() or len(saved[path]) != size
    if wrong:
        raise ValueError(f"its columns do not hold the {size} examples of its memory")
    return saved


def _check_labels(rows: Mapping[str, Any], labels: Ids, keys: Keys | None) -> None:
    """Refuse a state whose labels, or keys, are not those of its memory."""
    if keys is not None:
        if any(label not in keys.numbers for label in set(labels.tolist())):
            raise ValueError("its memory holds a label that none of its keys has")
    elif rows and (rows["y"].dtype != torch.int64 or rows["y"].tolist() != labels.tolist()):
        raise ValueError("its labels are not those of its memory")


@torch.no_grad()
def put_back(columns: Columns, nests: Mapping[str, Nest], saved: Mapping[str, Any], size: int) -> None:
    """Hold these rows in the first slots, in the tables that are there if they fit."""
    if isinstance(columns.room, DiskRoom):  # no older state may take the new rows for its own
        columns.tokens = Tokens(columns.room, columns.capacity)
    leaves: dict[str, Leaf] = {}
    for path, rows in saved.items():
        held = columns.leaves.get(path)
        if isinstance(rows, Tensor):
            fits = isinstance(held, Dense) and held.fits(rows)
            leaf: Leaf = held if fits and held else Dense.made(path, columns.room, columns.capacity, rows)
        else:
            dims, flat, page = rows["shapes"].shape[1], rows["flat"], rows["page"]
            if isinstance(held, Ragged) and (held.dims, held.dtype, held.page) == (dims, flat.dtype, page):
                leaf = held
            else:
                leaf = Ragged(
                    path, columns.room, columns.room.table(path, 0, (page,), flat.dtype), dims, columns.capacity
                )
        leaf.restore(rows)
        if leaf is held and isinstance(leaf, Dense):
            leaf.table[size:].zero_()  # what it held before
        leaves[path] = leaf
    if leaves:
        columns.settle(nests, leaves)
    else:
        columns.nests, columns.leaves = {}, {}
    if columns.tokens is not None:
        columns.tokens.give(torch.arange(size))


def _opened(
    columns: Columns, nests: Mapping[str, Nest], folder: Mapping[str, Any], size: int
) -> tuple[dict[str, Leaf], Tokens | None, Ids]:
    """The columns of a folder, and the slots that hold another example, or none, since the state was made."""
    room, capacity = columns.room, columns.capacity
    if not isinstance(room, DiskRoom):
        raise ValueError("its examples are in a folder: give the buffer path=, or save state_dict(columns=True)")
    if not nests:
        return {}, None, np.empty(0, np.int64)
    leaves: dict[str, Leaf] = {}
    for path in (path for name, nest in nests.items() for path in nest.paths(name)):
        places, table = folder["places"].get(path), room.opened(path)
        if places is None:
            leaves[path] = Dense(path, room, table)
        else:
            leaves[path] = Ragged(path, room, table, places["shapes"].shape[1], capacity)
            leaves[path].find(places)  # type: ignore[union-attr]
    tokens = Tokens(room, capacity, old=True)
    if any(len(leaf.table) != capacity for leaf in leaves.values() if isinstance(leaf, Dense)):
        raise ValueError(f"the folder {str(room.path)!r} has tables that are not of {capacity} rows")
    if len(folder["tokens"]) != size:
        raise ValueError(f"it knows {len(folder['tokens'])} rows of its folder, and its memory holds {size} examples")
    known = folder["tokens"].to("cpu")
    lost = ((tokens.table[:size] != known) | (known == 0)).numpy()  # 0: it was being written
    return leaves, tokens, np.flatnonzero(lost)
