"""Where tables are kept, and how what the host decides comes to them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]
_PLAIN = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_PLAIN |= {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
_INDEXED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_INDEXED |= {getattr(torch, f"float8_{name}"): torch.uint8 for name in _FLOAT8 if hasattr(torch, f"float8_{name}")}


class Room(Protocol):
    """Gives tables of rows. `device` is where they are."""

    device: torch.device

    def table(self, name: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A table of this name."""

    def resized(self, name: str, table: Tensor, rows: int) -> Tensor:
        """The same table with so many rows; those that it has now stay, as far as there is room."""

    def check_ours(self) -> None:
        """Raise an error where this process may not change the tables."""


class DeviceRoom:
    """Tables in the memory of a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def table(self, name: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        with torch.inference_mode(False):  # a table made inside inference mode could not be written to outside
            return torch.empty((rows, *shape), dtype=dtype, device=self.device)

    def resized(self, name: str, table: Tensor, rows: int) -> Tensor:
        new = self.table(name, rows, tuple(table.shape[1:]), table.dtype)
        kept = min(rows, len(table))
        with torch.no_grad():
            new[:kept] = table[:kept]
            new[kept:].zero_()
        return new

    def check_ours(self) -> None:
        """A copy of this process has tables of its own."""


def moved(rows: Tensor, device: torch.device) -> Tensor:
    """Rows on a device. Nobody waits for a copy to a GPU: it goes from pinned memory.

    Torch's allocator of pinned memory gives a piece to nobody else before the copy from it is done.
    """
    if device.type == "cuda" and rows.device.type == "cpu" and rows.numel():
        return rows.pin_memory().to(device, non_blocking=True)
    return rows if rows.device == device else rows.to(device)


def indexed(rows: Tensor) -> Tensor:
    """The same bytes in a dtype that torch can write by index: it cannot for some."""
    return rows.view(_INDEXED[rows.dtype]) if rows.dtype in _INDEXED else rows


def check_dtype(name: str, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse a dtype that torch cannot index there, before anything is decided."""
    if dtype in _PLAIN:
        return
    try:
        one, place = torch.zeros(1, 1, dtype=dtype, device=device), torch.zeros(1, dtype=torch.int64, device=device)
        indexed(one).index_copy_(0, place, indexed(one.index_select(0, place)))
    except RuntimeError:
        told = str(dtype).removeprefix("torch.")
        raise TypeError(
            f"{name} is of {told}, which torch cannot index on {str(device)!r}: give another dtype"
        ) from None


class Plan:
    """Which rows of a batch go to which slots, decided on the host and sent to the tables in one transfer.

    Of rows with the same slot only the last is written: a device keeps no order.
    """

    def __init__(self, slots: Ids, rows: Ids, room: Room, labels: Ids | None = None) -> None:
        self.slots, self.rows = slots, rows
        sent: list[Any] = [slots, rows] if labels is None else [slots, rows, labels[rows]]
        here = moved(torch.from_numpy(np.stack(sent)), room.device)
        self.where, self.taken = here[0], here[1]
        self.labels = None if labels is None else here[2]
