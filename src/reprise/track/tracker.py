"""What a tracker is: who is told of a run while it trains, and how one is named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.files import Record
from reprise.core.registry import find
from reprise.runs.run import Run

Values = Mapping[str, float]


@dataclass(frozen=True)
class RunFacts:
    """What a tracker is told of a run before its first value."""

    run: Run
    identity: str
    """The name of its record."""
    steps: int
    """Steps that it takes in all."""
    done: int
    """Steps that were done before: those of the checkpoint that it goes on from. Their values come first, again."""
    names: tuple[str, ...]
    """The names of all values that may come."""
    folder: Path
    """The folder for its files; it need not be there."""


class Tracker(ABC):
    """Is told of a run while it trains. What comes after the colon of its spec is its argument.

    One tracker serves one run. The log of a run that goes on from a checkpoint is told from its first step on, so that
    it is whole: `begin` clears away what is left of an earlier one. An error in a method ends the tracker, not the run.
    """

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument

    def begin(self, facts: RunFacts) -> None:  # noqa: B027 - it may be left out
        """The run begins, or goes on."""

    @abstractmethod
    def log(self, step: int, values: Values) -> None:
        """Values after this many steps; steps rise."""

    def end(self, record: Record | None, error: BaseException | None) -> None:  # noqa: B027 - as well
        """The run has ended with this record, or was ended by this error."""

    def folder(self, facts: RunFacts) -> Path:
        """The folder for the run's files, made: that of its identity in the one named, or else the run's own."""
        folder = facts.folder if self.argument is None else Path(self.argument) / facts.identity
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class FunctionTracker(Tracker):
    """Calls a function with the step and its values."""

    def __init__(self, function: Callable[[int, Values], object]) -> None:
        super().__init__()
        self.function = function

    def log(self, step: int, values: Values) -> None:
        self.function(step, values)


@dataclass(frozen=True)
class Tracking:
    """Who is told of runs, how often, and where files go.

    A tracker is a spec, such as "csv" or "csv:logs", an object with the methods of `Tracker`, or a function of a step
    and its values. Specs travel to other processes; what else does must be picklable.
    """

    trackers: tuple[Any, ...] = ()
    every: int = 10
    """Steps between values; there are some at every test, too."""
    folder: Path = Path("tracks")
    """Holds a folder for each run, of its identity, for trackers that are not given another."""

    def __post_init__(self) -> None:
        as_int(self.every, "track every", 1)
        object.__setattr__(self, "folder", Path(self.folder))

    def make(self) -> list[Tracker]:
        """The trackers for one run; what can be known to be wrong is an error here."""
        return [as_tracker(one) for one in self.trackers]


def as_tracking(given: Any) -> Tracking:
    """The tracking that is meant by a `Tracking`, one tracker or several."""
    if isinstance(given, Tracking):
        return given
    several = isinstance(given, Sequence) and not isinstance(given, str)
    return Tracking(() if given is None else tuple(given) if several else (given,))


def as_tracker(given: Any) -> Tracker:
    """The tracker that is meant by a spec, an object or a function.

    >>> as_tracker("cvs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown tracker 'cvs': did you mean 'csv'? Known: csv, ...
    """
    if isinstance(given, str):
        name, colon, argument = given.partition(":")
        if colon and not argument:
            raise ValueError(f"a tracker's argument comes after its colon, got {given!r}")
        made: Tracker = find("tracker", name)(*[argument] if colon else [])
        return made
    if isinstance(given, type):
        raise TypeError(f"a tracker is an object, got the class {given.__name__}: write {given.__name__}()")
    absent = [name for name in ("begin", "log", "end") if not callable(getattr(given, name, None))]
    if not absent:
        found: Tracker = given
        return found
    if callable(given):
        return FunctionTracker(given)
    raise TypeError(
        f"a tracker is a spec, a function, or an object with the methods of reprise.track.Tracker; {given!r} lacks "
        f"{', '.join(absent)}"
    )
