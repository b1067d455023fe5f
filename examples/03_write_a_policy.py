"""A schedule of one's own: written, checked, registered, audited against its law.

`mirror` goes through the classes in one order, then back through them in reverse, and so on. The proof of the gap
bounds of randomised passes never uses that the order is random, so `mirror` has the same bounds: 2⌈C/b⌉−1 on a fixed
set and ⌈(2·C_max−1+I)/b⌉ while classes come and go. What changes is the law. With m = C/b whole, a class in the i-th
batch of a pass waits 2(m−i)+1 steps, then 2i−1: gaps are odd, each of 1, 3, …, 2m−1 equally likely, and their variance
is (m²−1)/3, twice that of `rpr`. And the same classes share a batch for ever, as under `fixed`.

Prints that the public checks pass, then the audit of `mirror` beside `fixed` and `rpr` on a memory that stands still.

    python examples/03_write_a_policy.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import reprise
from reprise.checks import Broken, check_schedule
from reprise.memory import Policy, Random, register
from reprise.runs import Run, make_plan


@register("schedule", "mirror")
class MirrorPass(Policy):
    """Passes that run forwards and backwards through the same order of classes."""

    def start(self, random: Random) -> None:
        self.random = random
        self.deck: list[int] = []  # classes still to come in this pass, the next one first
        self.served: list[int] = []  # classes that have come in this pass

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        self.deck = [label for label in self.deck if label not in departed]
        self.served = [label for label in self.served if label not in departed]
        for label in arrived:
            self.deck.insert(self.random.below(len(self.deck) + 1), label)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        taken: list[int] = []
        for _ in range(k):
            if not self.deck:
                back = self.served[::-1]
                # A batch that spans the turn must not name a class twice: those already in it go last.
                self.deck = [c for c in back if c not in taken] + [c for c in back if c in taken]
                self.served = []
            taken.append(self.deck.pop(0))
            self.served.append(taken[-1])
        return taken

    def bound(self, classes: int, n: int) -> int:
        return 2 * -(-classes // n) - 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(2 * most - 1 + inserted) // n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(most + inserted) // n)  # a newcomer's place in the deck, and those that come to stand before it

    def state_dict(self) -> dict[str, Any]:
        return {"deck": list(self.deck), "served": list(self.served)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.deck = [int(label) for label in state["deck"]]
        self.served = [int(label) for label in state["served"]]


class Hasty(MirrorPass):
    """The same schedule with a promise it cannot keep."""

    def bound(self, classes: int, n: int) -> int:
        return -(-classes // n)


def main() -> None:
    check_schedule(MirrorPass())
    print("mirror keeps its contract.")
    try:
        check_schedule(Hasty())
    except Broken as error:
        print(f"A false promise is found out: {error}.\n")

    memory = reprise.Memory(100, retrieval="mirror", seed=0)  # its spec works wherever a spec does
    print(memory)

    classes, replay = 100, 10
    m = classes // replay
    print(f"\n{classes} classes that stay, {replay} replayed a step, 1000 steps")
    print("          mean  variance  longest  pairs met  gap lengths")
    for spec in ("fixed", "mirror", "rpr"):
        run = Run.of(learner=None, classes=classes, steps=1000, replay=replay, retrieval=spec)
        audit = reprise.audit.measure(make_plan(run).tape)
        seen = " ".join(map(str, np.unique(audit.gaps)))
        figures = f"{audit.mean:6.2f} {audit.gaps.var():9.2f} {audit.longest:8} {audit.pair_coverage:10.0%}"
        print(f"{spec:7} {figures}  {seen}")
    print(f"\nBy the law: variance {(m * m - 1) / 3:.2f} for mirror, {(m * m - 1) / 6:.2f} for rpr.")


if __name__ == "__main__":
    main()
