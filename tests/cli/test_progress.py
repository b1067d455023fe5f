"""Lines where there is no terminal: by time, few, and in the middle of a long call, too."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reprise.cli import main, progress
from reprise.cli.fleet_display import FleetLines
from reprise.cli.progress import EVERY, FIRST, Heartbeat, Pace, Reach, progress_bar
from reprise.lab import Progress


class Clock:
    """A clock that goes on only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_early_and_then_at_times() -> None:
    clock, said = Clock(), []
    heart = Heartbeat(lambda: f"{clock.now:.0f}", said.append, clock)
    for second in range(121):
        clock.now = float(second)
        heart.look()
    assert (FIRST, EVERY) == (10, 30)
    assert said == ["10", "40", "70", "100"]


def test_a_line_that_came_anyway_counts() -> None:
    clock, said = Clock(), []
    heart = Heartbeat(lambda: f"{clock.now:.0f}", said.append, clock)
    for second in range(121):
        clock.now = float(second)
        if second in (5, 30, 90):
            heart.rest()
        heart.look()
    assert said == ["60", "120"]


def test_pace_is_that_since_the_first_news() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    assert pace.line == "0 of 1,000"
    clock.now = 50.0
    pace.reach(400)  # kept from before
    assert pace.line == "400 of 1,000"
    clock.now = 60.0
    pace.reach(500)
    assert pace.line == "500 of 1,000, 50 s left"


def test_what_was_known_before_says_nothing_about_the_rest() -> None:
    clock = Clock()
    pace = Pace(120, clock)
    for found in range(1, 16):
        pace.reach(found, found)
        clock.now += 0.5
    assert pace.line == "15 of 120"
    clock.now = 600.0
    pace.reach(17, 15)
    assert pace.line == "17 of 120, 8 h 35 min left"
    pace.reach(19, 17)  # two more came from another process
    assert pace.line == "19 of 120, 8 h 25 min left"


def test_a_long_call_does_not_keep_the_lines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "FIRST", 0.02)
    monkeypatch.setattr(progress, "LOOK_EVERY", 0.01)
    with progress_bar(4, "Auditing") as show:
        show(1)
        until = time.monotonic() + 30
        while not stderr.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert stderr.getvalue() == "Auditing: 1 of 4\n"


AUDIT = ["audit", "--classes", "4", "--steps", "5", "--retrieval", "iid,rpr", "--seeds", "2"]
STUDY = ["study", "run", "coverage", "--small", "--seeds", "1", "--error-seeds", "2"]


@pytest.mark.parametrize("command", [AUDIT, STUDY], ids=["audit", "study run"])
def test_a_command_says_which_runs_it_knew(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    @contextmanager
    def bar(total: int, what: str) -> Iterator[Reach]:
        yield lambda done, known=0: told.append((done, known))

    class Screen(FleetLines):
        def __call__(self, progress: Progress) -> None:
            told.append((progress.done, progress.known))

    @contextmanager
    def screen(about: str, *, quiet: bool) -> Iterator[Screen]:
        yield Screen(quiet=quiet)

    monkeypatch.setattr("reprise.cli.audit.progress_bar", bar)
    monkeypatch.setattr("reprise.cli.fleet_display.fleet_screen", screen)
    for again in (False, True):
        told.clear()
        assert main([*command, "--jobs", "1", "--out", str(tmp_path / "store")]) == 0
        done, known = told[-1]
        assert done > 1
        assert known == (done if again else 0)
