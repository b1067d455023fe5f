"""What every executor is: runs go in, and come out with their records as they end.

An executor neither skips runs nor keeps records: that is the campaign's, which says by `start` whether a run is to be
made at all, and where its checkpoints go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprise.core.files import Record
from reprise.runs.run import Run
from reprise.track import Tracking

LANES = 24
"""Runs that go at once on a GPU, where it is large and they are many."""


def share_of(lanes: int | None) -> int:
    """Runs that a GPU is given at a time, where others could take them: two fillings of its lanes."""
    return 2 * (lanes or LANES)


@dataclass(frozen=True)
class Job:
    """How a run is to be made."""

    checkpoints: Path | None = None
    """Folder for its checkpoints; it goes on from there. None for a run that is not to be resumed."""
    checkpoint_every: int = 0
    """Steps between checkpoints, beside those at task boundaries; 0 for none."""
    keep: Path | None = None
    """Folder for its tape and weights, if they are to be kept."""
    record: Path | None = None
    """File of a store that its record goes to. Whoever gave this job writes it, and a maker that may outlive them, on
    another machine with the same storage, writes it as well; a record that is there already is not made again."""
    track: Tracking = field(default_factory=Tracking)
    """Who is told of it while it trains."""


@dataclass(frozen=True)
class RunOutcome:
    """A run that has ended: with its record, or with what went wrong."""

    run: Run
    record: Record | None
    error: Exception | None = None
    known: bool = False
    """Whether the record was there already, so that nothing was made."""

    @property
    def name(self) -> str:
        """The run in a few words."""
        return self.run.name


Start = Callable[[Run], "Job | None"]
"""Asked just before a run is begun: how to make it, or None if it is to be left out."""
Tick = Callable[[int], None]
"""Told of steps that have been made."""
Outcomes = Generator[RunOutcome, None, None]


class Executor(ABC):
    """Makes runs. Closing the generator that `execute` gives stops all that is under way."""

    @abstractmethod
    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        """Make these runs, and give each as it ends, in no promised order; one that fails does not stop the others."""
