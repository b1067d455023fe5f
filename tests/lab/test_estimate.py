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


ASKING = {"width": 8, "per_class": 4, "batch": 4, "buffer": 400, "retrieval": "mir:400"}


@pytest.mark.parametrize(
    ("settings", "least", "most"), [({"per_class": 20}, 0.4, 2.5), (ASKING, 0.6, 1.7)], ids=["iid", "mir"]
)
def test_the_estimate_is_near_what_a_run_takes(settings: dict[str, object], least: float, most: float) -> None:
    images, run = ImageSource(), Run.of(**{**TINY, "retrieval": "iid", **settings})
    images(run)
    ratios = []
    for _ in range(4):  # other work on the machine may come between one of the two
        expected = estimate([run], images).seconds
        began = time.perf_counter()
        list(Here(images).execute([run], lambda _: Job(), lambda _: None))
        ratios.append(expected / (time.perf_counter() - began))
        if least < ratios[-1] < most:
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


def test_each_candidate_that_a_memory_asks_about_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is told what it takes when its memory is full, though trials are too short to fill it."""
    tried = []

    def time_of(run: Run, images: ImageSource, full: int = 0) -> tuple[float, float]:
        tried.append((run.memory.buffer, full))
        return 10.0, 1.0 + 0.1 * min(run.memory.buffer, 300)  # beside the steps, and for one that asks so many

    monkeypatch.setattr("reprise.lab.estimate._time", time_of)
    images, shape = ImageSource(), {**TINY, "per_class": 40, "replay": 8}

    def expected(pool: int, buffer: int) -> float:
        run = Run.of(**{**shape, "retrieval": f"mir:{pool}", "buffer": buffer})
        return estimate([run], images).seconds

    def taken(pool: int) -> float:
        return 10.0 + sum(1.0 + 0.1 * min(max(came, 8), pool) for came in range(0, 4000, 20))

    assert expected(300, 2000) == pytest.approx(taken(300))
    assert expected(300, 50) == pytest.approx(taken(50))
    assert expected(30, 2000) == pytest.approx(taken(30))
    assert tried == [(8, 8), (72, 72), (8, 8), (50, 50), (8, 8), (30, 30)]
    tried.clear()
    expected(8, 2000)  # as many as are replayed: one trial tells
    estimate([Run.of(**shape)], images)
    assert tried == [(2000, 0), (50, 0)]


def test_lanes_are_tried_with_full_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step more takes is measured after a memory asks about as many as it ever will."""
    tried: list[int | None] = []

    def trial(run: Run, executor: object, count: int, per_class: int) -> tuple[int, float]:
        tried.append(per_class)
        return per_class, 1.0 * per_class

    monkeypatch.setattr("reprise.lab.estimate._lane_trial", trial)
    shape = {**TINY, "per_class": 40}

    def lengths(**more: object) -> list[int | None]:
        tried.clear()
        estimate_lanes([Run.of(**{**shape, **more})], ImageSource(), Here())
        return list(tried)

    assert lengths(retrieval="rpr") == [4, 16]
    assert lengths(retrieval="mir:90", buffer=1000) == [5, 17]  # 100 classes: one image of each is enough
    assert lengths(retrieval="mir:2000", buffer=1000) == [14, 26]
    assert lengths(retrieval="mir:9000", buffer=9000) == [44, 56]  # more than the whole stream brings
