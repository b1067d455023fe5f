"""What a person sees of a fleet: runs done, rate, time left."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reprise.cli.progress import Heartbeat, beating, duration, say

if TYPE_CHECKING:
    from reprise.lab.progress import Progress

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
    """Turns what a campaign reports into a view: by steps where runs train, otherwise by runs that have ended."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None  # work and seconds at the first sign of work

    def __call__(self, progress: Progress) -> View:
        work, left = progress.steps, progress.left
        if not progress.trains:  # a record that was there cost nothing, and a run that failed says nothing
            work, left = progress.done - progress.known - progress.failed, progress.total - progress.done
        if work and self.first is None:
            self.first = work, progress.seconds
        rate = self._rate(work, progress.seconds)
        share = progress.done / max(progress.total, 1) if left is None or not work else work / (work + left)
        return View(
            *(progress.done, progress.failed, progress.total, progress.seconds),
            rate=rate if progress.steps else None,
            left=left / rate if left and rate else None,  # audits may be left where no step is
            share=share,
        )

    def _rate(self, work: int, seconds: float) -> float | None:
        if self.first is None:
            return None
        made, passed = work - self.first[0], seconds - self.first[1]
        return made / passed if made > 0 and passed > 0 else None


class FleetScreen(ABC):
    """Where views are shown; to be given to `campaign` as `watch`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.estimate = Estimate()
        self.clock = clock
        self.seen: tuple[View, float] | None = None  # and when

    def __call__(self, progress: Progress) -> None:
        view = self.estimate(progress)
        self.seen = view, self.clock()
        if self.due(view):
            self.show(view)

    @property
    def current(self) -> View | None:
        """The last view, with a clock that has gone on since."""
        if self.seen is None:
            return None
        view, when = self.seen
        return replace(view, seconds=view.seconds + self.clock() - when)

    @abstractmethod
    def due(self, view: View) -> bool:
        """Whether to show this view."""

    @abstractmethod
    def show(self, view: View) -> None: ...

    @abstractmethod
    def say(self, sentence: str) -> None:
        """Print a line that stays."""


class FleetLines(FleetScreen):
    """Plain lines: one for every tenth of the runs, and after a long silence, but never many.

    Quiet ones come after a long silence only, each with what they are about.
    """

    def __init__(self, about: str = "", clock: Callable[[], float] = time.monotonic, *, quiet: bool = False) -> None:
        super().__init__(clock)
        self.opening = f"{about}: " if about else ""
        self.quiet = quiet
        self.heart = Heartbeat(self._line, self.say, clock)
        self.last = 0.0
        self.tenth = 0

    def _line(self) -> str:
        view = self.current
        return self.opening + ("getting ready" if view is None else view.line)

    def due(self, view: View) -> bool:
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
    """Two lines that change in place and vanish at the end; the clock in them goes on though no word comes."""

    def __init__(self, about: str, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.about = about
        self.live = Live(console=console, get_renderable=self._picture, refresh_per_second=1 / EVERY, transient=True)

    def _picture(self) -> RenderableType:
        view = self.current
        return Text(self.about, style="dim") if view is None else fleet_picture(self.about, view)

    def due(self, view: View) -> bool:
        return view.over  # until then it is drawn by the clock

    def show(self, view: View) -> None:
        self.live.refresh()

    def say(self, sentence: str) -> None:
        self.live.console.print(Text(sentence), soft_wrap=True)


@contextmanager
def fleet_lines() -> Iterator[FleetLines]:
    """Plain lines on standard error, after long silences only: whoever uses it says itself what has ended."""
    lines = FleetLines(quiet=True)
    with beating(lines.heart):
        yield lines


@contextmanager
def fleet_screen(about: str, *, quiet: bool = False) -> Iterator[FleetScreen]:
    """A screen on standard error for `campaign(..., watch=screen)`.

    Without a terminal, a `quiet` one has lines after long silences only.
    """
    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        lines = FleetLines(about if quiet else "", quiet=quiet)
        if not quiet:
            say(about)
        with beating(lines.heart):
            yield lines
        return
    terminal = FleetTerminal(about, console)
    with terminal.live:
        yield terminal


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
