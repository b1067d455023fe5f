"""A time limit: what would not end in time is not begun, what is begun is ended, and another campaign goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from lab.tinystudies import STUDY, Failing, audits

from reprise.execute import Executor, Here, Job, RunOutcome
from reprise.lab import StudyFailed, StudyPlan, campaign, run_all
from reprise.lab.time_limit import TimeLimit
from reprise.runs import Run, Store

RUNS = audits(6)


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow(Executor):
    """Makes runs here; each takes so many seconds of the clock, and its begin is asked for so many runs ahead."""

    def __init__(self, clock: Clock, seconds: Any, ahead: int = 0) -> None:
        self.clock, self.seconds, self.ahead = clock, seconds, ahead
        self.made: list[Run] = []

    def execute(self, runs: Any, start: Any, tick: Any) -> Any:
        waiting, begun = list(runs), list[tuple[Run, Job]]()
        while waiting or begun:
            while waiting and len(begun) <= self.ahead:
                run = waiting.pop(0)
                if (job := start(run)) is not None:
                    begun.append((run, job))
            if not begun:
                continue
            run, job = begun.pop(0)
            self.clock.now += self.seconds(run)
            self.made.append(run)
            yield from Here().execute([run], lambda _, job=job: job, tick)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all time limits that campaigns make."""
    made = Clock()
    monkeypatch.setattr(sys.modules[campaign.__module__], "TimeLimit", lambda seconds: TimeLimit(seconds, made))
    return made


def given(runs: list[Run], executor: Executor, store: Store | None = None, **more: Any) -> list[RunOutcome]:
    return list(campaign(runs, executor, store, **more))


def test_no_run_is_begun_that_would_not_end_in_time(clock: Clock, tmp_path: Path) -> None:
    """Of ten seconds each, three end within 35; a fourth would end at 40."""
    store = Store(tmp_path)
    found = given(RUNS, Slow(clock, lambda _: 10), store, time_limit=35)
    assert [one.run for one in found] == RUNS[:3]
    assert all(one.error is None for one in found)
    assert clock.now == 130
    rest = given(RUNS, slow := Slow(clock, lambda _: 10), store)
    assert {one.run for one in rest if one.known} == {*RUNS[:3]}
    assert slow.made == RUNS[3:]


def test_what_is_begun_ahead_is_ended(clock: Clock) -> None:
    """Two more are begun while the first is made: of them nothing was known."""
    found = given(RUNS, Slow(clock, lambda _: 10, ahead=2), time_limit=15)
    assert [one.run for one in found] == RUNS[:3]
    assert clock.now == 130


def test_time_from_begin_to_end_counts_waiting_too(clock: Clock) -> None:
    """With two ahead a run ends 30 seconds after it was begun: one that is begun at 20 would end at 50."""
    found = given(RUNS, Slow(clock, lambda _: 10, ahead=2), time_limit=45)
    assert [one.run for one in found] == RUNS[:5]
    assert clock.now == 150


def test_the_first_runs_may_have_taken_longer(clock: Clock) -> None:
    """What is done once, such as compiling, is forgotten after eight runs."""
    many = audits(20)
    found = given(many, Slow(clock, lambda run: 50 if run == many[0] else 5), time_limit=150)
    assert len(found) == 20  # at 90, after eight more, a run is taken to need 5
    again = given(many, Slow(clock, lambda run: 50 if run == many[0] else 5), time_limit=99)
    assert len(again) == 1


def test_each_kind_of_run_has_its_own_time(clock: Clock) -> None:
    long = [Run.of(learner=None, classes=4, steps=90, buffer=8, replay=2, seed=seed) for seed in range(6)]
    mixed = [run for pair in zip(RUNS, long, strict=True) for run in pair]
    found = given(mixed, Slow(clock, lambda run: 30 if run in long else 1), time_limit=70)
    assert [one.run for one in found if one.run in long] == long[:2]
    assert [one.run for one in found if one.run not in long] == RUNS


def test_arms_and_seeds_are_of_one_kind_but_a_score_takes_time(clock: Clock) -> None:
    limit = TimeLimit(100, clock)

    def took(run: Run, seconds: float) -> None:
        limit.begun(run)
        clock.now += seconds
        limit.ended(run)

    run = Run.of(dataset="glyphs", imbalance=10, retrieval="iid", buffer=50)
    took(run, 60)
    assert not limit.allows(run.replace(seed=7, retrieval="rpr", storage="brs", imbalance_seed=3))
    assert limit.allows(run.replace(retrieval="mir:20"))
    assert limit.allows(run.replace(width=8))
    took(run.replace(retrieval="mir:20"), 25)
    assert not limit.over
    assert not limit.allows(run.replace(retrieval="mir:20", seed=1))
    assert limit.allows(run.replace(retrieval="mir:40"))
    clock.now += 15
    assert limit.over
    assert not limit.allows(run.replace(retrieval="mir:40"))


