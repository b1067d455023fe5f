"""Classes in blocks that never mix: what the two frozen schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprise.core.rng import Random
from reprise.memory.schedule.order import Ranked


class Blocks:
    """A partition of the resident classes into blocks of at most `size`, made once and only patched.

    The first classes are dealt into as few blocks as hold them, their sizes within one of each other. Later an
    arrival joins a smallest block that is not full, ties at random, or opens a new one; a departure leaves a
    hole.
    """

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.rows: list[list[int]] = []
        self.turns: list[int] = []  # per block, whose turn is next when it must fill more slots than it has classes
        self.block, self.reached, self.idle = -1, 0, 0  # within one draw: the block, the batch so far, slots in vain
        self._rank()

    def _rank(self) -> None:
        self.home = {label: block for block, row in enumerate(self.rows) for label in row}
        self.filled = Ranked(block for block, row in enumerate(self.rows) if row)  # those that hold a class
        sizes: dict[int, list[int]] = {}
        for block, row in enumerate(self.rows):
            sizes.setdefault(len(row), []).append(block)
        self._sized = {size: Ranked(blocks) for size, blocks in sizes.items()}  # the blocks of every size

    def change(
        self, n: int, arrived: Sequence[int], departed: Sequence[int], random: Random
    ) -> tuple[list[int], list[int]]:
        """Patch the partition; return the blocks that lost their last class, and then those that got their first."""
        emptied, begun = [], []
        for label in departed:
            block = self.home.pop(label)
            row = self.rows[block]
            row.remove(label)
            self._resize(block, len(row) + 1, len(row))
            if not row:
                emptied.append(block)
        self.size = self.size or n
        if arrived and not self.rows:
            labels = random.shuffled(list(arrived))
            count = -(-len(labels) // self.size)
            self.rows = [labels[first::count] for first in range(count)]
            self.turns = [0] * count
            self._rank()
            return [], list(range(count))
        for label in arrived:
            block = self._room(random)
            row = self.rows[block]
            row.append(label)
            self.home[label] = block
            self._resize(block, len(row) - 1, len(row))
            if len(row) == 1:
                begun.append(block)
        return emptied, sorted(begun)

    def _room(self, random: Random) -> int:
        """A smallest block that is not full, or a new one."""
        for size in range(self.size or 1):
            if smallest := self._sized.get(size):
                return smallest.at(random.below(len(smallest)))
        self.rows.append([])
        self.turns.append(0)
        self._sized.setdefault(0, Ranked()).add(len(self.rows) - 1)
        return random.below(1) + len(self.rows) - 1  # it is drawn too, though there is no choice

    def _resize(self, block: int, before: int, now: int) -> None:
        self._sized[before].remove(block)
        self._sized.setdefault(now, Ranked()).add(block)
        if not before:
            self.filled.add(block)
        elif not now:
            self.filled.remove(block)

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
        self._rank()
