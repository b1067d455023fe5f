"""Columns of examples: what may be given, and what a draw gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from reprise.core.arguments import as_array

Ids = NDArray[np.int64]


class Replay:
    """What a draw returned: `x`, `y`, `slots` and every further column by its name. Falsy when empty.

    `slots` is on the CPU, as the memory is; all else is on the buffer's device.
    """

    x: Tensor
    y: Tensor
    slots: Tensor

    def __init__(self, slots: Tensor, columns: Mapping[str, Tensor]) -> None:
        self.__dict__.update(columns, slots=slots)

    def __len__(self) -> int:
        return len(self.slots)

    def __getattr__(self, name: str) -> Tensor:  # only for what is not there
        if len(self.__dict__) == 1:
            raise AttributeError(f"nothing was stored when this replay was drawn, so it has no {name!r}")
        raise AttributeError(f"this replay has {', '.join(self.__dict__)}, no {name!r}")

    def __repr__(self) -> str:
        return f"Replay({len(self)} examples: {', '.join(self.__dict__)})"


def as_labels(y: Tensor | ArrayLike) -> NDArray[Any]:
    """Labels on the host, in one transfer; whether they are labels is for the memory to say."""
    if isinstance(y, Tensor):
        if y.dtype.is_floating_point or y.dtype.is_complex:
            raise TypeError(f"labels must be whole numbers, got {y.dtype}")
        y = y.detach().cpu().numpy()
    labels = as_array(y, "labels")
    if labels.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, got shape {labels.shape}")
    return labels if labels.size else labels.astype(np.int64)


def as_slots(slots: Tensor | ArrayLike, least: int, filled: int) -> Ids:
    """Slots on the host, each at least `least` and of the filled ones."""
    places = as_array(slots.detach().cpu() if isinstance(slots, Tensor) else slots, "slots")
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise TypeError(f"slots must be a row of whole numbers, got {places.dtype} of shape {places.shape}")
    if places.size and not (least <= places.min() and places.max() < filled):
        raise ValueError(
            f"slots must lie in {least} … {filled - 1}, as {filled} are filled; got {places.min()} … {places.max()}"
        )
    return places.astype(np.int64)


def as_tensor(name: str, given: Tensor | ArrayLike, count: int, device: torch.device) -> Tensor:
    """What was given for a column, without its gradient; a number becomes `count` of it."""
    if isinstance(given, Tensor):
        if given.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got {given.layout}")
        return given.detach()
    if isinstance(given, (bool, int, float)):
        return torch.full((count,), given, device=device)
    if isinstance(given, tuple) and any(isinstance(part, (Tensor, np.ndarray)) for part in given):
        raise TypeError(
            f"{name} must be one tensor with a row per example, got a tuple of {len(given)}: torch.stack makes one "
            "of rows, and further tensors go into columns of their own, by keyword"
        )
    if isinstance(given, list) and given and all(isinstance(row, Tensor) for row in given):
        shapes = list(dict.fromkeys(tuple(row.shape) for row in given))
        if len(shapes) > 1:
            raise ValueError(f"{name} must have rows of one shape, got {shapes[0]} and {shapes[1]}")
        return torch.stack(given).detach()
    try:
        return torch.from_numpy(np.array(given)).to(device)
    except ValueError:
        raise ValueError(
            f"{name} must have rows of one shape, got a {type(given).__name__} of different ones"
        ) from None
    except TypeError:
        raise TypeError(f"{name} must be a tensor, an array or a number, got {type(given).__name__}") from None


def as_device(device: str | torch.device | int | None) -> torch.device:
    """The device that is meant, with its number: 'cuda' becomes 'cuda:0', so that devices compare."""
    try:
        return torch.empty(0, device=device).device
    except TypeError:
        raise TypeError(f"device must be a torch.device or its name, got {device!r}") from None
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch has one of each for want of a device
        why = str(error).partition(". ")[0].partition("\n")[0].rstrip(".")
        raise ValueError(f"device {str(device)!r} cannot be used here, 'cpu' can: {why}") from None


def names(columns: Iterable[str]) -> str:
    """Names of columns for a sentence."""
    return ", ".join(sorted(columns))


def kind(value: Tensor) -> str:
    """Shape and dtype of one example for a sentence."""
    shape = "×".join(map(str, value.shape[1:])) or "one number"
    return f"{shape} of {str(value.dtype).removeprefix('torch.')}"
