"""What a buffer may be given: labels, slots, rows, a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from reprise.buffer.nesting import rows_of
from reprise.buffer.room import moved
from reprise.core.arguments import as_array, as_int
from reprise.memory.keys import Keys, as_keys

Ids = NDArray[np.int64]
Score = Callable[..., ArrayLike | Tensor]
_KEY = "; key= says what to go by when it is not y"


def hint_of_rows(name: str) -> str:
    """The end of a sentence about rows that differ in shape."""
    return f"; collate={{{name!r}: pad()}} keeps rows of any shape"


def as_labels(y: Tensor | ArrayLike) -> NDArray[Any]:
    """Labels on the host, in one transfer; whether they are labels is for the memory to say."""
    if isinstance(y, Tensor):
        if y.dtype.is_floating_point or y.dtype.is_complex:
            raise TypeError(f"labels must be whole numbers, got {y.dtype}{_KEY}")
        y = y.detach().cpu().numpy()
    if y is None or isinstance(y, Mapping):
        raise TypeError(f"labels must be whole numbers, got {'none' if y is None else 'a mapping'}{_KEY}")
    try:
        labels = as_array(y, "labels")
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{error}{_KEY}") from None
    if labels.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, got shape {labels.shape}{_KEY}")
    if labels.size and labels.dtype.kind not in "iu":
        raise TypeError(f"labels must be whole numbers, got dtype {labels.dtype} with {labels.tolist()[0]!r}{_KEY}")
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
    if isinstance(given, list) and given and all(isinstance(row, Tensor) for row in given):
        shapes = list(dict.fromkeys(tuple(row.shape) for row in given))
        if len(shapes) > 1:
            raise ValueError(f"{name} must have rows of one shape, got {shapes[0]} and {shapes[1]}{hint_of_rows(name)}")
        return torch.stack(given).detach()
    try:
        array = np.array(given)
        if not array.dtype.isnative:  # of a file that was written in the other order of bytes
            array = array.astype(array.dtype.newbyteorder("="))
        return moved(torch.from_numpy(array), device)
    except ValueError:
        raise ValueError(
            f"{name} must have rows of one shape, got a {type(given).__name__} of different ones{hint_of_rows(name)}"
        ) from None
    except TypeError:
        first = given[0] if isinstance(given, (list, np.ndarray)) and len(given) else None
        what = type(given).__name__ + ("" if first is None else f" of {type(first).__name__}")
        text = "; text goes in as token ids" if isinstance(first, str) else ""
        raise TypeError(f"{name} must be a tensor, an array or a number, got {what}{text}") from None


def as_rows(name: str, given: Any, device: torch.device, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Rows that may differ in shape, without their gradients; `dtype` is that of the rows that are held, if any are."""
    if isinstance(given, np.ndarray) and given.dtype.kind != "O":
        given = as_tensor(name, given, len(given), device)
    if isinstance(given, Tensor):
        return list(given.detach()) if given.dim() else []
    if not isinstance(given, (list, tuple, np.ndarray)):
        raise TypeError(f"{name} must be a tensor or a list of rows, got {type(given).__name__}")
    if all(isinstance(row, Tensor) and row.layout == torch.strided for row in given):
        return [row.detach() for row in given]
    rows = [as_tensor(name, row, 1, device) for row in given]
    whole = next((row.dtype for row in rows if row.numel()), dtype)  # an empty list tells of no dtype
    return [
        row if isinstance(one, Tensor) or row.numel() or whole is None else row.to(whole)
        for one, row in zip(given, rows, strict=True)
    ]


def differ(given: Any) -> bool:
    """Whether these are rows of different shapes."""
    if not isinstance(given, (list, tuple)):
        return False
    if all(isinstance(row, (Tensor, np.ndarray)) for row in given):
        return len({tuple(row.shape) for row in given}) > 1
    return all(isinstance(row, (list, tuple)) for row in given) and len(set(map(len, given))) > 1


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


def each_key(key: Any, x: Any) -> Any:
    """A key for every example of a batch."""
    several = hasattr(key, "__iter__") and getattr(key, "shape", None) != () and not isinstance(key, (str, bytes))
    if several or not isinstance(key, Hashable):
        return key
    count = rows_of(x)
    if count is None:
        raise TypeError("one key for all needs an x that tells how many examples there are: give a list of keys")
    return [key] * count


def numbers_of(given: Any, keys: Keys | None, what: str, stored: bool) -> list[int]:
    """The numbers of several keys, where they have any: of an unknown key nothing is stored. Labels are numbers.

    None before anything was `stored`: it is not known yet whether they are keys or labels.
    """
    if isinstance(given, (str, bytes, int)):
        raise TypeError(f"{what} must be several keys, such as [{given!r}], got {given!r}")
    if not stored:
        return []
    values = as_keys(list(given) if isinstance(given, Set) else given)
    return [as_int(value, f"a label of {what}", 0) for value in values] if keys is None else keys.known(values)


def on_host(score: Score) -> Callable[..., ArrayLike]:
    """A score that is given slots as tensors, and whose answer comes to the host."""
    if not callable(score):
        raise TypeError(f"score must be a function of slots, got {score!r:.60}")

    def scored(*slots: Ids) -> ArrayLike:
        values = score(*map(torch.from_numpy, slots))
        return values.detach().to("cpu", torch.float64).numpy() if isinstance(values, Tensor) else values

    return scored
