"""Checking the arguments of the theory's functions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int


def classes_and_slots(C: object, b: object) -> tuple[int, int]:
    """Return the number of classes and of replay slots a step as ints of at least one."""
    return as_int(C, "C (classes)", 1), as_int(b, "b (replay size)", 1)


def decimal(name: str, value: object) -> Fraction:
    """Return `value` as the exact fraction that its decimal form shows, so that 0.1 is one tenth.

    >>> decimal("W", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, Fraction, str, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return Fraction(str(value))
    except ValueError:
        raise ValueError(f"{name} must be a finite number, got {value!r}") from None


def gap_lengths(g: object, least: int) -> NDArray[np.int64]:
    """Return one gap length or an array of them as int64, each at least `least`."""
    lengths = np.asarray(g)
    if lengths.size == 0:
        lengths = lengths.astype(np.int64)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"g (gap) must be whole numbers, got {g!r}")
    if (lengths < least).any():
        raise ValueError(f"g (gap) must be {least} or more, got {int(lengths.min())}")
    return lengths.astype(np.int64)
