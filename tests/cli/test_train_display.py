"""What a person sees of a training run: how often it is looked at, what the lines say, what fits a terminal."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.live import Live

from reprise.cli import display
from reprise.cli.display import (
    EVERY,
    SMOOTHED,
    Lines,
    Moment,
    Terminal,
    Watch,
    duration,
    per_cent,
    picture,
    results,
    screen,
    several,
    waiting,
)
from reprise.lab.run_group import METRICS

ABOUT = "er-ace on cifar100-lt10 · reservoir 5,120 · rpr 8 · seed 0 · cuda"
LATER = Moment(192, 640, 3, 10, 4.1234, 128, {"ema": 0.098, "live": 0.081}, 52.3, 3.7)


class Clock:
    """A clock that goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Losses:
    """Losses that count how often they are read; the loss of step t, counted from 1, is t."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []

    def __getitem__(self, part: slice) -> Any:
        self.read.append((part.start, part.stop))
        return np.arange(part.start + 1, part.stop + 1)


class Shown(Lines):
    """Keeps the moments it is shown."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.said: list[str] = []

    def show(self, moment: Moment) -> None:
        self.moments.append(moment)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def fake_run(steps: int = 100, tasks: int = 4) -> Any:
    ends = np.arange(1, tasks + 1) * (steps // tasks)
    return SimpleNamespace(
        steps=steps,
        boundaries=set(ends.tolist()),
        due=set(ends.tolist()),
        plan=SimpleNamespace(stream=SimpleNamespace(boundaries=ends)),
        losses=Losses(),
    )


def done(step: int, evaluations: Any = None) -> Any:
    return SimpleNamespace(step=step, evaluations=evaluations)


def terminal(clock: Clock, width: int = 100) -> tuple[Terminal, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    return Terminal(ABOUT, Live(console=console, auto_refresh=False), clock), file


def shown_as(what: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as text:
        console.print(what)
    return text.get().splitlines()


def test_terminal_looks_at_the_run_four_times_a_second_at_most() -> None:
    clock, run = Clock(), fake_run(steps=1000, tasks=1)
    watch = Watch(terminal(clock)[0], clock)
    for step in range(1, 1000):
        watch(run, done(step))
        clock.now += 0.01
    seconds = 999 * 0.01
    assert seconds / EVERY * 0.9 < len(run.losses.read) <= seconds / EVERY + 1


def test_lines_look_at_boundaries_only() -> None:
    clock, run, shown = Clock(), fake_run(), Shown()
    watch = Watch(shown, clock)
    for step in range(1, 101):
        clock.now += 0.1
        watch(run, done(step))
    assert [(moment.step, moment.task, moment.tasks) for moment in shown.moments] == [
        (25, 1, 4),
        (50, 2, 4),
        (75, 3, 4),
        (100, 4, 4),
    ]
    assert run.losses.read == [(max(0, step - SMOOTHED), step) for step in (25, 50, 75, 100)]
    assert [moment.loss for moment in shown.moments] == [13.0, 25.5, 50.5, 75.5]
    assert [moment.rate for moment in shown.moments] == pytest.approx([10.0] * 4)
    assert shown.moments[-1].passed == pytest.approx(9.9)
    assert shown.said == []


def test_lines_come_by_time_too_whatever_the_run_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(display, "say", said.append)
    clock, run = Clock(), fake_run()
    lines = Lines(clock)
    watch = Watch(lines, clock)

    def after(seconds: float) -> str | None:
        clock.now += seconds
        before = len(said)
        lines.heart.look()
        return said[-1] if len(said) > before else None

    assert after(9) is None
    assert after(1) == "getting ready"
    lines.reading(512, 5000)
    assert after(29) is None
    assert after(1) == "reading images: 512 of 5,000"
    lines.reading(5000, 5000)
    assert after(30) == "getting ready"
    for step in range(1, 25):
        clock.now += 1
        run.step = step
        watch(run, done(step))
    assert after(10) == "task 1 of 4 · step 24 of 100 · loss 12.50 · 0.7 steps/s · 1 min 49 s left"
    run.step = 25  # which ends a task: the read-outs are tested before anybody is told
    assert after(30) == "task 1 of 4 · step 25 of 100, being tested · loss 13.00 · 0.4 steps/s · 3 min 17 s left"
    watch(run, done(25))
    assert said[-1].startswith("task 1 of 4 · step 25 of 100 · loss 13.00 · ")
    assert after(29) is None  # a line that came anyway counts
    run.step = 100
    assert "step 100 of 100, being tested" in str(after(1))
    assert "in all" not in said[-1]


def test_resumed_run_counts_from_where_it_goes_on() -> None:
    clock, run, shown = Clock(), fake_run(), Shown()
    watch = Watch(shown, clock)
    for step in range(41, 51):
        clock.now += 0.5
        watch(run, done(step))
    assert shown.said == ["goes on after step 40 of 100"]
    (moment,) = shown.moments
    assert moment.rate == pytest.approx(2.0)
    assert moment.left == "25 s left"


def test_accuracy_is_that_of_the_last_test(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = pytest.importorskip("reprise.runs.metrics", reason="training needs torch")
    monkeypatch.setattr(metrics, "final", lambda found: found)
    clock, run, shown = Clock(), fake_run(), Shown()
    watch = Watch(shown, clock)
    for step in range(1, 51):
        watch(run, done(step, {"ema": step / 100, "live": None} if step in (10, 25, 40) else None))
    first, second = shown.moments
    assert (first.tested, first.accuracy) == (25, {"ema": 0.25, "live": None})
    assert (second.tested, second.accuracy) == (40, {"ema": 0.40, "live": None})


def test_line() -> None:
    assert LATER.line == (
        "task 3 of 10 · step 192 of 640 · loss 4.12 · accuracy ema 9.8% live 8.1% · 52 steps/s · 9 s left"
    )
    assert Moment(1, 640, 1, 10, 5.0).line == "task 1 of 10 · step 1 of 640 · loss 5.00"
    last = Moment(640, 640, 10, 10, 2.0, 640, {"ema": None}, 3.14159, 203.8)
    assert last.line == "task 10 of 10 · step 640 of 640 · loss 2.00 · accuracy ema – · 3.1 steps/s · 3 min 24 s in all"


@pytest.mark.parametrize("width", [100, 80, 60, 40])
def test_picture_fits(width: int) -> None:
    lines = shown_as(picture(ABOUT, LATER), width)
    assert len(lines) == 3
    assert all(len(line.rstrip()) <= width for line in lines)
    assert "━" in lines[1]
    if width >= 80:
        assert lines[0].rstrip() == ABOUT
        assert lines[1].split("━")[0].strip() == "task 3 of 10"
        assert "step 192 of 640  9 s left" in lines[1]
        assert lines[2].rstrip() == "loss 4.12   52 steps/s   accuracy ema 9.8% live 8.1% after step 128"


def test_bar_stands_still() -> None:
    early, late = (shown_as(picture(ABOUT, Moment(step, 15_000, 1, 10, 5.0)), 70)[1] for step in (1, 14_999))
    assert early.index("step") == late.index("step")
    assert "step      1 of 15,000" in early


def test_terminal_shows_the_reading_of_images() -> None:
    clock = Clock()
    shown, file = terminal(clock)
    with shown.live:
        for number in range(256, 5001, 256):
            shown.reading(number, 5000)
        shown.reading(5000, 5000)
        shown.say("A sentence that stays.")
    text = file.getvalue()
    assert "256 of 5,000" in text
    assert "5,000 of 5,000" in text
    assert "512 of 5,000" not in text  # no time has passed
    assert "A sentence that stays." in text


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "term", "kind"),
    [(io.StringIO, "xterm", Lines), (Tty, "dumb", Lines), (Tty, "xterm", Terminal)],
)
def test_screen_goes_by_the_terminal(
    stderr: type[io.StringIO], term: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stderr()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    with screen(ABOUT) as shown:
        assert type(shown) is kind
        shown.reading(1, 2)
        shown.show(LATER)
    if kind is Lines:
        assert file.getvalue() == f"{ABOUT}\n{LATER.line}\n"
    else:
        assert "step 192 of 640" in file.getvalue()


def record(**changes: Any) -> dict[str, Any]:
    keys = list(METRICS)
    ema = {key: 0.01 * place for place, key in enumerate(keys, 10)}
    audit = {
        "distinct_per_batch": 7.5,
        "mean": 6.8,
        "p99": 19.5,
        "max": 24,
        "violations": 1,
        "overdue": 0,
    }  # of an earlier version
    return {
        "split": "test",
        "metrics": {"ema": ema, "live": {**ema, "worst_case": None, "backward_transfer": -0.031}},
        "prequential": {"accuracy": 0.1234},
        "audit": audit,
        **changes,
    }


def test_results() -> None:
    lines = [line.rstrip() for line in shown_as(results(record()), 100)]
    assert lines[0].split() == ["per", "cent", "ema", "live"]
    assert lines[1] == "final task-mean accuracy      10.00  10.00"
    assert lines[4] == "worst-case accuracy           13.00      –"
    assert lines[5] == "backward transfer            +14.00  -3.10"
    assert lines[10] == "class-mean accuracy           19.00  19.00"
    assert lines[11:] == [
        "",
        "Prequential accuracy: 12.3%.",
        "A class came back after 6.8 steps on average, 20 at p99; the longest wait took 24; 1 wait above the",
        "bound.",
    ]
    assert "per cent, validation" in "\n".join(shown_as(results(record(split="validation")), 80))


def test_thirds_of_classes_are_shown_where_some_are_rarer() -> None:
    def shown(counts: list[int]) -> str:
        return "\n".join(shown_as(results(record(stream={"counts": counts})), 100))

    assert all(name in shown([9, 3, 1]) for name in (METRICS["head"], METRICS["tail"]))
    assert not any(name in shown([9, 9, 9]) for name in (METRICS["head"], METRICS["tail"]))


def test_several_results_are_a_line_each() -> None:
    lrs = {1: 0.1, 2: 0.03}  # the name does not say it
    runs = [
        record(name="er, seed 5", identity=f"{number}" * 24, run={"seed": 5, "descent": {"lr": lr}})
        for number, lr in lrs.items()
    ]
    runs[1]["audit"] = {**runs[1]["audit"], "max": None}
    lines = [line.split() for line in shown_as(several(runs), 100)]
    assert lines == [
        ["run", "ema", "%", "live", "%", "longest", "wait", "identity"],
        ["er,", "lr", "0.1,", "seed", "5", "10.00", "10.00", "24", "11111111"],
        ["er,", "lr", "0.03,", "seed", "5", "10.00", "10.00", "–", "22222222"],
    ]


def test_every_metric_of_a_run_is_shown() -> None:
    metrics = pytest.importorskip("reprise.runs.metrics", reason="training needs torch")
    one = metrics.Evaluations([1], [True], [[1]], [[True]], [2], [0], [5])
    assert list(METRICS) == list(metrics.summary(one))


def test_waiting() -> None:
    assert waiting({"mean": None, "distinct_per_batch": None}) == "Nothing came back by replay."
    others = {"first_max": 40, "open_max": 97, "cut_max": 0, "overdue": 5}
    once = {"distinct_per_batch": 1.0, "mean": None, "p99": None, "max": None, "violations": 0} | others
    assert waiting(once) == ("No class came back twice; the longest wait took 97; 5 waits above the bound.")
    found = {"distinct_per_batch": 7.9, "mean": 6.62, "p99": 36.3, "max": 81, "violations": 428} | others
    assert waiting(found) == (
        "A class came back after 6.6 steps on average, 36 at p99; the longest wait took 97; 433 waits above the bound."
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 0 min"),
        (7530, "2 h 5 min"),
    ],
)
def test_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_per_cent() -> None:
    assert [per_cent(share) for share in (0.0, 0.09849, 1.0, None)] == ["0.0%", "9.8%", "100.0%", "–"]
