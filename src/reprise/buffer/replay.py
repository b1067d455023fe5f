"""What a buffer gives back: the examples of a draw, or one that is stored."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class _Columns:
    """Columns by their names: as attributes, by `[name]`, and one after the other."""

    x: Any
    y: Any
    _names: tuple[str, ...]
    _what = "example"

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.__dict__.update(columns)
        self._names = tuple(columns)

    def _all(self) -> tuple[str, ...]:
        return (*self.__dict__.get("_names", ()), *(name for name in ("key", "slot") if name in self.__dict__))

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"a column is found by its name, got {name!r}: {', '.join(self._all())}")
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(*error.args) from None

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __getattr__(self, name: str) -> Any:  # only for what is not there
        raise AttributeError(f"this {self._what} has {', '.join(self._all())}, no {name!r}")

    def __repr__(self) -> str:
        return f"Example({', '.join(self._all())})"


class Example(_Columns):
    """One stored example: `x`, `y` and every further column as it was given, its `key` and its `slot`."""

    key: Hashable
    slot: int

    def __init__(self, columns: Mapping[str, Any], key: Hashable, slot: int) -> None:
        super().__init__(columns)
        self.key, self.slot = key, slot


class Replay(_Columns):
    """What a draw returned: `x`, `y`, `key`, `slots` and every further column by its name. Falsy when empty.

    It unpacks into its columns in the order of `store`: `x, y = replay`, or `x, y, logits = replay` where the buffer
    has logits. `replay["x"]` is `replay.x`.

    `slots` is on the CPU, as the memory is, and `key` is a list; all else is on the buffer's device.
    """

    slots: Tensor
    _what = "replay"

    def __init__(
        self,
        slots: Tensor,
        columns: Mapping[str, Any],
        lengths: Mapping[str, Tensor],
        key: list[Hashable] | NDArray[np.int64],
    ) -> None:
        super().__init__(columns)
        self.slots, self._lengths, self._key = slots, dict(lengths), key

    @property
    def key(self) -> list[Any]:
        """What each example is scheduled by: its key, or its label where the buffer goes by labels. On the host."""
        return self._key if isinstance(self._key, list) else self._key.tolist()

    def lengths(self, name: str = "x") -> Tensor:
        """How long each row of a column was before it was collated, along its first dimension; on the CPU."""
        for path, found in self._lengths.items():
            if path == name or path.endswith(f"[{name!r}]"):
                return found
        raise KeyError(f"{name!r} was not collated: {', '.join(self._lengths) or 'no column of this replay'} was")

    def _all(self) -> tuple[str, ...]:
        key = ("key",) if isinstance(self.__dict__.get("_key"), list) else ()
        return (*self.__dict__.get("_names", ()), *key, "slots")

    def __len__(self) -> int:
        return len(self.slots)

    def __getattr__(self, name: str) -> Any:
        if not self.__dict__.get("_names"):
            raise AttributeError(f"nothing was stored when this replay was drawn, so it has no {name!r}")
        return super().__getattr__(name)

    def __repr__(self) -> str:
        return f"Replay({len(self)} examples: {', '.join(self._all())})"
