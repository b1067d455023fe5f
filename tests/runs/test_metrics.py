"""Metrics: worked by hand, by law, and against a slow computation from the definitions alone."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.runs import metrics
from reprise.runs.metrics import Evaluations, summary, task_accuracy
from reprise.streams import label_stream

KEYS = (
    *("final", "boundary_mean", "any_time", "worst_case", "backward_transfer"),
    *("forgetting", "head", "mid", "tail", "macro"),
)


def evaluations(**changes) -> Evaluations:
    """Three tasks of two classes, ten test examples each (class 5: twenty), one evaluation within task 2."""
    entries = {
        "steps": [10, 15, 20, 30],
        "boundary": [True, False, True, True],
        "correct": [
            [8, 6, 0, 0, 0, 0],
            [2, 2, 5, 0, 0, 0],
            [4, 5, 9, 7, 0, 0],
            [3, 6, 5, 4, 9, 6],
        ],
        "seen": [
            [True, True, False, False, False, False],
            [True, True, True, False, False, False],
            [True, True, True, True, False, False],
            [True, True, True, True, True, True],
        ],
        "counts": [10, 10, 10, 10, 10, 20],
        "task_of_class": [0, 0, 1, 1, 2, 2],
        "stream_counts": [50, 5, 20, 20, 7, 20],
        **changes,
    }
    return Evaluations(**entries)


def rows(e: Evaluations, keep: list[int]) -> Evaluations:
    """The same run with only some of its evaluations."""
    return Evaluations(
        e.steps[keep], e.boundary[keep], e.correct[keep], e.seen[keep], e.counts, e.task_of_class, e.stream_counts
    )


def test_by_hand() -> None:
    e = evaluations()
    nan = math.nan
    expected = [[0.7, nan, nan], [0.2, 0.5, nan], [0.45, 0.8, nan], [0.45, 0.45, 0.5]]  # class 3 is unseen in row 1
    np.testing.assert_allclose(task_accuracy(e), expected)
    np.testing.assert_allclose(e.accuracy[1], [0.2, 0.2, 0.5, nan, nan, nan])
    np.testing.assert_allclose(metrics.forgetting_per_class(e), [0.5, 0, 0.4, 0.3, 0, 0], atol=1e-15)
    assert {k: v.tolist() for k, v in metrics.groups(e.stream_counts).items()} == {
        "head": [0, 5],
        "mid": [2, 3],
        "tail": [1, 4],
    }
    found = summary(e)
    assert tuple(found) == KEYS
    assert found == pytest.approx(
        {
            "final": 1.4 / 3,
            "boundary_mean": (0.7 + 0.625 + 1.4 / 3) / 3,
            "any_time": (0.7 + 0.35 + 0.625 + 1.4 / 3) / 4,
            "worst_case": (0.5 + 0.2 + 0.45) / 3,  # task 0 is worst within task 1, task 1 at the end
            "backward_transfer": (-0.25 - 0.35) / 2,
            "forgetting": 0.2,
            "head": 0.3,
            "mid": 0.45,
            "tail": 0.75,
            "macro": (0.3 + 0.6 + 0.5 + 0.4 + 0.9 + 0.3) / 6,
        }
    )


def test_own_boundary_counts_for_the_worst_case() -> None:
    rising = evaluations(correct=[[1, 1, 0, 0, 0, 0], [5] * 3 + [0] * 3, [5] * 4 + [0] * 2, [5] * 6])
    assert metrics.worst_case(rising) == pytest.approx((10 / 30 + 0.1 + 0.5) / 3)
    assert metrics.backward_transfer(rising) == pytest.approx((0.4 + 0) / 2)
    assert metrics.forgetting(rising) == 0


def test_one_task() -> None:
    e = evaluations(task_of_class=[0] * 6, boundary=[False, False, False, True])
    assert metrics.final(e) == metrics.worst_case(e) == pytest.approx(33 / 70)
    assert metrics.backward_transfer(e) is None
    assert metrics.any_time(e) == pytest.approx((14 / 20 + 9 / 30 + 25 / 40 + 33 / 70) / 4)
    assert metrics.worst_case(evaluations(task_of_class=[0] * 6, boundary=[False] * 4)) == metrics.final(e)


def test_one_evaluation() -> None:
    only = rows(evaluations(), [3])
    found = summary(only)
    assert found["final"] == found["boundary_mean"] == found["any_time"] == pytest.approx(1.4 / 3)
    assert found["worst_case"] == pytest.approx(found["final"])
    assert found["backward_transfer"] is None
    assert found["forgetting"] == 0


def test_a_missing_boundary_leaves_what_needs_it_undefined() -> None:
    found = summary(rows(evaluations(), [1, 2, 3]))
    assert (found["worst_case"], found["backward_transfer"]) == (None, None)
    assert found["boundary_mean"] == pytest.approx((0.625 + 1.4 / 3) / 2)
    cut = summary(rows(evaluations(), [0, 1]))  # stopped within the second task
    assert (cut["worst_case"], cut["backward_transfer"]) == (None, None)
    assert cut["final"] == pytest.approx(0.35)
    assert cut["forgetting"] == pytest.approx((0.6 + 0.4 + 0) / 3)
    unmarked = summary(evaluations(boundary=[False] * 4))
    assert unmarked["boundary_mean"] is None
    assert unmarked["forgetting"] == 0  # the last evaluation alone


def test_the_last_evaluation_counts_for_forgetting_even_off_a_boundary() -> None:
    e = evaluations(boundary=[True, False, True, False])
    np.testing.assert_allclose(metrics.forgetting_per_class(e), [0.5, 0, 0.4, 0.3, 0, 0], atol=1e-15)


def test_blurry_boundaries() -> None:
    # An example of class 4, of the last task, comes during the first; class 1 only after its task is over.
    seen = np.array(evaluations().seen)
    seen[:, 4] = True
    seen[0, 1] = False
    e = evaluations(seen=seen, correct=[[8, 0, 0, 0, 1, 0], [2, 2, 5, 0, 3, 0], [4, 5, 9, 7, 2, 0], [3, 6, 5, 4, 9, 6]])
    nan = math.nan
    expected = [[0.8, nan, 0.1], [0.2, 0.5, 0.3], [0.45, 0.8, 0.2], [0.45, 0.45, 0.5]]
    np.testing.assert_allclose(task_accuracy(e), expected)
    found = summary(e)
    assert found["boundary_mean"] == pytest.approx((0.45 + 1.45 / 3 + 1.4 / 3) / 3)
    assert found["any_time"] == pytest.approx((0.45 + 1 / 3 + 1.45 / 3 + 1.4 / 3) / 4)
    assert found["worst_case"] == pytest.approx((0.2 + 0.45 + 0.5) / 3)
    assert found["backward_transfer"] == pytest.approx((-0.35 - 0.35) / 2)
    assert metrics.forgetting_per_class(e)[4] == 0


def test_a_task_unseen_at_its_own_boundary_has_no_transfer() -> None:
    seen = np.array(evaluations().seen)
    seen[:2, :2] = False
    correct = np.array(evaluations().correct)
    correct[:2, :2] = 0
    found = summary(evaluations(seen=seen, correct=correct))
    assert found["backward_transfer"] == pytest.approx(-0.35)
    assert found["worst_case"] == pytest.approx((0.45 + 0.45 + 0.5) / 3)
    assert found["boundary_mean"] == pytest.approx((0.625 + 1.4 / 3) / 2)  # nothing was evaluated at the first


def test_a_task_that_never_arrived_is_left_out() -> None:
    seen = np.array(evaluations().seen)
    seen[:, 4:] = False
    correct = np.array(evaluations().correct)
    correct[:, 4:] = 0
    e = evaluations(seen=seen, correct=correct, stream_counts=[50, 5, 20, 20, 0, 0])
    found = summary(e)
    assert found["final"] == pytest.approx(0.45)
    assert found["worst_case"] == pytest.approx((0.45 + 0.2) / 2)
    assert found["backward_transfer"] == pytest.approx(-0.25)
    assert found["tail"] is None  # both classes that never came
    assert np.isnan(metrics.forgetting_per_class(e)[4:]).all()


def test_a_class_without_test_examples_is_left_out() -> None:
    correct = np.array(evaluations().correct)
    correct[:, 0] = 0
    found = summary(evaluations(counts=[0, 10, 10, 10, 10, 20], correct=correct))
    assert found["macro"] == pytest.approx((0.6 + 0.5 + 0.4 + 0.9 + 0.3) / 5)
    assert found["final"] == pytest.approx((0.6 + 0.45 + 0.5) / 3)
    assert all(v is None for v in summary(evaluations(counts=[0] * 6, correct=np.zeros((4, 6), int))).values())


def test_a_task_without_steps_shares_its_boundary() -> None:
    twice = rows(evaluations(), [0, 1, 2, 2])
    twice = Evaluations(
        twice.steps, [True, False, True, True], twice.correct, twice.seen, twice.counts, twice.task_of_class, [9] * 6
    )
    assert metrics.boundary_mean(twice) == pytest.approx((0.7 + 0.625 + 0.625) / 3)
    assert metrics.backward_transfer(twice) == pytest.approx(-0.25)


def test_thirds() -> None:
    sizes = {name: len(ids) for name, ids in metrics.groups(np.arange(100)).items()}
    assert sizes == {"head": 34, "mid": 33, "tail": 33}
    ties = metrics.groups([3] * 7)
    assert {name: ids.tolist() for name, ids in ties.items()} == {"head": [4, 5, 6], "mid": [2, 3], "tail": [0, 1]}
    assert [len(ids) for ids in metrics.groups([1, 2]).values()] == [2, 0, 0]
    stream = label_stream("cifar100-lt100", seed=0)
    thirds = metrics.groups(stream.counts)
    assert stream.counts[thirds["tail"]].max() <= stream.counts[thirds["mid"]].min()
    assert stream.counts[thirds["mid"]].max() <= stream.counts[thirds["head"]].min()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": [10, 15, 12, 30]}, "rising"),
        ({"steps": [-1, 15, 20, 30]}, "not negative"),
        ({"steps": [10, 15, 20]}, r"steps must have shape \(4,\)"),
        ({"steps": [10, 20, 20, 30]}, "two evaluations at step 20"),
        ({"steps": [10, 15, 20, 20]}, "two evaluations at step 20"),
        ({"steps": [10, 10, 20, 30], "correct": np.zeros((4, 6), int), "seen": [[True] * 6] * 4}, "of two tasks"),
        ({"boundary": [True] * 4}, "3 tasks.*got 4"),
        ({"correct": [[11, 0, 0, 0, 0, 0]] * 4}, "exceed.*got 11 for class 0 at evaluation 0"),
        ({"correct": [[-1, 0, 0, 0, 0, 0]] * 4}, "negative, got -1 for class 0"),
        ({"correct": [[1, 1, 1, 0, 0, 0]] * 4}, "not seen, got 1 for class 2 at evaluation 0"),
        ({"correct": [0, 0]}, "correct must have 2 axes"),
        (
            {"seen": [[True] * 6] * 3 + [[False] * 6], "correct": np.zeros((4, 6), int)},
            "class 0 is not at evaluation 3",
        ),
        ({"seen": [[True] * 5] * 4}, r"seen must have shape \(4, 6\)"),
        ({"counts": [-1] * 6}, "counts must not be negative, got -1"),
        ({"task_of_class": [0, 0, 2, 2, 3, 3]}, "task 1 has none"),
        ({"task_of_class": [0, 0, 1, 1, 2, 10**12]}, "leave no gaps, got 1000000000000"),
        ({"stream_counts": [50, 5, 20, 20, 7, 0]}, "class 5 is marked as seen"),
        ({"correct": np.zeros((0, 6), int)}, "at least one evaluation"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluations(**changes)


def test_kinds_are_checked() -> None:
    with pytest.raises(TypeError, match="correct must hold integers, got float64"):
        evaluations(correct=np.zeros((4, 6)))
    with pytest.raises(TypeError, match="seen must hold booleans, got int64"):
        evaluations(seen=np.ones((4, 6), np.int64))


def test_arrays_are_kept_as_they_were() -> None:
    mine = np.array([10, 15, 20, 30])
    e = evaluations(steps=mine)
    mine[0] = 99
    assert e.steps[0] == 10
    with pytest.raises(ValueError, match="read-only"):
        e.correct[0, 0] = 1


@st.composite
def runs(draw: st.DrawFn) -> Evaluations:
    """Any run: sharp or blurry, whole or cut off, with classes that never come or have no test example."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tasks = draw(st.integers(1, 4))
    home = rng.permutation(np.append(np.arange(tasks), rng.integers(0, tasks, draw(st.integers(0, 5)))))
    total = draw(st.integers(1, 7))
    marks = np.zeros(total, bool)
    whole = total >= tasks and draw(st.booleans())
    chosen = tasks if whole else draw(st.integers(0, min(tasks, total)))
    marks[rng.permutation(total)[:chosen]] = True
    begins = rng.integers(0, total + draw(st.integers(0, 1)), len(home))
    seen = np.arange(total)[:, None] >= begins
    counts = rng.integers(draw(st.integers(0, 1)), 6, len(home))
    correct = np.where(seen, rng.integers(0, counts + 1, (total, len(home))), 0)
    arrived = np.where(seen[-1], rng.integers(1, draw(st.sampled_from([2, 100])), len(home)), 0)
    return Evaluations(np.cumsum(rng.integers(1, 9, total)), marks, correct, seen, counts, home, arrived)


