"""How far things are: a bar on a terminal for what takes longer than a second; elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 1.0  # seconds
FIRST, EVERY = 10.0, 30.0  # seconds without a line, until the first one comes, and then until the next
LOOK_EVERY = 1.0  # seconds between two looks at the clock


class Heartbeat:
    """Says how far things are when nothing has been said for long; `line` gives the words."""

    def __init__(
        self, line: Callable[[], str], say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.line, self.say, self.clock = line, say, clock
        self.due = clock() + FIRST

    def rest(self) -> None:
        """Something has been said."""
        self.due = self.clock() + EVERY

    def look(self) -> None:
        """Say a line if it is time."""
        if self.clock() >= self.due:
            self.rest()
            self.say(self.line())


@contextmanager
def beating(heart: Heartbeat) -> Iterator[None]:
    """Within it, a thread looks at the clock: so a line comes in the middle of a long call, too."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(LOOK_EVERY):
            heart.look()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def say(sentence: str) -> None:
    """Print a line on standard error, in one go: two threads may do so."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


class Reach(Protocol):
    """To be called with the number done, and how many of these were known before and took no time."""

    def __call__(self, done: int, known: int = 0) -> None: ...


@contextmanager
def progress_bar(total: int, what: str) -> Iterator[Reach]:
    """Gives a function to call with the number done. On a terminal a bar shows after a second; elsewhere lines come."""
    if not sys.stderr.isatty():
        pace = Pace(total)
        with beating(Heartbeat(lambda: f"{what}: {pace.line}", say)):
            yield pace.reach
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)
    turn, over = threading.Lock(), threading.Event()

    def show() -> None:
        with turn:
            if not over.is_set():
                bar.start()

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, known=0: bar.update(task, completed=done)
    finally:
        timer.cancel()
        over.set()
        with turn:
            bar.stop()


class Pace:
    """How much of a whole is done, and how long the rest will take if it goes on as since the first news."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.clock = total, clock
        self.done = self.made = 0
        self.first: tuple[int, float] | None = None

    def reach(self, done: int, known: int = 0) -> None:
        """So much is done; what was known before took no time, and says nothing about the rest."""
        self.done, self.made = done, done - known
        if self.first is None:
            self.first = self.made, self.clock()

    @property
    def left(self) -> float | None:
        """Seconds, if there is something to tell them from."""
        if self.first is None or self.made <= self.first[0]:
            return None
        return (self.clock() - self.first[1]) * (self.total - self.done) / (self.made - self.first[0])

    @property
    def line(self) -> str:
        left = self.left
        return f"{self.done:,} of {self.total:,}" + ("" if left is None else f", {duration(left)} left")


def duration(seconds: float) -> str:
    """A time as one says it: '9 s', '3 min 20 s', '2 h 5 min'."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
