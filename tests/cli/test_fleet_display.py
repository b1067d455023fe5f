"""What a person sees of a fleet: how often, what the lines say, how the time left is guessed."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.live import Live

from reprise.cli.fleet_display import (
    APART,
    EVERY,
    Estimate,
    FleetLines,
    FleetTerminal,
    View,
    fleet_picture,
    fleet_screen,
)
from reprise.lab import Progress


class Clock:
    """A clock that goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Kept(FleetLines):
    """Keeps the lines."""

    def __init__(self, steps: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(steps, clock)
        self.lines: list[str] = []

    def say(self, sentence: str) -> None:
        self.heart.rest()
        self.lines.append(sentence)


def test_the_rate_counts_from_the_first_step_on() -> None:
    estimate = Estimate()
    assert estimate(Progress(0, 0, 4, 0, 9.0)).rate is None  # still reading and capturing
    assert estimate(Progress(0, 0, 4, 100, 10.0)).rate is None
    assert estimate(Progress(0, 0, 4, 600, 12.0)).rate == pytest.approx(250)


def test_time_left_is_known_from_all_steps() -> None:
    estimate = Estimate(steps=4000)
    estimate(Progress(0, 0, 4, 200, 10.0))
    view = estimate(Progress(0, 0, 4, 1200, 20.0))
    assert view.left == pytest.approx(2800 / 100)
    assert view.share == pytest.approx(0.3)


def test_time_left_is_guessed_from_runs_that_have_ended() -> None:
    estimate = Estimate()
    estimate(Progress(0, 0, 10, 100, 1.0))
    assert estimate(Progress(0, 0, 10, 900, 9.0)).left is None
    view = estimate(Progress(2, 0, 10, 1600, 16.0, ended=400))  # 200 steps a run, so 2000 in all, at 100 a second
    assert view.left == pytest.approx(4)
    assert view.share == pytest.approx(0.8)
    assert estimate(Progress(3, 1, 10, 1800, 18.0, ended=400)).left == pytest.approx(2)  # one failed, and is no measure


def test_runs_without_steps_are_counted_themselves() -> None:
    estimate = Estimate()
    for done in (1, 2):
        assert estimate(Progress(done, 0, 7, 0, 0.1, known=done)).left is None
    assert estimate(Progress(3, 0, 7, 0, 2.0, known=2)).left is None  # the first
    view = estimate(Progress(5, 0, 7, 0, 6.0, known=2))
    assert (view.left, view.rate, view.share) == (pytest.approx(4), None, pytest.approx(0.6))


def test_runs_known_before_take_no_time() -> None:
    estimate = Estimate()
    for done in (1, 2, 3):
        assert estimate(Progress(done, 0, 5, 0, 0.1, known=done)).left is None
    estimate(Progress(3, 0, 5, 100, 1.0, known=3))
    view = estimate(Progress(4, 0, 5, 200, 2.0, known=3, ended=200))  # one of two runs done after 200 steps
    assert view.left == pytest.approx(2)
    assert estimate(Progress(5, 0, 5, 200, 2.0, known=4, ended=200)).left == 0  # the other came from another process


def test_lines_say_what_there_is_to_know() -> None:
    assert View(3, 0, 240, 65, 1234.5, 200).line == "3 of 240 runs · 1,234 steps/s · 1 min 5 s, 3 min 20 s left"
    assert View(3, 1, 240, 5).line == "3 of 240 runs, 1 failed · 5 s"
    assert View(240, 2, 240, 400, 8.25, 0).line == "240 of 240 runs, 2 failed · 8.2 steps/s · 6 min 40 s in all"


def test_lines_come_at_tenths_never_close_together() -> None:
    shown = Kept()
    for done in range(101):  # a run a second
        shown(Progress(done, 0, 100, 10 * done, float(done)))
    assert [line.split(" · ")[0] for line in shown.lines] == [f"{done} of 100 runs" for done in range(10, 101, 10)]
    quick = Kept()
    for done in range(101):  # a hundred runs in ten seconds
        quick(Progress(done, 0, 100, 10 * done, done / 10))
    assert len(quick.lines) == 10 / APART
    assert quick.lines[-1].startswith("100 of 100 runs")


def test_a_long_silence_is_broken_though_no_word_comes() -> None:
    clock = Clock()
    shown = Kept(steps=100, clock=clock)
    for second in range(100):
        clock.now = 100.0 + second
        if second == 12:
            shown(Progress(0, 0, 10, 10, 12.0))
        if second == 20:
            shown(Progress(0, 0, 10, 20, 20.0))
        shown.heart.look()
    assert shown.lines == [
        "getting ready",
        "0 of 10 runs · 1.2 steps/s · 40 s, 1 min 4 s left",
        "0 of 10 runs · 1.2 steps/s · 1 min 10 s, 1 min 4 s left",
    ]


def test_the_terminal_is_not_redrawn_at_every_word() -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Live(console=console, auto_refresh=False) as live:
        terminal = FleetTerminal("240 runs", live, clock=clock)
        due = []
        for _ in range(10):
            due.append(terminal.due(View(1, 0, 240, 1)))
            clock.now += EVERY / 4
        assert due.count(True) == 3
        assert terminal.due(View(240, 0, 240, 1))  # the end is always shown
        terminal(Progress(240, 0, 240, 5, 1.0))
        terminal.say("one failed")
    assert "240 of 240 runs" in out.getvalue()
    assert "one failed" in out.getvalue()


def test_the_picture_fits_a_narrow_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=70).print(fleet_picture("240 runs on cifar100", View(24, 0, 240, 65, 1034, 200, 0.1)))
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "240 runs on cifar100"
    for part in ("24 of 240 runs", "1,034 steps/s", "1 min 5 s, 3 min 20 s left"):
        assert part in lines[1]
    assert len(lines) == 2


def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with fleet_screen("2 runs on glyphs", steps=20) as screen:
        screen(Progress(0, 0, 2, 10, 1.0))
        screen(Progress(2, 1, 2, 20, 2.0))
        screen.say("failed: the second")
    assert out.getvalue() == ("2 runs on glyphs\n2 of 2 runs, 1 failed · 10 steps/s · 2 s in all\nfailed: the second\n")
    out.truncate(0)
    with fleet_screen("2 runs on glyphs", quiet=True) as screen:
        screen(Progress(2, 0, 2, 20, 2.0))
    assert out.getvalue() == ""
