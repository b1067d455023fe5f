"""Algorithm R's decisions, drawn many at a time: they depend on how many examples came, and on nothing else."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int
from reprise.core.rng import Random

_AHEAD = 1024


class ReservoirDraws:
    """For every example that meets a full reservoir, the slot it takes, or −1.

    The example that comes when n have been seen draws r uniform on 0 … n and takes slot r if there is one. Late in a
    stream few do. So the places of those that are kept are known ahead, and a batch is not searched for them.
    """

    __slots__ = ("ahead", "kept", "met", "random", "seen", "slots", "used")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.seen = 0
        self._prepare(np.empty(0, np.int64))

    def _prepare(self, ahead: NDArray[np.int64]) -> None:
        self.ahead, self.used = ahead, 0  # drawn already, of which the first `used` are spent
        kept = (ahead >= 0).nonzero()[0]
        self.kept: list[int] = kept.tolist()  # places of those that take a slot, of which the first `met` are spent
        self.slots: list[int] = ahead[kept].tolist()
        self.met = 0

    def skip(self, count: int) -> None:
        """So many examples found an empty slot: what was drawn for them is not needed."""
        self.seen += count
        self.used = min(self.used + count, len(self.ahead))
        self.met = bisect_left(self.kept, self.used, self.met)

    def resized(self) -> None:
        """The capacity is another: what was drawn ahead was drawn for the old one."""
        self._prepare(np.empty(0, np.int64))

    def take(self, labels: list[int], capacity: int) -> tuple[NDArray[np.int64], list[int], list[int]]:
        """The decisions on these examples, as an array; the labels of those that are kept; and their slots."""
        used, count = self.used, len(labels)
        stop = used + count
        if stop > len(self.ahead):
            rest = self.ahead[used:]
            fresh = self.random.below_run(self.seen + len(rest) + 1, max(_AHEAD, count))
            fresh[fresh >= capacity] = -1
            self._prepare(np.concatenate([rest, fresh]) if len(rest) else fresh)
            used, stop = 0, count
        self.used = stop
        self.seen += count
        met, kept = self.met, self.kept
        self.met = end = bisect_left(kept, stop, met)
        return self.ahead[used:stop], [labels[place - used] for place in kept[met:end]], self.slots[met:end]

    def replace(self, slots: list[int]) -> None:
        """Those of the last batch that are kept take these slots instead."""
        self.ahead[self.kept[self.met - len(slots) : self.met]] = slots

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "ahead": self.ahead[self.used :].tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = as_int(state["seen"], "a state's seen", 0)
        self._prepare(np.array([int(slot) for slot in state["ahead"]], np.int64))
