"""What leaves a buffer: rows of whole numbers as tensors for `torch.save`, columns as bytes for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def packed(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state whose rows of whole numbers are tensors: plain `torch.load` refuses arrays and is slow with lists."""
    return {name: _row(value) for name, value in state.items()}


def _row(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if not isinstance(value, list):
        return value
    nested = any(isinstance(one, np.ndarray) for one in value)
    return [_row(one) for one in value] if nested else torch.tensor(value, dtype=torch.int64)


def unpacked(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state that was packed, from whatever device; arrays and lists stay as they are."""
    return {
        name: [_array(one) for one in value] if isinstance(value, list) else _array(value)
        for name, value in state.items()
    }


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def as_bytes(column: Tensor | Mapping[str, Any]) -> Any:
    """A column as bytes.

    Tensors will not do here: torch hands them to another process in shared memory. There they would be gone before it
    looks, or, if they are the buffer's own, one process would write into the other's.
    """
    if isinstance(column, Mapping):
        return {name: as_bytes(part) if isinstance(part, Tensor) else part for name, part in column.items()}
    rows = column.detach().cpu().contiguous()
    return rows.dtype, tuple(rows.shape), rows.reshape(-1).view(torch.uint8).numpy().copy()


def from_bytes(saved: Any) -> Any:
    """The column that gave these bytes, on the CPU."""
    if isinstance(saved, Mapping):
        return {name: from_bytes(part) if isinstance(part, tuple) else part for name, part in saved.items()}
    dtype, shape, content = saved
    rows = torch.empty(shape, dtype=dtype)
    if rows.numel():
        rows.view(-1).view(torch.uint8).copy_(torch.from_numpy(content.copy()))
    return rows
