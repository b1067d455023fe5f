"""Classes in blocks that never mix: what the two frozen schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprise.core.rng import Random


class Blocks:
    """A partition of the resident classes into blocks of at most `size`, made once and only patched.

    The first classes are dealt into as few blocks as hold them, their sizes within one of each other. Later an
    arrival joins a smallest block that is not full, ties at random, or opens a new one; a departure leaves a
    hole.
    """

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.rows: list[list[int]] = []
        self.home: dict[int, int] = {}
        self.turns: list[int] = []  # per block, whose turn is next when it must fill more slots than it has classes
        self.block, self.reached, self.idle = -1, 0, 0  # within one draw: the block, the batch so far, slots in vain

    def change(self, n: int, arrived: Sequence[int], departed: Sequence[int], random: Random) -> list[int]:
        """Patch the partition; return the blocks that hold a class now and held none before."""
        for label in departed:
            self.rows[self.home.pop(label)].remove(label)
        self.size = self.size or n
        held = set(self.filled())
        if arrived and not self.rows:
            labels = random.shuffled(list(arrived))
            count = -(-len(labels) // self.size)
            self.rows = [labels[first::count] for first in range(count)]
            self.home = {label: block for block, row in enumerate(self.rows) for label in row}
            self.turns = [0] * count
        else:
            for label in arrived:
                self._join(label, random)
        return [block for block in self.filled() if block not in held]

    def _join(self, label: int, random: Random) -> None:
        least = min(map(len, self.rows))
        if least >= (self.size or 1):
            self.rows.append([])
            self.turns.append(0)
            least = 0
        smallest = [block for block, row in enumerate(self.rows) if len(row) == least]
        block = smallest[random.below(len(smallest))]
        self.rows[block].append(label)
        self.home[label] = block

    def filled(self) -> list[int]:
        """The blocks that hold at least one class."""
        return [block for block, row in enumerate(self.rows) if row]

    def serve(self, block: int, k: int) -> list[int]:
        """k class slots of one block: each class once, then again in turn, so that all are exposed alike."""
        self.block, self.reached, self.idle = block, 0, 0
        row, first = self.rows[block], self.turns[block]
        self.turns[block] = (first + k) % len(row)
        return [row[(first + place) % len(row)] for place in range(k)]

    def serve_more(self, k: int, drawn: int) -> list[int]:
        """k further slots of the same block, or none when a whole round of it has brought nothing new."""
        block, idle = self.block, self.idle + k if drawn == self.reached else 0
        if idle > len(self.rows[block]):
            return []
        labels = self.serve(block, k)
        self.reached, self.idle = drawn, idle
        return labels

    def state_dict(self) -> dict[str, Any]:
        return {"size": self.size, "rows": [list(row) for row in self.rows], "turns": list(self.turns)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.size = state["size"]
        self.rows = [[int(label) for label in row] for row in state["rows"]]
        self.turns = [int(turn) for turn in state["turns"]]
        self.home = {label: block for block, row in enumerate(self.rows) for label in row}
