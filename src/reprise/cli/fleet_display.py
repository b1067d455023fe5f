"""What a person sees of a fleet: runs done, rate, time left."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reprise.cli.progress import Heartbeat, beating, duration, say

if TYPE_CHECKING:
    from reprise.lab.campaign import Progress

EVERY = 0.25  # seconds between two pictures on a terminal
APART = 5.0  # seconds that lie between two plain lines, the last apart


@dataclass(frozen=True)
class View:
    """How far a fleet has come, and how fast it goes."""

    done: int
    failed: int
    total: int
    seconds: float
    rate: float | None = None
    """Steps a second, all runs together."""
    left: float | None = None
    """Seconds that it will still take, as far as can be told."""
    share: float = 0.0
    """How much of the work is done."""

    @property
    def over(self) -> bool:
        return self.done == self.total

    @property
    def runs(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total} runs{failed}"

    @property
    def speed(self) -> str:
        return "" if not self.rate else f"{self.rate:,.{0 if self.rate >= 10 else 1}f} steps/s"

    @property
    def time(self) -> str:
        if self.over:
            return f"{duration(self.seconds)} in all"
        left = "" if self.left is None else f", {duration(self.left)} left"
        return f"{duration(self.seconds)}{left}"

    @property
    def line(self) -> str:
        return " · ".join(filter(None, (self.runs, self.speed, self.time)))


class Estimate:
    """Turns what a fleet reports into a view.

    The work of the whole is the steps of all runs, where they are known. Otherwise those of runs that have ended tell
    how long a run is. Runs without steps, which are audits, are counted themselves.
    """

    def __init__(self, steps: int | None = None) -> None:
        self.steps = steps
        self.first: tuple[int, float] | None = None  # work and seconds at the first sign of work

    def __call__(self, progress: Progress) -> View:
        work = progress.steps or _made(progress)
        if work and self.first is None:
            self.first = work, progress.seconds
        whole, rate = self._whole(progress), self._rate(progress, work)
        left = max(whole - work, 0) / rate if whole and rate else None
        share = min(work / whole, 1.0) if whole else progress.done / max(progress.total, 1)
        speed = rate if progress.steps else None
        return View(progress.done, progress.failed, progress.total, progress.seconds, speed, left, share)

    def _whole(self, progress: Progress) -> float | None:
        if self.steps is not None:
            return float(self.steps)
        each = progress.ended / max(_made(progress) - progress.failed, 1) if progress.steps else 1.0
        return each * (progress.total - progress.known) or None

    def _rate(self, progress: Progress, work: int) -> float | None:
        if self.first is None:
            return None
        made, seconds = work - self.first[0], progress.seconds - self.first[1]
        return made / seconds if made > 0 and seconds > 0 else None


def _made(progress: Progress) -> int:
    """Runs that have ended here: a record that was there cost nothing and says nothing."""
    return progress.done - progress.known


class FleetScreen(ABC):
    """Where views are shown; to be given to `campaign` as `watch`."""

    def __init__(self, steps: int | None = None) -> None:
        self.estimate = Estimate(steps)

    def __call__(self, progress: Progress) -> None:
        view = self.estimate(progress)
        if self.due(view):
            self.show(view)

    @abstractmethod
    def due(self, view: View) -> bool:
        """Whether to show this view."""

    @abstractmethod
    def show(self, view: View) -> None: ...

    @abstractmethod
    def say(self, sentence: str) -> None:
        """Print a line that stays."""


class FleetLines(FleetScreen):
    """Plain lines: one for every tenth of the runs, and after a long silence, but never many."""

    def __init__(
        self, steps: int | None = None, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False
    ) -> None:
        super().__init__(steps)
        self.clock = clock
        self.quiet = quiet
        self.heart = Heartbeat(self._line, self.say, clock)
        self.last = 0.0
        self.tenth = 0
        self.seen: tuple[View, float] | None = None  # and when

    def _line(self) -> str:
        if self.seen is None:
            return "getting ready"
        view, when = self.seen
        return replace(view, seconds=view.seconds + self.clock() - when).line

    def due(self, view: View) -> bool:
        self.seen = view, self.clock()
        if self.quiet:
            return False
        tenth = 10 * view.done // max(view.total, 1)
        if not view.over and (view.seconds - self.last < APART or tenth == self.tenth):
            return False
        self.last, self.tenth = view.seconds, tenth
        return True

    def show(self, view: View) -> None:
        self.say(view.line)

    def say(self, sentence: str) -> None:
        self.heart.rest()
        say(sentence)


class FleetTerminal(FleetScreen):
    """Two lines that change in place and vanish at the end."""

    def __init__(
        self, about: str, live: Live, steps: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(steps)
        self.about = about
        self.live = live
        self.clock = clock
        self.last = -EVERY

    def due(self, view: View) -> bool:
        now = self.clock()
        if not view.over and now - self.last < EVERY:
            return False
        self.last = now
        return True

    def show(self, view: View) -> None:
        self.live.update(fleet_picture(self.about, view), refresh=True)

    def say(self, sentence: str) -> None:
        self.live.console.print(Text(sentence), soft_wrap=True)


@contextmanager
def fleet_lines(steps: int | None = None) -> Iterator[FleetLines]:
    """Plain lines on standard error, after long silences only: whoever uses it says itself what has ended."""
    lines = FleetLines(steps, quiet=True)
    with beating(lines.heart):
        yield lines


@contextmanager
def fleet_screen(about: str, steps: int | None = None, *, quiet: bool = False) -> Iterator[FleetScreen]:
    """A screen on standard error for `campaign(..., watch=screen)`; `steps` are those of all runs, if known.

    Without a terminal, a `quiet` one has lines after long silences only.
    """
    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        if quiet:
            with fleet_lines(steps) as lines:
                yield lines
            return
        lines = FleetLines(steps)
        say(about)
        with beating(lines.heart):
            yield lines
        return
    with Live(Text(about, style="dim"), console=console, auto_refresh=False, transient=True) as live:
        yield FleetTerminal(about, live, steps)


def fleet_picture(about: str, view: View) -> Group:
    """A view as the terminal shows it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(min_width=4, max_width=40)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    bar = ProgressBar(1.0, view.share, complete_style="cyan", finished_style="cyan")
    grid.add_row(view.runs, bar, view.speed, view.time)
    return Group(Text(about, style="dim", no_wrap=True, overflow="ellipsis"), grid)