def average(values: list[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None


def literal(e: Evaluations) -> dict[str, Fraction | None]:
    """Every figure from the definitions, in exact fractions and plain loops."""
    total, classes = e.correct.shape
    task_ids = range(max(e.task_of_class.tolist()) + 1)

    def of_classes(row: int, wanted: list[int]) -> Fraction | None:
        wanted = [c for c in wanted if e.seen[row, c] and e.counts[c]]
        examples = sum(int(e.counts[c]) for c in wanted)
        return Fraction(sum(int(e.correct[row, c]) for c in wanted), examples) if examples else None

    def of_task(row: int, task: int) -> Fraction | None:
        return of_classes(row, [c for c in range(classes) if e.task_of_class[c] == task])

    def present(values: list[Fraction | None]) -> list[Fraction]:
        return [value for value in values if value is not None]

    means = [average(present([of_task(row, task) for task in task_ids])) for row in range(total)]
    borders = [row for row in range(total) if e.boundary[row]]
    end = [of_classes(total - 1, [c]) for c in range(classes)]
    lost = []
    for c in range(classes):
        history = present([of_classes(row, [c]) for row in {*borders, total - 1}])
        if end[c] is not None:
            lost.append(max(history) - end[c])
    arrived = [task for task in task_ids if of_task(total - 1, task) is not None]
    worst = transfer = None
    if arrived and (len(borders) == len(task_ids) or len(arrived) == 1 or total == 1):
        worst = of_task(total - 1, arrived[-1]) / len(arrived)
        for task in arrived[:-1]:
            begin = borders[task] if len(borders) == len(task_ids) else 0
            worst += min(present([of_task(row, task) for row in range(begin, total)])) / len(arrived)
    if len(borders) == len(task_ids):
        pairs = [(of_task(total - 1, task), of_task(borders[task], task)) for task in arrived[:-1]]
        transfer = average([last - first for last, first in pairs if first is not None])
    ranked = sorted(range(classes), key=lambda c: (e.stream_counts[c], c))
    third = classes // 3
    return {
        "final": means[-1],
        "boundary_mean": average(present([means[row] for row in borders])),
        "any_time": average(present(means)),
        "worst_case": worst,
        "backward_transfer": transfer,
        "forgetting": average(lost),
        "head": average(present([end[c] for c in ranked[2 * third :]])),
        "mid": average(present([end[c] for c in ranked[third : 2 * third]])),
        "tail": average(present([end[c] for c in ranked[:third]])),
        "macro": average(present(end)),
    }


@settings(max_examples=max(400, settings().max_examples))
@given(runs())
def test_against_exact_fractions(e: Evaluations) -> None:
    found, expected = summary(e), literal(e)
    assert tuple(found) == tuple(expected) == KEYS
    for key, value in expected.items():
        if value is None:
            assert found[key] is None, key
        else:
            assert type(found[key]) is float
            assert found[key] == pytest.approx(float(value), abs=1e-12), key


@settings(max_examples=max(400, settings().max_examples))
@given(runs())
def test_laws(e: Evaluations) -> None:
    found = summary(e)
    assert not any(value is not None and math.isnan(value) for value in found.values())
    lost = metrics.forgetting_per_class(e)
    assert (lost[~np.isnan(lost)] >= 0).all()
    np.testing.assert_array_equal(np.isnan(lost), np.isnan(e.accuracy[-1]))
    assert all(0 <= value <= 1 for key, value in found.items() if value is not None and key != "backward_transfer")
    if found["worst_case"] is not None:
        assert found["worst_case"] <= found["final"] + 1e-12
        if found["backward_transfer"] is not None:
            # A task that was lower at its own boundary than at the end lowers the worst case by that much.
            assert found["worst_case"] <= found["final"] - max(0, found["backward_transfer"]) / e.tasks + 1e-12
    at_boundaries = np.flatnonzero(e.boundary).tolist()
    if at_boundaries:
        few = summary(rows(e, at_boundaries))
        assert few["any_time"] == few["boundary_mean"]
        assert few["boundary_mean"] == found["boundary_mean"]


@given(runs(), st.randoms(use_true_random=False))
def test_class_ids_are_only_names(e: Evaluations, random: object) -> None:
    order = list(range(len(e.counts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    ranks = np.where(e.stream_counts > 0, np.arange(len(order)) + 1, 0)  # as good a frequency as any, without ties
    by_rank = Evaluations(e.steps, e.boundary, e.correct, e.seen, e.counts, e.task_of_class, ranks)
    renamed = Evaluations(
        e.steps,
        e.boundary,
        e.correct[:, order],
        e.seen[:, order],
        e.counts[order],
        e.task_of_class[order],
        ranks[order],
    )
    np.testing.assert_array_equal(metrics.forgetting_per_class(renamed), metrics.forgetting_per_class(by_rank)[order])
    assert summary(renamed) == pytest.approx(summary(by_rank), abs=1e-12)


def test_every_figure_is_on_the_page_once() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert [name for name in listed if name in KEYS] == list(KEYS)
    assert len(listed) == len(set(listed))
