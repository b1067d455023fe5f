"""All that a buffer holds of its examples: columns of any nesting, each part in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from reprise.buffer.arguments import Ids, as_rows, as_tensor, differ, hint_of_rows, kind
from reprise.buffer.dense import Dense
from reprise.buffer.disk import DiskRoom, Tokens
from reprise.buffer.nesting import Nest, apart
from reprise.buffer.ragged import Collate, Ragged, pad
from reprise.buffer.room import Plan, Room, check_dtype, moved

TAKEN = ("slots", "slot", "key")
Leaf = Dense | Ragged
Leaves = dict[str, Any]  # by name: a tensor, or for a ragged column a list of rows


class Collation:
    """Which function makes a batch of rows of different shapes, by column."""

    def __init__(self, given: Collate | Mapping[str, Collate] | None) -> None:
        named = given if isinstance(given, Mapping) else {}
        for function in named.values() if named else [given] if given is not None else []:
            if not callable(function):
                raise TypeError(f"collate must be a function of a list of rows, or a dict of them, got {function!r}")
        self.named, self.other = dict(named), pad() if given is None or isinstance(given, Mapping) else given

    def find(self, path: str) -> Collate | None:
        """The function that was named for this part: by its whole name, by its own key, or by its column's."""
        top, _, rest = path.partition("[")
        own = rest.rpartition("[")[2].rstrip("]").strip("'\"")
        return next((self.named[name] for name in (path, own, top) if name in self.named), None)

    def check(self, paths: list[str]) -> None:
        """Refuse names that no part has."""
        for name in self.named:
            alone = Collation({name: self.named[name]})
            if not any(alone.find(path) for path in paths):
                raise ValueError(f"collate names {name!r}, and the columns of this batch are {', '.join(paths)}")

    def __call__(self, path: str, rows: list[Tensor]) -> Any:
        return (self.find(path) or self.other)(rows)


