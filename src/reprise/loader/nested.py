"""Batches of any structure: dicts, tuples and lists of tensors, taken apart or changed leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

from reprise.tape_step import TapeStep


def split_batch(batch: Any, step: TapeStep) -> tuple[Any, ...]:
    """Take a batch of a `TapeBatchSampler` apart: what arrived, then what each draw brought, None where there is none.

    Everything in the batch that has rows is cut alike, and whatever was computed for it row by row may be cut in the
    same way:

    >>> import torch
    >>> from reprise import Memory, plan
    >>> step = plan([0, 1, 0, 1], Memory(4), replay=1, batch=2)[1]
    >>> (x, y), (replayed_x, replayed_y) = split_batch([torch.zeros(3, 8), torch.tensor([0, 1, 0])], step)
    >>> len(x), len(replayed_x)
    (2, 1)

    Lists and tuples hold fields, as torch's `default_collate` makes them; a list of strings or numbers is one field.
    """
    ends = list(accumulate(step.sizes))
    for path, leaf in leaves(batch, ""):
        rows = len(leaf) if not hasattr(leaf, "shape") else leaf.shape[0] if len(leaf.shape) else 0
        if rows != ends[-1]:
            raise ValueError(
                f"batch{path} has {rows} rows, and step {step.number} has {ends[-1]} examples; a batch that is not "
                "made of rows is better made by a TapeDataset, which collates each part by itself"
            )
    places = [slice(start, stop) for start, stop in pairwise([0, *ends])]
    return tuple(mapped(itemgetter(part), batch) if part.stop > part.start else None for part in places)


def mapped(change: Callable[[Any], Any], nested: Any) -> Any:
    """The same structure with every leaf changed."""
    if isinstance(nested, Mapping):
        changed = {key: mapped(change, value) for key, value in nested.items()}
        return changed if type(nested) is dict else _like(nested, changed)
    if _is_container(nested):
        values = [mapped(change, value) for value in nested]
        if hasattr(nested, "_fields"):
            return type(nested)(*values)
        return values if type(nested) is list else _like(nested, values)
    return change(nested)


def _like(nested: Any, values: Any) -> Any:
    """Values in a container of the same type, if it can be made of them."""
    try:
        return type(nested)(values)
    except TypeError:
        return values


def _is_container(nested: Any) -> bool:
    return isinstance(nested, (list, tuple)) and not (
        len(nested) and all(isinstance(value, (str, bytes, int, float)) for value in nested)
    )


def leaves(nested: Any, path: str) -> Any:
    """Every leaf, with the way to it."""
    if isinstance(nested, Mapping):
        for key, value in nested.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif _is_container(nested):
        for place, value in enumerate(nested):
            yield from leaves(value, f"{path}[{place}]")
    elif not hasattr(nested, "__len__") or isinstance(nested, (str, bytes)):
        raise TypeError(f"batch{path} is a {type(nested).__name__}, which has no rows to split")
    else:
        yield path, nested
