"""Algorithm R's decisions, drawn many at a time: they depend on how many examples came, and on nothing else."""

from __future__ import annotations

from typing import Any

from reprise.core.arguments import as_int
from reprise.core.rng import Random

_AHEAD = 512


class ReservoirDraws:
    """For every example that meets a full reservoir, the slot it takes, or −1.

    The example that comes when n have been seen draws r uniform on 0 … n and takes slot r if there is one.
    """

    __slots__ = ("ahead", "random", "seen", "used")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.seen = 0
        self.ahead: list[int] = []  # drawn already, of which the first `used` are spent
        self.used = 0

    def skip(self, count: int) -> None:
        """So many examples found an empty slot."""
        self.seen += count

    def take(self, count: int, capacity: int) -> list[int]:
        """The decisions on the next `count` examples."""
        stop = self.used + count
        if stop > len(self.ahead):
            rest = self.ahead[self.used :]
            fresh = self.random.below_run(self.seen + len(rest) + 1, max(_AHEAD, count))
            fresh[fresh >= capacity] = -1
            self.ahead, self.used, stop = rest + fresh.tolist(), 0, count
        taken = self.ahead[self.used : stop]
        self.used = stop
        self.seen += count
        return taken

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "ahead": self.ahead[self.used :]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = as_int(state["seen"], "a state's seen", 0)
        self.ahead, self.used = [int(slot) for slot in state["ahead"]], 0