class Columns:
    """The tables of a buffer. The first batch decides what there is; later ones must fit."""

    def __init__(self, capacity: int, room: Room, device: torch.device, collation: Collation) -> None:
        self.capacity, self.room, self.device, self.collation = capacity, room, device, collation
        self.nests: dict[str, Nest] = {}
        self.leaves: dict[str, Leaf] = {}
        self.tokens: Tokens | None = None
        self._last = np.zeros(capacity + 1, np.int64)  # the last place stands for slot −1

    # What is given -------------------------------------------------------------------------------------------------

    def taken(self, given: Mapping[str, Any], count: int, why: str) -> tuple[dict[str, Nest], Leaves]:
        """Columns as leaves of `count` rows that fit what is held, and how they stand together."""
        nests: dict[str, Nest] = {}
        leaves: Leaves = {}
        for name, value in given.items():
            if name in TAKEN or name.startswith("_") or "[" in name:
                raise ValueError(
                    f"a column cannot be named {name!r}: {', '.join(map(repr, TAKEN))}, and names with a leading _ or "
                    "a bracket are taken"
                )
            known = self.nests.get(name)
            nest, parts = apart(name, value, count, known, self.collation.find)
            if known is not None and nest != known:
                raise ValueError(f"{name} is {known} in this buffer since the first batch, got {nest}")
            if not parts and name != "y":
                raise TypeError(f"{name} must hold a tensor, got {nest}")
            nests[name] = nest
            for path, leaf in parts.items():
                leaves[path] = self._leaf(path, leaf, count, why)
        return nests, leaves

    def _leaf(self, name: str, given: Any, count: int, why: str) -> Any:
        held = self.leaves.get(name)
        if self.collation.find(name) or differ(given) if held is None else held.ragged:
            return self._rows(name, given, count, why)
        value = as_tensor(name, given, count, self.room.device)
        self._check_device(name, value)
        if not value.dim() or len(value) != count:
            hint = "; a tuple holds columns, torch.stack makes one of rows" if name.endswith("]") else ""
            raise ValueError(f"{name} must have one row per example, got shape {tuple(value.shape)} where {why}{hint}")
        if held is not None and not held.fits(value):
            alike = value.dtype == held.table.dtype and value.dim() == held.table.dim()
            hint = hint_of_rows(name) + ", given from the first batch on" if alike else ""
            raise ValueError(
                f"{name} of an example is {held.kind} in this buffer since the first batch, got {kind(value)}{hint}"
            )
        return value

    def _rows(self, name: str, given: Any, count: int, why: str) -> list[Tensor]:
        held = self.leaves.get(name)
        rows = as_rows(name, given, self.room.device, None if held is None else held.table.dtype)
        if len(rows) != count:
            raise ValueError(f"{name} must have one row per example, got {len(rows)} where {why}")
        kinds = {(row.dim(), row.dtype, row.device): row for row in reversed(rows)}
        for row in kinds.values():
            self._check_device(name, row)
            if (row.dim(), row.dtype) != (rows[0].dim(), rows[0].dtype):
                one, other = kind(rows[0][None]), kind(row[None])
                raise ValueError(f"{name} must have rows of one dtype and number of dimensions, got {one} and {other}")
        if held is not None and not held.fits(rows):
            got = kind(rows[0][None])
            raise ValueError(f"{name} of an example is {held.kind} in this buffer since the first batch, got {got}")
        return rows

    def _check_device(self, name: str, value: Tensor) -> None:
        if value.device not in (self.room.device, self.device):
            here = str(self.device)
            raise ValueError(f"{name} is on {value.device} and this buffer on {here}: give {name}.to({here!r})")

    # What is held --------------------------------------------------------------------------------------------------

    def made(self, leaves: Leaves) -> dict[str, Leaf]:
        """Tables for columns like these."""
        if isinstance(self.room, DiskRoom) and self.room.old and self.tokens is None:
            raise ValueError(
                f"the folder {str(self.room.path)!r} holds the examples of an earlier buffer: load its state first, or "
                "give an empty folder"
            )
        self.collation.check(list(leaves))
        for path, value in leaves.items():
            check_dtype(path, value[0].dtype if isinstance(value, list) else value.dtype, self.room.device)
        return {
            path: (Ragged if isinstance(value, list) else Dense).made(path, self.room, self.capacity, value)
            for path, value in leaves.items()
        }

    @staticmethod
    def reserve(given: Leaves, leaves: Mapping[str, Leaf]) -> None:
        """Have room in these tables for what is given."""
        for path, rows in given.items():
            if path in leaves:
                leaves[path].reserve(rows)

    def settle(self, nests: Mapping[str, Nest], leaves: dict[str, Leaf]) -> None:
        """Have these tables from now on."""
        if leaves is not self.leaves and isinstance(self.room, DiskRoom):
            self.tokens = self.tokens or Tokens(self.room, self.capacity)
            self.room.keep([*leaves, "_token"])
        self.nests, self.leaves = dict(nests), leaves

    @torch.no_grad()
    def write(self, slots: Ids, given: Leaves, labels: Ids | None = None, stored: bool = True) -> None:
        """Write rows to their slots; labels to the column y. `stored` says whether the examples are new."""
        order = np.arange(len(slots))
        self._last[slots] = order  # where a slot comes twice, NumPy keeps the last
        rows = order[(self._last[slots] == order) & (slots >= 0)]
        if not len(rows):
            return
        plan = Plan(slots[rows], rows, self.room, labels)
        tokens = None if self.tokens is None else self.tokens.take(plan.where)
        for path, value in given.items():
            self.leaves[path].write(plan, value)
        y = self.leaves.get("y")
        if plan.labels is not None and isinstance(y, Dense):
            y.put(plan.where, plan.labels)
        if self.tokens is not None:
            # A row that is rewritten in part is still the same example, unless it now lies in other pages.
            anew = stored or any(self.leaves[path].ragged for path in given)
            self.tokens.give(plan.where, None if anew else tokens)

    def read(self, slots: Ids) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Columns of these slots, put together, and the lengths of what had to be collated."""
        where = self._where(slots)
        lengths: dict[str, Tensor] = {}

        def leaf(path: str) -> Any:
            column = self.leaves[path]
            if isinstance(column, Dense):
                return column.read(where, slots, self.device)
            rows = column.read(where, slots, self.device)
            lengths[path] = torch.from_numpy(column.shapes[slots, 0] if column.dims else np.ones(len(slots), np.int64))
            return self.collation(path, rows) if rows else torch.empty(0, dtype=column.dtype, device=self.device)

        return {
            name: leaf(name) if nest.kind == "leaf" else nest.together(leaf, name) for name, nest in self.nests.items()
        }, lengths

    def rows(self, slots: Ids) -> list[dict[str, Any]]:
        """Columns of these slots, an example at a time and as each was given."""
        where = self._where(slots)
        parts = {path: column.read(where, slots, self.device) for path, column in self.leaves.items()}

        def example(place: int) -> dict[str, Any]:
            return {name: nest.together(lambda path: parts[path][place], name) for name, nest in self.nests.items()}

        return [example(place) for place in range(len(slots))]

    def _where(self, slots: Ids) -> Tensor:
        if isinstance(self.room, DiskRoom):
            self.room.check_open()
        return moved(torch.from_numpy(slots), self.room.device)

    @torch.no_grad()
    def move(self, removed: ArrayLike, source: ArrayLike, target: ArrayLike, size: int, before: int) -> None:
        """Follow a memory's moves; rows that are gone are overwritten, with others or with zeros."""
        removed, source, target = (np.asarray(slots, np.int64) for slots in (removed, source, target))
        if self.tokens is not None:
            held = self.tokens.take(torch.from_numpy(source))  # these rows are overwritten, too
            self.tokens.take(torch.from_numpy(np.concatenate([removed, target])))
        for column in self.leaves.values():
            column.move(source, target, removed, size, before)
        if self.tokens is not None:
            self.tokens.give(torch.from_numpy(target), held)
            self.tokens.table[size:before] = 0

    @torch.no_grad()
    def resize(self, capacity: int) -> None:
        """Have room for so many examples."""
        for column in self.leaves.values():
            column.resize(capacity)
        if isinstance(self.room, DiskRoom):
            self.room.resize(capacity)
        if self.tokens is not None:
            held = len(self.tokens.table)
            self.tokens.table = self.tokens.room.resized("_token", self.tokens.table, capacity)
            self.tokens.table[held:] = 0
        self.capacity, self._last = capacity, np.zeros(capacity + 1, np.int64)

    @torch.no_grad()
    def to(self, room: Room, device: torch.device) -> None:
        """Have the tables elsewhere."""
        if not isinstance(self.room, DiskRoom):
            self.leaves = {path: column.to(room) for path, column in self.leaves.items()}
            self.room = room
        self.device = device

    @property
    def nbytes(self) -> int:
        """Bytes of all tables, filled or not."""
        return sum(column.nbytes for column in self.leaves.values())
