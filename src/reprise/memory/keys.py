"""Numbers for keys: a memory goes by whole numbers, and people have names."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, KeysView, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int

Ids = NDArray[np.int64]


class Keys:
    """Any hashable to a number 0, 1, … by first arrival, and back.

    >>> keys = Keys()
    >>> keys.add(["cat", ("user", 7), "cat"]).tolist()
    [0, 1, 0]
    >>> keys[1], keys.number("cat"), "dog" in keys
    (('user', 7), 0, False)

    Keys are equal as in a dict: 1, 1.0 and True are one key, and the first of them is kept. A key that is dropped
    leaves its number behind: no other key is given it, and the same key is given a new one when it returns.
    """

    def __init__(self, known: Iterable[Hashable] = ()) -> None:
        self._number: dict[Hashable, int] = {}
        self._key: dict[int, Hashable] = {}
        self.given = 0
        """How many numbers have been given so far, those of dropped keys included."""
        self.add(known)

    def add(self, keys: Any) -> Ids:
        """The number of each key; new keys are given the next ones."""
        numbers, new = self.look(keys)
        self.extend(new)
        return numbers

    def look(self, keys: Any) -> tuple[Ids, list[Hashable]]:
        """What `add` would return, and the keys that would be new. Nothing is changed."""
        fresh: dict[Hashable, int] = {}
        known, first = self._number, self.given
        numbers = []
        for key in as_keys(keys):
            number = known.get(key)
            numbers.append(fresh.setdefault(key, first + len(fresh)) if number is None else number)
        return np.array(numbers, np.int64), list(fresh)

    def extend(self, new: Iterable[Hashable]) -> None:
        """Give these keys, which are different and not known yet, the next numbers."""
        for key in new:
            self._number[key], self._key[self.given] = self.given, key
            self.given += 1

    def known(self, keys: Any) -> list[int]:
        """The numbers of those of these keys that are known."""
        return [self._number[key] for key in as_keys(keys) if key in self._number]

    def number(self, key: Hashable) -> int:
        """The number of a known key."""
        return self._number[_plain(key)]

    def __getitem__(self, number: int) -> Hashable:
        if isinstance(number, (str, bytes)):
            raise TypeError(f"a key is found by its number, got {number!r}; number(key) is that of a key")
        try:
            return self._key[int(number)]
        except KeyError:
            why = "its key was dropped" if 0 <= number < self.given else f"{self.given} numbers have been given"
            raise KeyError(f"no key has the number {number}: {why}") from None

    def named(self, numbers: Iterable[int]) -> list[Hashable]:
        """The key of each number, for a table or a plot; `<dropped 3>` where the key of number 3 was dropped."""
        return [self._key.get(int(number), f"<dropped {number}>") for number in numbers]

    @property
    def numbers(self) -> KeysView[int]:
        """The numbers of all known keys."""
        return self._key.keys()

    def drop(self, numbers: Iterable[int]) -> None:
        """Let these keys be unknown again."""
        for number in numbers:
            if number in self._key:
                del self._number[self._key.pop(number)]

    def __contains__(self, key: object) -> bool:
        return _plain(key) in self._number

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._number)

    def __len__(self) -> int:
        return len(self._number)

    def __repr__(self) -> str:
        return f"Keys({list(self._number)!r:.60})"

    def state_dict(self) -> dict[str, Any]:
        """The known keys and their numbers.

        Keys that are strings, numbers, or tuples of these pass through JSON and plain `torch.load`. Others are for
        pickle, and for `torch.load(…, weights_only=False)`.
        """
        return {"keys": list(self._number), "numbers": list(self._number.values()), "given": self.given}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Keys:
        """The keys that gave this state."""
        keys = cls()
        keys.given = as_int(state["given"], "how many numbers a state's keys were given", 0)
        for saved, number in zip(state["keys"], map(int, state["numbers"]), strict=True):
            key = _tuples(saved)
            if not 0 <= number < keys.given or number in keys._key or key in keys._number:
                raise ValueError(f"a state's keys and numbers do not fit together: {key!r} has number {number}")
            keys._number[key], keys._key[number] = number, key
        return keys


def as_keys(keys: Any) -> list[Hashable]:
    """One key per example, as they are compared: from a list, a tuple, an array, a tensor, anything with an order."""
    if isinstance(keys, (str, bytes, Mapping, Set)):
        raise TypeError(f"keys are a sequence, one per example in order, got {keys!r:.60}")
    if hasattr(keys, "shape") and len(keys.shape) != 1:
        raise ValueError(f"keys must be one-dimensional, got shape {tuple(keys.shape)}")
    given = keys.tolist() if hasattr(keys, "tolist") else keys  # arrays, tensors and series alike
    if not hasattr(given, "__iter__"):
        raise TypeError(f"keys are a sequence, one per example in order, got {keys!r:.60}")
    values = list(given)
    return values if set(map(type, values)) <= {int, str} else [_plain(value) for value in values]


def _plain(key: Any) -> Hashable:
    """A key as it is compared: a tensor of one number would be another key at every place."""
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    if hasattr(key, "shape") and hasattr(key, "tolist"):
        if tuple(key.shape) != ():
            raise TypeError(f"a key is one thing, got {type(key).__name__} of shape {tuple(key.shape)}")
        key = key.tolist()
    if isinstance(key, float) and math.isnan(key):
        raise ValueError("nan cannot be a key: it is not equal to itself")
    try:
        hash(key)
    except TypeError:
        raise TypeError(f"a key must be hashable, got a {type(key).__name__}") from None
    plain: Hashable = key
    return plain


def _tuples(key: Any) -> Hashable:
    return tuple(map(_tuples, key)) if isinstance(key, (list, tuple)) else key  # JSON knows no tuples
