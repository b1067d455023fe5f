"""A column whose rows differ in shape: pages of one table, and for each slot the pages that hold its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reprise.buffer.arguments import Ids
from reprise.buffer.room import Plan, Room, indexed, moved

Collate = Callable[[list[Tensor]], Any]
_NONE = np.empty(0, np.int64)


class pad:
    """Collate rows of different shapes: each is filled up at its ends with a value, to the longest.

    >>> pad(-1)([torch.tensor([1, 2, 3]), torch.tensor([4])])
    tensor([[ 1,  2,  3],
            [ 4, -1, -1]])
    """

    def __init__(self, value: float = 0) -> None:
        self.value = value

    def __call__(self, rows: list[Tensor]) -> Tensor:
        shape = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
        padded = rows[0].new_full((len(rows), *shape), self.value)
        for place, row in zip(padded, rows, strict=True):
            place[tuple(slice(size) for size in row.shape)] = row
        return padded

    def __repr__(self) -> str:
        return f"pad({self.value!r})"


class Ragged:
    """Rows of any shape with one number of dimensions and one dtype.

    A row takes whole pages. A page is about an eighth of a row of the first batch, so that half a page, which is
    what a row leaves empty on average, is little. When no page is free, the table grows by half.
    """

    ragged = True

    def __init__(self, name: str, room: Room, table: Tensor, dims: int, capacity: int) -> None:
        self.name, self.room, self.table = name, room, table
        self.dims, self.dtype, self.page = dims, table.dtype, table.shape[1]
        self.free: list[int] = list(range(len(table)))
        self.pages: list[Ids] = [_NONE] * capacity  # of each slot
        self.shapes = np.zeros((capacity, dims), np.int64)

    @classmethod
    def made(cls, name: str, room: Room, capacity: int, like: Sequence[Tensor]) -> Ragged:
        """A column for rows like these."""
        page = max(sum(row.numel() for row in like) // len(like) // 8, 8)
        return cls(name, room, room.table(name, 0, (page,), like[0].dtype), like[0].dim(), capacity)

    @property
    def kind(self) -> str:
        """Shape and dtype of one example for a sentence."""
        return f"{self.dims}-dimensional, of any size, of {str(self.dtype).removeprefix('torch.')}"

    def fits(self, value: Any) -> bool:
        return {(row.dim(), row.dtype) for row in value} <= {(self.dims, self.dtype)}

    def reserve(self, value: Sequence[Tensor]) -> None:
        """Have free pages for all of these rows."""
        self._reserve(sum(-(-row.numel() // self.page) for row in value))

    def _reserve(self, pages: int) -> None:
        lacking, held = pages - len(self.free), len(self.table)
        if lacking > 0:
            rows = held + max(lacking, held // 2)
            self.table = self.room.resized(self.name, self.table, rows)
            self.free += range(rows - 1, held - 1, -1)  # the last is given first

    def write(self, plan: Plan, value: Sequence[Tensor]) -> None:
        old = [page for slot in plan.slots.tolist() for page in self.pages[slot].tolist()]
        self._fill(plan.slots, [value[row] for row in plan.rows.tolist()])
        self._wipe(old)

    def _fill(self, slots: Ids, rows: Sequence[Tensor]) -> None:
        spare = torch.zeros(self.page, dtype=self.dtype, device=self.table.device)
        parts: list[Tensor] = []
        taken: list[int] = []
        for slot, row in zip(slots.tolist(), rows, strict=True):
            count = -(-row.numel() // self.page)
            given = [self.free.pop() for _ in range(count)]
            taken += given
            parts += [row.to(self.table.device).reshape(-1), spare[: count * self.page - row.numel()]]
            self.pages[slot], self.shapes[slot] = np.array(given, np.int64), row.shape
        if taken:
            where = moved(torch.tensor(taken), self.table.device)
            indexed(self.table).index_copy_(0, where, indexed(torch.cat(parts).view(-1, self.page)))

    def _wipe(self, pages: list[int]) -> None:
        """Overwrite pages with zeros; they are free then."""
        if pages:
            indexed(self.table).index_fill_(0, moved(torch.tensor(pages), self.table.device), 0)
            self.free += pages

    def read(self, where: Tensor, slots: Ids, device: torch.device) -> list[Tensor]:
        """The row of each slot; all are parts of one tensor."""
        chosen = [self.pages[slot] for slot in slots.tolist()]
        ids = np.concatenate([_NONE, *chosen])
        read = self.table.index_select(0, moved(torch.from_numpy(ids), self.table.device))
        parts = torch.split(moved(read, device), [len(pages) for pages in chosen])
        shapes = self.shapes[slots].tolist()
        return [
            part.reshape(-1)[: int(np.prod(shape, dtype=np.int64))].view(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def move(self, source: Ids, target: Ids, removed: Ids, size: int, before: int) -> None:
        """Rows go from slots to slots by their pages alone; those of removed rows are overwritten with zeros."""
        gone = [page for slot in removed.tolist() for page in self.pages[slot].tolist()]
        pages, shapes = [self.pages[slot] for slot in source.tolist()], self.shapes[source].copy()
        for slot, held in zip(target.tolist(), pages, strict=True):
            self.pages[slot] = held
        self.shapes[target] = shapes
        self.pages[size:before] = [_NONE] * (before - size)
        self.shapes[size:before] = 0
        self._wipe(gone)

    def resize(self, capacity: int) -> None:
        self.pages = (self.pages + [_NONE] * capacity)[:capacity]
        shapes = np.zeros((capacity, self.dims), np.int64)
        kept = min(capacity, len(self.shapes))
        shapes[:kept] = self.shapes[:kept]
        self.shapes = shapes

    @property
    def nbytes(self) -> int:
        return self.table.numel() * self.table.element_size()

    def to(self, room: Room) -> Ragged:
        """The same column elsewhere."""
        table = room.table(self.name, len(self.table), (self.page,), self.dtype)
        table.copy_(self.table)
        other = Ragged(self.name, room, table, self.dims, len(self.pages))
        other.free, other.pages, other.shapes = self.free, self.pages, self.shapes
        return other

    def saved(self, size: int) -> dict[str, Any]:
        rows = self.read(torch.empty(0), np.arange(size), self.table.device)
        flat = torch.cat([self.table.new_empty(0), *(row.reshape(-1) for row in rows)])
        return {"flat": flat, "shapes": torch.from_numpy(self.shapes[:size].copy()), "page": self.page}

    def restore(self, saved: Mapping[str, Any]) -> None:
        shapes = [tuple(shape) for shape in saved["shapes"].tolist()]
        parts = saved["flat"].to(self.table.device).split([int(np.prod(shape, dtype=np.int64)) for shape in shapes])
        rows = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        self._wipe([page for pages in self.pages for page in pages.tolist()])
        self.pages = [_NONE] * len(self.pages)
        self.shapes[:] = 0
        self.reserve(rows)
        self._fill(np.arange(len(rows)), rows)

    def places(self) -> dict[str, Tensor]:
        """What a state must know to find the rows in a folder again."""
        counts = torch.tensor([len(pages) for pages in self.pages])
        flat = torch.from_numpy(np.concatenate([_NONE, *self.pages]))
        return {"pages": flat, "counts": counts, "shapes": torch.from_numpy(self.shapes.copy())}

    def find(self, places: Mapping[str, Tensor]) -> None:
        """Know the rows of a folder by what a state said of them."""
        counts = places["counts"].tolist()
        flat = places["pages"].cpu().numpy()
        used = set(flat.tolist())
        if len(used) != len(flat) or (used and not 0 <= min(used) <= max(used) < len(self.table)):
            raise ValueError(f"its rows of {self.name} are not in this folder")
        self.pages = np.split(flat, np.cumsum(counts)[:-1])
        self.shapes = places["shapes"].cpu().numpy().copy()
        self.free = [page for page in range(len(self.table) - 1, -1, -1) if page not in used]
