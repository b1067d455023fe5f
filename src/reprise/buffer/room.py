"""Where tables are kept, and how what the host decides comes to them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


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
