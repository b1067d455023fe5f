"""A time within which a campaign ends: no run is begun that would not end by then, as far as runs before it tell."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable

from reprise.runs.run import Run

_RECENT = 8  # runs of a kind whose times are looked at: the first ones may have waited for what is done once
_FREE = {"seed", "imbalance_seed", "storage", "retrieval"}
"""What runs may differ in and take as long all the same; but a retrieval that scores takes time."""


class TimeLimit:
    """So many seconds, from now on. Of each kind of run it learns how long one takes, from its begin to its end."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"a time limit is a number of seconds, got {seconds!r}")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a time limit must be 0 or more and finite, got {seconds!r}")
        self.clock = clock
        self.end = clock() + seconds
        self._began: dict[Run, float] = {}
        self._took: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=_RECENT))

    @property
    def over(self) -> bool:
        return self.clock() >= self.end

    def allows(self, run: Run) -> bool:
        """Whether it would end in time, if it took as long as the longest of the last few of its kind."""
        return self.clock() + max(self._took[_kind(run)], default=0.0) < self.end

    def begun(self, run: Run) -> None:
        self._began[run] = self.clock()

    def ended(self, run: Run) -> None:
        if (began := self._began.pop(run, None)) is not None:
            self._took[_kind(run)].append(self.clock() - began)


def _kind(run: Run) -> Hashable:
    free = _FREE - {"retrieval"} if run.scored else _FREE
    return tuple((name, str(value)) for name, value in run.flat().items() if name not in free)
