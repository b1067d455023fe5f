"""Which examples move when others are removed, so that the filled slots are 0 … size−1 again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moves:
    """What a removal did. Copy row `source[i]` of your own columns to `target[i]`; no slot is both, so order is free.

    >>> moves = Moves(*(np.array(slots) for slots in ([1, 4], [3], [1])))
    >>> column = np.array([10, 11, 12, 13, 14])
    >>> column[moves.target] = column[moves.source]
    >>> column[:3].tolist()
    [10, 13, 12]
    """

    removed: Ids  # the slots of the removed examples as they were before, sorted
    source: Ids  # slots whose examples moved
    target: Ids  # where each of them is now

    def __len__(self) -> int:
        return len(self.removed)

    def __repr__(self) -> str:
        inside = (f"{name}={getattr(self, name).tolist()}" for name in ("removed", "source", "target"))
        return f"Moves({', '.join(inside)})"


def closing(removed: Sequence[int], size: int) -> tuple[list[int], list[int]]:
    """The sources and the targets that close the holes: the last slots that stay move into those that do not.

    >>> closing([1, 4], 5)
    ([3], [1])
    """
    kept = size - len(removed)
    gone = {slot for slot in removed if slot >= kept}
    return [slot for slot in range(kept, size) if slot not in gone], [slot for slot in removed if slot < kept]
