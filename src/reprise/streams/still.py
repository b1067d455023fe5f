"""A stream in which nothing arrives: for looking at a memory that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int


class StillStream:
    """`steps` empty batches."""

    def __init__(self, steps: int) -> None:
        self.steps = as_int(steps, "steps", 0)
        self.name = f"still-{self.steps}"
        self.labels: NDArray[np.int64] = np.empty(0, np.int64)
        self.boundaries: NDArray[np.int64] = np.array([self.steps], np.int64)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        for _ in range(self.steps):
            yield np.empty(0, np.int64)

    def __repr__(self) -> str:
        return f"StillStream({self.steps})"
