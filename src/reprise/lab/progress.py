"""How far a campaign has come: what whoever watches it is told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reprise.execute import RunOutcome
from reprise.runs.run import Run


@dataclass(frozen=True)
class Progress:
    """How far a campaign has come."""

    done: int  # runs that have ended, well or badly, those known before included
    failed: int
    total: int
    steps: int  # steps made since the start
    seconds: float
    known: int = 0  # of those done, runs that had their record already or got it from elsewhere
    left: float | None = None  # steps still to be made, as far as runs that have a record tell
    trains: bool = True  # whether any of the runs trains; audits have no steps


Watch = Callable[[Progress], None]


class Tally:
    """Counts the runs of a campaign and their steps, and tells whoever watches."""

    def __init__(self, runs: Sequence[Run], watch: Watch | None) -> None:
        self.total, self.watch = len(runs), watch
        self.done = self.failed = self.known = self.made = self.under_way = 0
        self.waiting = Counter(_kind(run) for run in runs if run.trains)
        self.trains = bool(self.waiting)
        self.lengths: dict[object, int] = {}  # steps of a run, known as soon as one of its kind has a record
        self.began = time.perf_counter()

    def steps(self, more: int) -> None:
        """So many steps have been made."""
        self.made += more
        self.under_way += more
        self._tell()

    def ended(self, outcome: RunOutcome) -> None:
        """A run has ended, well or badly."""
        self.done += 1
        self.failed += outcome.error is not None
        self.known += outcome.known
        if outcome.run.trains:
            kind, record = _kind(outcome.run), outcome.record
            self.waiting[kind] -= 1
            if record is not None:
                length = self.lengths[kind] = record["stream"]["steps"]
                if not outcome.known:  # one that was resumed made fewer here
                    self.under_way -= record["timings"].get("steps", length)
        self._tell()

    @property
    def left(self) -> float | None:
        """Steps still to be made; of kinds of which no run has a record as many as of the others."""
        if not self.lengths:
            return None
        usual = sum(self.lengths.values()) / len(self.lengths)
        waiting = sum(self.lengths.get(kind, usual) * count for kind, count in self.waiting.items())
        return max(waiting - self.under_way, 0.0)

    def _tell(self) -> None:
        if self.watch is not None:
            runs, seconds = (self.done, self.failed, self.total), time.perf_counter() - self.began
            self.watch(Progress(*runs, self.made, seconds, self.known, self.left, self.trains))


def _kind(run: Run) -> object:
    """What decides how many steps a run that trains has, up to a few."""
    return run.data, run.stream
