"""A column whose rows all have one shape: one table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reprise.buffer.arguments import Ids, kind
from reprise.buffer.room import Plan, Room, indexed, moved


class Dense:
    """One row per slot."""

    ragged = False

    def __init__(self, name: str, room: Room, table: Tensor) -> None:
        self.name, self.room, self.table = name, room, table

    @classmethod
    def made(cls, name: str, room: Room, capacity: int, like: Tensor) -> Dense:
        """A column for rows like these."""
        return cls(name, room, room.table(name, capacity, tuple(like.shape[1:]), like.dtype))

    @property
    def kind(self) -> str:
        """Shape and dtype of one example for a sentence."""
        return kind(self.table)

    def fits(self, value: Any) -> bool:
        return bool(value.shape[1:] == self.table.shape[1:] and value.dtype == self.table.dtype)

    def reserve(self, value: Tensor) -> None:
        """Room for every row was made at once."""

    def write(self, plan: Plan, value: Tensor) -> None:
        if value.device != self.table.device:  # from a GPU to a disk
            value = value.to(self.table.device)
        self.put(plan.where, value.index_select(0, plan.taken))

    def put(self, where: Tensor, rows: Tensor) -> None:
        indexed(self.table).index_copy_(0, where, indexed(rows))

    def read(self, where: Tensor, slots: Ids, device: torch.device) -> Tensor:
        rows = self.table.index_select(0, where)
        return rows if rows.device == device else moved(rows, device)

    def move(self, source: Ids, target: Ids, removed: Ids, size: int, before: int) -> None:
        """Copy rows from slots to slots; what lies from `size` up to `before` is then overwritten with zeros."""
        if len(source):
            read, written = moved(torch.stack([*map(torch.from_numpy, (source, target))]), self.table.device)
            self.put(written, self.table.index_select(0, read))
        self.table[size:before].zero_()

    def resize(self, capacity: int) -> None:
        self.table = self.room.resized(self.name, self.table, capacity)

    @property
    def nbytes(self) -> int:
        return self.table.numel() * self.table.element_size()

    def to(self, room: Room) -> Dense:
        """The same column elsewhere."""
        other = Dense.made(self.name, room, len(self.table), self.table)
        other.table.copy_(self.table)
        return other

    def saved(self, size: int) -> Tensor:
        return self.table[:size].clone()

    def restore(self, saved: Tensor) -> None:
        self.table[: len(saved)] = saved.to(self.table.device)
