"""What a person sees of a run while it trains, and when it has ended."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reprise.cli.progress import Heartbeat, beating, duration, say
from reprise.lab.run_group import METRICS

if TYPE_CHECKING:
    from reprise.train import StepResult, Training

EVERY = 0.25  # seconds between two looks at a run: a look waits for the device
SMOOTHED = 50  # steps whose mean is the loss that is shown
NOTHING = "–"


@dataclass(frozen=True)
class Moment:
    """How far a run has come."""

    step: int
    steps: int
    task: int
    tasks: int
    loss: float
    tested: int = 0
    """Steps done when it was last tested; 0 before the first time."""
    accuracy: Mapping[str, float | None] | None = None
    """Task-mean accuracy by read-out, when it was last tested."""
    rate: float | None = None
    """Steps a second."""
    passed: float = 0.0
    """Seconds since its first step here."""
    testing: bool = False
    """Whether it is being tested after this step."""

    @property
    def left(self) -> str:
        """The time that it will still take, or took."""
        if self.step == self.steps and not self.testing:
            return f"{duration(self.passed)} in all"
        return "" if not self.rate else f"{duration((self.steps - self.step) / self.rate)} left"

    @property
    def speed(self) -> str:
        return "" if not self.rate else f"{self.rate:.{0 if self.rate >= 10 else 1}f} steps/s"

    @property
    def line(self) -> str:
        step = f"step {self.step} of {self.steps}{', being tested' if self.testing else ''}"
        parts = [f"task {self.task} of {self.tasks}", step, f"loss {self.loss:.2f}"]
        if self.accuracy is not None:
            parts.append("accuracy " + " ".join(f"{name} {per_cent(found)}" for name, found in self.accuracy.items()))
        return " · ".join([*parts, *filter(None, (self.speed, self.left))])


class Screen(ABC):
    """Where moments are shown."""

    now: Callable[[], Moment] | None = None
    """How far the run is at this moment, once it has begun."""

    @abstractmethod
    def due(self, boundary: bool) -> bool:
        """Whether to show this moment."""

    @abstractmethod
    def show(self, moment: Moment) -> None: ...

    @abstractmethod
    def reading(self, done: int, whole: int) -> None:
        """So many images have been read."""

    @abstractmethod
    def say(self, sentence: str) -> None:
        """Print a line that stays."""


class Lines(Screen):
    """Plain lines, one for every task, and now and then one between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.between = "getting ready"
        self.heart = Heartbeat(self._line, self.say, clock)

    def _line(self) -> str:
        return self.between if self.now is None else self.now().line

    def due(self, boundary: bool) -> bool:
        return boundary

    def show(self, moment: Moment) -> None:
        self.say(moment.line)

    def reading(self, done: int, whole: int) -> None:
        self.between = f"reading images: {done:,} of {whole:,}" if done < whole else "getting ready"

    def say(self, sentence: str) -> None:
        self.heart.rest()
        say(sentence)


class Terminal(Screen):
    """A few lines that change in place and vanish at the end."""

    def __init__(self, about: str, live: Live, clock: Callable[[], float] = time.monotonic) -> None:
        self.about = about
        self.live = live
        self.clock = clock
        self.last = -EVERY

    def due(self, boundary: bool) -> bool:
        """At a boundary always: the device has been waited for anyway."""
        now = self.clock()
        if not boundary and now - self.last < EVERY:
            return False
        self.last = now
        return True

    def show(self, moment: Moment) -> None:
        self.live.update(picture(self.about, moment), refresh=True)

    def reading(self, done: int, whole: int) -> None:
        if self.due(boundary=done == whole):
            bar = _row("reading images", done, whole, f"{done:,} of {whole:,}")
            self.live.update(Group(Text(self.about, style="dim"), bar), refresh=True)

    def say(self, sentence: str) -> None:
        self.live.console.print(Text(sentence), soft_wrap=True)


