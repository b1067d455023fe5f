"""Frozen blocks in randomised passes: RPR's waiting times with co-occurrence that is never renewed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.blocks import Blocks
from reprise.memory.schedule.deck import Deck
from reprise.memory.theory.laws import Floats, rpr_gap_pmf, tail_of


@register("schedule", "frozen-pass", argument=int, letter="B", optional=True)
class FrozenPass(Policy):
    """Each step serves one whole block of classes; the order of the m = ⌈C/B⌉ blocks is drawn anew every pass.

    Gaps follow RPR's law with m steps a pass, exactly and for any C; classes of different blocks never meet.
    B is the size of the first draw unless it is given.
    """

    distinct = False  # a block with fewer classes than slots gives some of them twice

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else as_int(size, "the B of 'frozen-pass:B'", 1)

    def start(self, random: Random) -> None:
        self.random = random
        self.blocks = Blocks(self.size)
        self.deck = Deck()

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            emptied, begun = self.blocks.change(n, arrived, departed, self.random)
            self.deck.change(begun, emptied, self.random)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        if batch:
            return self.blocks.serve_more(k, len(batch))
        return self.blocks.serve(self.deck.deal(1, lambda: self.random.shuffled(list(self.blocks.filled)))[0], k)

    def bound(self, classes: int, n: int) -> int:
        blocks = -(-classes // (self.size or n))
        visits = -(
            -min(self.size or n, classes) // n
        )  # a block larger than the draw takes several visits to be through
        return (visits + 1) * blocks - 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int | None:
        # Holes may leave a block to every class, so a pass may take as many steps as there are classes. And a block
        # larger than the draw may lose a class at every visit, and with it the place of the class that is next.
        return 2 * most - 1 + inserted if (self.size or n) <= n else None

    def first_bound(self, most: int, inserted: int, n: int) -> int | None:
        # It may join a block that has just been served. Then no block is empty and this one holds two classes, and as
        # blocks are opened only when all are full, there is one block less than classes until it is served.
        return max(most, 2 * most - 3) + inserted if (self.size or n) <= n else None

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats | None:
        size = self.size or slots
        if size > slots:
            return None  # a visit serves a part of a block only
        return tail_of(rpr_gap_pmf(-(-classes // size), 1), longest)

    def state_dict(self) -> dict[str, Any]:
        return {"blocks": self.blocks.state_dict(), "deck": list(self.deck.left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.blocks.load_state_dict(state["blocks"])
        self.deck = Deck(state["deck"])
