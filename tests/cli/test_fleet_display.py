"""What a person sees of a fleet: how often, what the lines say, how the time left is guessed."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import pytest
from rich.console import Console

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

    def __init__(self, about: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(about, clock)
        self.lines: list[str] = []

    def say(self, sentence: str) -> None:
        self.heart.rest()
        self.lines.append(sentence)


def test_the_rate_counts_from_the_first_step_on() -> None:
    estimate = Estimate()
    assert estimate(Progress(0, 0, 4, 0, 9.0)).rate is None  # still reading and capturing
    assert estimate(Progress(0, 0, 4, 100, 10.0)).rate is None
    assert estimate(Progress(0, 0, 4, 600, 12.0)).rate == pytest.approx(250)


def test_time_left_is_that_of_the_steps_that_are_left() -> None:
    estimate = Estimate()
    estimate(Progress(0, 0, 4, 200, 10.0))
    assert estimate(Progress(0, 0, 4, 700, 15.0)).left is None
    view = estimate(Progress(1, 0, 4, 1200, 20.0, left=2800))
    assert (view.left, view.share) == (pytest.approx(28), pytest.approx(0.3))
    view = estimate(Progress(4, 1, 5, 4000, 50.0, left=0))  # an audit is still to come
    assert (view.left, view.share) == (None, 1)


def test_runs_that_end_before_a_step_is_made_are_no_measure() -> None:
    estimate = Estimate()
    for second in range(3):  # their data cannot be read
        view = estimate(Progress(second + 1, second + 1, 12, 0, float(second)))
        assert (view.left, view.rate) == (None, None)
    for audits in (1, 2):
        assert estimate(Progress(3 + audits, 3, 12, 0, 2.0 + audits / 4)).left is None
    view = estimate(Progress(6, 3, 12, 0, 3.0, known=1, left=900))
    assert (view.left, view.share) == (None, pytest.approx(0.5))
    estimate(Progress(6, 3, 12, 100, 10.0, known=1, left=800))
    assert estimate(Progress(6, 3, 12, 200, 11.0, known=1, left=700)).left == pytest.approx(7)


def test_audits_by_themselves_are_counted() -> None:
    estimate = Estimate()
    for done in (1, 2):
        assert estimate(Progress(done, 0, 8, 0, 0.1, known=done, trains=False)).left is None
    assert estimate(Progress(3, 0, 8, 0, 2.0, known=2, trains=False)).left is None  # the first
    view = estimate(Progress(6, 1, 8, 0, 6.0, known=2, trains=False))
    assert (view.left, view.rate, view.share) == (pytest.approx(4), None, pytest.approx(0.6))


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
    shown = Kept("a study", clock=clock)
    for second in range(100):
        clock.now = 100.0 + second
        if second == 12:
            shown(Progress(0, 0, 10, 10, 12.0))
        if second == 20:
            shown(Progress(0, 0, 10, 20, 20.0, left=80))
        shown.heart.look()
    assert shown.lines == [
        "a study: getting ready",
        "a study: 0 of 10 runs · 1.2 steps/s · 40 s, 1 min 4 s left",
        "a study: 0 of 10 runs · 1.2 steps/s · 1 min 10 s, 1 min 4 s left",
    ]


def test_the_terminal_shows_the_last_word_and_a_clock_that_goes_on() -> None:
    clock, out = Clock(), io.StringIO()
    terminal = FleetTerminal("240 runs", Console(file=out, force_terminal=True, width=100), clock=clock)
    terminal.live.auto_refresh = False

    def drawn() -> str:
        before = len(out.getvalue())
        terminal.live.refresh()
        return out.getvalue()[before:]

    with terminal.live:
        assert "240 runs" in drawn()
        before = len(out.getvalue())
        for done in range(1, 10):
            terminal(Progress(done, 0, 240, 5 * done, 10.0))
        assert len(out.getvalue()) == before  # not at every word
        assert "9 of 240 runs" in (first := drawn())
        assert "10 s" in first
        clock.now += 25
        assert "35 s" in drawn()
        terminal.say("one failed")
        before = len(out.getvalue())
        terminal(Progress(240, 1, 240, 1200, 40.0, left=0))
        assert "240 of 240 runs, 1 failed" in out.getvalue()[before:]  # the end is shown at once
    assert "one failed" in out.getvalue()


def test_the_terminal_is_drawn_though_no_word_comes() -> None:
    out = io.StringIO()
    terminal = FleetTerminal("2 runs", Console(file=out, force_terminal=True, width=100))
    with terminal.live:
        terminal(Progress(1, 0, 2, 5, 1.0))
        deadline = time.monotonic() + 60
        while "1 of 2 runs" not in out.getvalue():
            assert time.monotonic() < deadline
            time.sleep(EVERY)


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
    with fleet_screen("2 runs on glyphs") as screen:
        screen(Progress(0, 0, 2, 10, 1.0))
        screen(Progress(2, 1, 2, 20, 2.0))
        screen.say("failed: the second")
    assert out.getvalue() == ("2 runs on glyphs\n2 of 2 runs, 1 failed · 10 steps/s · 2 s in all\nfailed: the second\n")
    out.seek(0)
    out.truncate()
    with fleet_screen("2 runs on glyphs", quiet=True) as screen:
        screen(Progress(2, 0, 2, 20, 2.0))
        assert out.getvalue() == ""
        screen.heart.say(screen.heart.line())
    assert out.getvalue().startswith("2 runs on glyphs: 2 of 2 runs · ")
