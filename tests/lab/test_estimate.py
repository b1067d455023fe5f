"""How long runs will take: a trial of each kind of run."""

from __future__ import annotations

import time

import pytest

from reprise.execute import Here, Job
from reprise.execute.one import ImageSource
from reprise.lab.estimate import estimate, estimate_lanes
from reprise.runs import Run

TINY = {"dataset": "glyphs", "width": 2, "per_class": 6, "test_per_class": 1, "batch": 20, "buffer": 50, "replay": 4}


def runs_of(count: int, **more: object) -> list[Run]:
    return [
        Run.of(**{**TINY, "retrieval": arm, "seed": seed, **more}) for seed in range(count) for arm in ("iid", "rpr")
    ]


def test_runs_that_differ_in_seed_and_policy_are_one_kind() -> None:
    runs = [*runs_of(2), *runs_of(2, replay=8), *(Run.of(learner=None, classes=6, steps=20, seed=s) for s in range(3))]
    found = estimate(runs, ImageSource(), jobs=2)
    assert [(kind.count, kind.steps) for kind in found.kinds] == [(4, 120), (4, 120), (3, 60)]
    assert found.at_once == 2
    assert found.seconds == sum(kind.seconds for kind in found.kinds) / 2


def test_the_estimate_is_near_what_a_run_takes() -> None:
    images, (run, *_) = ImageSource(), runs_of(1, per_class=20)
    ratios = []
    for _ in range(4):  # other work on the machine may come between one of the two
        expected = estimate([run], images).seconds
        began = time.perf_counter()
        list(Here(images).execute([run], lambda _: Job(), lambda _: None))
        ratios.append(expected / (time.perf_counter() - began))
        if 0.4 < ratios[-1] < 2.5:
            return
    pytest.fail(f"estimates over times taken: {ratios}")


def test_lanes_are_tried_by_two_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a GPU, another executor stands for the lanes, in trials that are shorter still."""
    monkeypatch.setattr("reprise.lab.estimate.SHORT", 1)
    monkeypatch.setattr("reprise.lab.estimate.LONG", 3)
    runs = [
        *runs_of(2, per_class=40, tasks=2),
        *(Run.of(learner=None, classes=6, steps=20, seed=seed) for seed in range(3)),
    ]
    found = estimate_lanes(runs, ImageSource(), Here(), lanes=2)
    assert [(kind.count, kind.steps) for kind in found.kinds] == [(4, 4 * 200), (3, 60)]  # audits go beside
    assert found.seconds > 0
