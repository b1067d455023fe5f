"""How many steps a campaign still has to make, as far as its records tell."""

from __future__ import annotations

import random
from typing import Any

import pytest

from reprise.execute import RunOutcome
from reprise.lab import Progress
from reprise.lab.progress import Tally
from reprise.runs import Run

SHORT = [Run.of(learner="er", dataset="cifar100", imbalance=100, seed=seed) for seed in range(4)]
LONG = [Run.of(learner="er", dataset="cifar100", seed=seed) for seed in range(4)]
STEPS = {run: 50 if run in SHORT else 300 for run in (*SHORT, *LONG)}
AUDITS = [Run.of(learner=None, classes=5, steps=9, seed=seed) for seed in range(20)]


def tally(runs: list[Run]) -> tuple[Tally, list[Progress]]:
    told: list[Progress] = []
    return Tally(runs, told.append), told


def ended(run: Run, made: int | None = None, *, known: bool = False) -> RunOutcome:
    """A run that has ended well; so many of its steps were made here."""
    length = STEPS.get(run, 0)
    record: Any = {"stream": {"steps": length}, "timings": {"steps": length if made is None else made}}
    return RunOutcome(run, record, None, known)


def test_nothing_is_known_until_a_run_has_a_record() -> None:
    counts, told = tally([*LONG, *AUDITS])
    counts.steps(100)
    counts.ended(ended(AUDITS[0]))
    counts.ended(RunOutcome(LONG[0], None, ValueError()))
    assert [one.left for one in told] == [None] * 3
    counts.ended(ended(LONG[1], known=True))
    assert (told[-1].left, told[-1].known, told[-1].failed, told[-1].done) == (500, 1, 1, 3)


@pytest.mark.parametrize("seed", range(5))
def test_steps_left_are_exact_once_a_run_of_every_kind_has_ended(seed: int) -> None:
    """Whatever the order of runs, of steps, of audits between them, and wherever resumed runs go on."""
    chance = random.Random(seed)
    runs = [*SHORT, *LONG, *AUDITS]
    counts, told = tally(runs)
    begun = {run: chance.choice([0, 0, STEPS[run] // 2]) for run in STEPS}
    at = dict(begun)
    waiting, seen = list(runs), set()
    while waiting:
        run = chance.choice(waiting[:5])
        if run in STEPS and at[run] < STEPS[run]:
            more = min(chance.randint(1, 40), STEPS[run] - at[run])
            at[run] += more
            counts.steps(more)
        else:
            waiting.remove(run)
            counts.ended(ended(run, STEPS[run] - begun[run] if run in STEPS else 0))
            seen.add(STEPS.get(run))
        if {50, 300} <= seen:
            unfinished = [one for one in waiting if one in STEPS]
            went_on = sum(begun[one] for one in unfinished)  # of those it is not known how far they were
            assert told[-1].left == sum(STEPS[one] - at[one] for one in unfinished) + went_on
    assert (told[-1].left, told[-1].done, told[-1].steps) == (0, len(runs), sum(STEPS.values()) - sum(begun.values()))


def test_a_record_of_an_executor_of_ones_own_may_lack_its_steps() -> None:
    counts, told = tally(LONG)
    counts.steps(300)
    counts.ended(RunOutcome(LONG[0], {"stream": {"steps": 300}, "timings": {}}))
    assert told[-1].left == 900


def test_audits_have_no_steps() -> None:
    counts, told = tally(AUDITS)
    counts.ended(ended(AUDITS[0]))
    assert (told[-1].trains, told[-1].left, told[-1].steps) == (False, None, 0)
    assert tally([LONG[0], *AUDITS])[0].trains


def test_steps_of_runs_that_failed_leave_no_less_than_none() -> None:
    counts, told = tally(LONG[:2])
    counts.steps(299)
    counts.ended(RunOutcome(LONG[0], None, ValueError()))
    counts.steps(300)
    counts.ended(ended(LONG[1]))
    assert told[-1].left == 0
