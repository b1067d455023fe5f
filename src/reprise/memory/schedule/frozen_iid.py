"""Frozen blocks drawn independently: geometric waiting times with co-occurrence that is never renewed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.blocks import Blocks
from reprise.memory.theory.laws import Floats, geometric_tail


@register("schedule", "frozen-iid", argument=int, letter="B", optional=True)
class FrozenIndependent(Policy):
    """Each step serves one whole block of classes, uniform among the m = ⌈C/B⌉, whatever came before.

    Gaps are geometric with p = 1/m, exactly and for any C; classes of different blocks never meet. B is the
    size of the first draw unless it is given.
    """

    distinct = False  # a block with fewer classes than slots gives some of them twice

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else as_int(size, "the B of 'frozen-iid:B'", 1)

    def start(self, random: Random) -> None:
        self.random = random
        self.blocks = Blocks(self.size)

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.blocks.change(n, arrived, departed, self.random)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        if batch:
            return self.blocks.serve_more(k, len(batch))
        filled = self.blocks.filled
        return self.blocks.serve(filled.at(self.random.below(len(filled))), k)

    def bound(self, classes: int, n: int) -> int | None:
        return 1 if n >= classes and (self.size or n) >= classes else None

    def churn_bound(self, most: int, inserted: int, n: int) -> None:
        return None

    def first_bound(self, most: int, inserted: int, n: int) -> None:
        return None

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats | None:
        size = self.size or slots
        if size > slots:
            return None  # a visit serves a part of a block only
        return np.asarray(geometric_tail(np.arange(longest), -(-classes // size), 1))

    def state_dict(self) -> dict[str, Any]:
        return {"blocks": self.blocks.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.blocks.load_state_dict(state["blocks"])