def test_what_others_have_made_meanwhile_is_given(clock: Clock, tmp_path: Path) -> None:
    """No time is left for these runs, and none is needed."""
    store = Store(tmp_path)

    def takes(run: Run) -> float:
        if run == RUNS[0]:
            given(RUNS[2:], Here(), Store(tmp_path))  # another command
        return 10

    found = given(RUNS, Slow(clock, takes), store, time_limit=15)
    assert {one.run: one.known for one in found} == {RUNS[0]: False, **dict.fromkeys(RUNS[2:], True)}
    assert not [*(tmp_path / "claims").glob("*")]


@pytest.mark.parametrize("kept", [True, False], ids=["store", "no store"])
def test_an_error_is_given_though_there_is_no_time_to_try_again(kept: bool, clock: Clock, tmp_path: Path) -> None:
    def fails(run: Run) -> Exception | None:
        return RuntimeError("it is tired") if run == RUNS[0] else None

    store = Store(tmp_path) if kept else None
    found = given(RUNS[:3], Failing(fails, Slow(clock, lambda _: 10)), store, retries=1, time_limit=15)
    assert [(one.run, one.error is None) for one in found] == [(RUNS[1], True), (RUNS[0], False)]


def test_a_run_that_is_not_begun_can_be_begun_by_others(clock: Clock, tmp_path: Path) -> None:
    going = campaign(RUNS, Slow(clock, lambda _: 10), Store(tmp_path), time_limit=15)
    next(going)
    others = given(RUNS[1:], Here(), Store(tmp_path))
    assert [one.known for one in others] == [False] * 5
    assert [one.known for one in going] == [True] * 5


def test_a_study_says_what_is_still_to_be_made(clock: Clock, tmp_path: Path) -> None:
    plan = StudyPlan.of(STUDY, small=True, seeds=2, error_seeds=2)
    with pytest.raises(StudyFailed, match=r"3 of 4 runs of study .* are still to be made\. The others are kept"):
        plan.execute(Store(tmp_path), Slow(clock, lambda _: 10), time_limit=15)
    assert plan.execute(Store(tmp_path), Slow(clock, lambda _: 10), time_limit=45).records


def test_a_study_says_how_many_failed_and_how_many_are_still_to_be_made(clock: Clock, tmp_path: Path) -> None:
    plan = StudyPlan.of(STUDY, small=True, seeds=2, error_seeds=2)
    executor = Failing(lambda run: RuntimeError() if run == plan.runs[0] else None, Slow(clock, lambda _: 10))
    with pytest.raises(StudyFailed) as found:
        plan.execute(Store(tmp_path), executor, time_limit=15)
    assert str(found.value).startswith("1 of 4 runs of study 'tiny' failed, and 2 are still to be made; the first, ")
    assert str(found.value).endswith(": RuntimeError. The others are kept")


def test_an_executor_that_does_not_ask_may_give_runs(clock: Clock) -> None:
    limit = TimeLimit(10, clock)
    limit.ended(RUNS[0])
    assert limit.allows(RUNS[1])


def test_a_run_that_failed_is_tried_again_only_if_there_is_time(clock: Clock, tmp_path: Path) -> None:
    def fails(run: Run) -> Exception | None:
        return RuntimeError("it is tired") if run == RUNS[0] else None

    executor = Failing(fails, Slow(clock, lambda _: 10))
    enough = given(RUNS[:3], executor, Store(tmp_path / "a"), retries=1, time_limit=100)
    assert {one.run for one in enough if one.error} == {RUNS[0]}
    clock.now = 0
    short = given(RUNS[:3], executor, Store(tmp_path / "b"), retries=1, time_limit=20)
    assert [(one.run, one.error is None) for one in short] == [(RUNS[1], True), (RUNS[0], False)]
    assert "it is tired" in (Store(tmp_path / "b").failure(RUNS[0].identity({})) or "")  # which is kept


def test_runs_of_others_are_not_waited_for_beyond_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    identity = RUNS[0].identity({})
    claim = store.claim(identity)
    assert claim is not None
    try:
        found = given(RUNS[:2], Here(), store, identities={run: run.identity({}) for run in RUNS[:2]}, time_limit=0.5)
    finally:
        claim.release()
    assert [one.run for one in found] == [RUNS[1]]


class Unready(Executor):
    """One that cannot make ready, as a GPU that is not there."""

    def execute(self, runs: Any, start: Any, tick: Any) -> Any:
        raise AssertionError("it was asked")


def test_within_no_time_no_run_is_made_and_those_that_are_there_are_given(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert given(RUNS, Unready(), store, time_limit=0) == []
    assert given(RUNS, Unready(), time_limit=0) == []
    assert len(given(RUNS[:2], Here(), store)) == 2
    found = given(RUNS, Unready(), store, time_limit=0)
    assert [one.run for one in found] == RUNS[:2]
    assert all(one.known for one in found)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_a_limit_is_a_time(wrong: float) -> None:
    with pytest.raises(ValueError, match="0 or more and finite, got"):
        list(run_all(RUNS, time_limit=wrong))


@pytest.mark.parametrize("wrong", ["9", True])
def test_a_limit_is_a_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="number of seconds, got"):
        list(run_all(RUNS, time_limit=wrong))
