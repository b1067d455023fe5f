"""Examples of several parts: dicts, tuples, lists and named tuples of columns, taken apart and put together again."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Nest:
    """How the parts of a column stand together; two are equal when their kinds, keys and parts are.

    `make` puts the parts together. A nest that comes from a state knows no classes of other people: a named tuple is
    then one of the same name and fields, and another mapping a dict, until a batch is stored that has the class.
    """

    kind: str  # leaf, none, dict, list, tuple, or named
    keys: tuple[str | int, ...] = ()
    parts: tuple[Nest, ...] = ()
    make: Callable[[list[Any]], Any] = field(default=list, compare=False)

    def paths(self, name: str) -> list[str]:
        """The names of the leaves."""
        if self.kind == "leaf":
            return [name]
        return [
            path for key, part in zip(self.keys, self.parts, strict=True) for path in part.paths(f"{name}[{key!r}]")
        ]

    def together(self, leaves: Callable[[str], Any], name: str) -> Any:
        """The parts as they were given, with the leaves that this function names."""
        if self.kind == "leaf":
            return leaves(name)
        if self.kind == "none":
            return None
        parts = zip(self.keys, self.parts, strict=True)
        return self.make([part.together(leaves, f"{name}[{key!r}]") for key, part in parts])

    def __str__(self) -> str:
        if self.kind == "leaf":
            return "one tensor"
        if self.kind == "none":
            return "None"
        named = self.kind in ("dict", "named")
        inner = (f"{key}: {part}" if named else str(part) for key, part in zip(self.keys, self.parts, strict=True))
        return f"{self.kind.replace('named', 'named tuple')} ({', '.join(inner)})"

    def plain(self) -> list[Any]:
        """The nest in strings, numbers and lists."""
        return [self.kind, list(self.keys), [part.plain() for part in self.parts]]

    @classmethod
    def from_plain(cls, saved: list[Any]) -> Nest:
        kind, keys, parts = saved
        if kind not in ("leaf", "none", "dict", "list", "tuple", "named") or len(keys) != len(parts):
            raise ValueError(f"its columns stand together in no known way: {saved!r:.60}")
        names = tuple(keys)
        makes: dict[str, Any] = {"tuple": tuple, "dict": _Mapping(dict, names), "named": _Named(None, names)}
        return cls(kind, names, tuple(map(cls.from_plain, parts)), makes.get(kind, list))


LEAF, NONE = Nest("leaf"), Nest("none")


def apart(
    name: str, given: Any, count: int, known: Nest | None, rows: Callable[[str], Any]
) -> tuple[Nest, dict[str, Any]]:
    """How what was given for a column stands together, and its leaves by their names.

    A dict, a tuple or a named tuple holds columns. So does a list, unless it is rows: a list with one tensor for each
    of `count` examples. Where it could be either, `known` tells, the nest of the batches before, or `rows`, which says
    whether the part of this name is known to be rows.
    """
    if given is None:
        return NONE, {}
    keys: list[Any]
    make: Callable[[list[Any]], Any]
    if isinstance(given, Mapping):
        kind, keys, values = "dict", list(given), list(given.values())
        if known is not None and known.kind == "dict" and set(known.keys) == set(keys):  # the order of keys is free
            keys = list(known.keys)
            values = [given[key] for key in keys]
        if not all(isinstance(key, (str, int)) for key in keys):
            wrong = next(key for key in keys if not isinstance(key, (str, int)))
            raise TypeError(f"the keys of {name} must be strings or whole numbers, got {wrong!r}")
        make = _Mapping(type(given), tuple(keys))
    elif isinstance(given, (tuple, list)) and _is_columns(name, given, count, known, rows):
        values = list(given)
        if hasattr(given, "_fields"):
            kind, keys, make = "named", list(given._fields), _Named(type(given), given._fields)
        else:
            kind, make = ("tuple", tuple) if isinstance(given, tuple) else ("list", list)
            keys = list(range(len(values)))
    else:
        return LEAF, {name: given}
    before = known.parts if known is not None and known.keys == tuple(keys) else [None] * len(keys)
    nests, leaves = [], {}
    for key, value, part in zip(keys, values, before, strict=True):
        nest, found = apart(f"{name}[{key!r}]", value, count, part, rows)
        nests.append(nest)
        leaves.update(found)
    return Nest(kind, tuple(keys), tuple(nests), make), leaves


def _is_columns(
    name: str, given: tuple[Any, ...] | list[Any], count: int, known: Nest | None, rows: Callable[[str], Any]
) -> bool:
    """Whether a tuple or a list holds columns, not the rows of one."""
    if hasattr(given, "_fields"):
        return True
    parted = [isinstance(part, (Tensor, np.ndarray, Mapping)) or _holds_tensors(part) for part in given]
    if not any(parted):
        return False  # numbers: rows, as an array has them
    if isinstance(given, tuple):
        return True
    if not all(isinstance(part, (Tensor, np.ndarray)) for part in given):
        return True
    if known is not None:
        return known.kind == "list"
    columns = all(part.ndim and len(part) == count for part in given)
    if len(given) != count or not columns or rows(name):
        return columns and not rows(name)
    raise ValueError(
        f"{name} is a list of {count} tensors with {count} rows each, for {count} examples, so that each may be a row "
        "or a column: a tuple holds columns; torch.stack makes rows of them, and collate= names a column of rows"
    )


def _holds_tensors(part: Any) -> bool:
    return isinstance(part, (tuple, list)) and (
        hasattr(part, "_fields") or any(isinstance(one, (Tensor, np.ndarray, Mapping)) for one in part)
    )


def rows_of(given: Any) -> int | None:
    """How many examples a batch has, from its first tensor or array; None where it has none."""
    if isinstance(given, (Tensor, np.ndarray)):
        return len(given) if given.ndim else None
    if isinstance(given, Mapping):
        return next((found for part in given.values() if (found := rows_of(part)) is not None), None)
    if isinstance(given, tuple):
        return next((found for part in given if (found := rows_of(part)) is not None), None)
    return len(given) if isinstance(given, list) else None


@dataclass(frozen=True)
class _Mapping:
    """Makes a mapping of values; a class of its own, so that it may be pickled, as the next."""

    kind: type
    keys: tuple[Any, ...]

    def __call__(self, values: list[Any]) -> Any:
        made = dict(zip(self.keys, values, strict=True))
        if self.kind is dict:
            return made
        try:
            return self.kind(made)
        except TypeError:
            return made


@dataclass(frozen=True)
class _Named:
    """Makes a named tuple of values."""

    kind: Any
    keys: tuple[Any, ...]

    def __call__(self, values: list[Any]) -> Any:
        return (self.kind or _named(self.keys))._make(values)


@cache
def _named(keys: tuple[str, ...]) -> Any:
    return namedtuple("Example", keys)