class Watch:
    """Called after every step, shows on a screen how far the run has come."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self.screen = screen
        self.clock = clock
        self.begun: tuple[int, float] | None = None
        self.told = self.tested = 0
        self.accuracy: dict[str, float | None] | None = None

    def __call__(self, run: Training, trained: StepResult) -> None:
        self.told = trained.step
        if self.begun is None:
            self.begun = (trained.step, self.clock())
            self.screen.now = lambda: self._moment(run, run.step, testing=run.step > self.told)
            if trained.step > 1:
                self.screen.say(f"goes on after step {trained.step - 1} of {run.steps}")
        if trained.evaluations is not None:
            from reprise.runs.metrics import final

            self.tested = trained.step
            self.accuracy = {name: final(found) for name, found in trained.evaluations.items()}
        if self.screen.due(trained.step in run.boundaries):
            self.screen.show(self._moment(run, trained.step))

    def _moment(self, run: Training, step: int, *, testing: bool = False) -> Moment:
        assert self.begun is not None
        loss = float(run.losses[max(0, step - SMOOTHED) : step].mean())  # waits for the device
        first, start = self.begun
        passed = self.clock() - start
        ends = run.plan.stream.boundaries
        return Moment(
            step,
            run.steps,
            int(np.searchsorted(ends, step)) + 1,
            len(ends),
            loss,
            self.tested,
            self.accuracy,
            (step - first) / passed if step > first and passed > 0 else None,
            passed,
            testing and step in run.due,
        )


@contextmanager
def screen(about: str) -> Iterator[Screen]:
    """A screen on standard error: one that changes in place on a terminal, plain lines elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        lines = Lines()
        say(about)
        with beating(lines.heart):
            yield lines
        return
    with Live(Text(about, style="dim"), console=console, auto_refresh=False, transient=True) as live:
        yield Terminal(about, live)


def picture(about: str, moment: Moment) -> Group:
    """A moment as the terminal shows it."""
    whole = f"{moment.steps:,}"
    done = f"step {moment.step:>{len(whole)},} of {whole}"  # as wide at every step, so that the bar stands still
    bar = _row(f"task {moment.task} of {moment.tasks}", moment.step, moment.steps, done, moment.left)
    figures = Text.assemble(("loss ", "dim"), (f"{moment.loss:.2f}", "bold"), no_wrap=True, overflow="ellipsis")
    if moment.speed:
        figures.append(f"   {moment.speed}", "dim")
    if moment.accuracy is not None:
        figures.append("   accuracy", "dim")
        for name, found in moment.accuracy.items():
            figures.append(f" {name} ", "dim").append(per_cent(found), "bold")
        figures.append(f" after step {moment.tested:,}", "dim")
    return Group(Text(about, style="dim", no_wrap=True, overflow="ellipsis"), bar, figures)


def _row(what: str, done: int, whole: int, *more: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(min_width=4, max_width=40)
    bar = ProgressBar(whole, done, complete_style="cyan", finished_style="cyan")
    for _ in more:
        grid.add_column(no_wrap=True)
    grid.add_row(what, bar, *more)
    return grid


def results(record: Mapping[str, Any]) -> RenderableType:
    """What a run came to: every metric for both read-outs, and how long classes waited."""
    metrics = record["metrics"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("per cent" if record["split"] == "test" else "per cent, validation", no_wrap=True)
    for name in metrics:
        table.add_column(name, justify="right", no_wrap=True)
    even = len(set(record.get("stream", {}).get("counts", [0, 1]))) == 1  # no class is rarer: thirds would mean nothing
    for key, what in METRICS.items():
        if even and key in ("head", "mid", "tail"):
            continue
        style = "bold" if key == "final" else None
        table.add_row(
            what, *(_figure(found[key], signed=key == "backward_transfer") for found in metrics.values()), style=style
        )
    before = f"Prequential accuracy: {per_cent(record['prequential']['accuracy'])}."
    return Group(table, Text(), Text(before), Text(waiting(record["audit"])))


def several(records: Sequence[Mapping[str, Any]]) -> RenderableType:
    """What many runs came to, a line each."""
    from reprise.audit import longest_wait
    from reprise.lab.table import run_names

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", overflow="fold")
    for name in ("ema %", "live %", "longest wait", "identity"):
        table.add_column(name, justify="right", no_wrap=True)
    for record, name in zip(records, run_names(records), strict=True):
        finals = (_figure(record["metrics"][name]["final"], signed=False) for name in ("ema", "live"))
        waited = longest_wait(record["audit"])
        named = f"{name}, seed {record['run']['seed']}"
        table.add_row(Text(named), *finals, NOTHING if waited is None else str(waited), record["identity"][:8])
    return table


def waiting(audit: Mapping[str, Any]) -> str:
    """How long classes waited, in one line; waits that are no gap count, too."""
    if not audit["distinct_per_batch"]:
        return "Nothing came back by replay."
    from reprise.audit import longest_wait

    over = audit["violations"] + audit["overdue"]
    came = "No class came back twice"
    if audit["mean"] is not None:
        came = f"A class came back after {audit['mean']:.1f} steps on average, {audit['p99']:.0f} at p99"
    above = f"{over} {'wait' if over == 1 else 'waits'} above the bound"
    return f"{came}; the longest wait took {longest_wait(audit)}; {above}."


def per_cent(share: float | None) -> str:
    """A share in per cent, with one digit after the point."""
    return NOTHING if share is None else f"{100 * share:.1f}%"


def _figure(share: float | None, *, signed: bool) -> str:
    return NOTHING if share is None else f"{100 * share:{'+' if signed else ''}.2f}"
