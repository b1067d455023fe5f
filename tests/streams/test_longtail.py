"""How many examples each class keeps."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprise.core.rng import Random
from reprise.streams import label_stream, tail_counts
from reprise.streams.longtail import class_ranks, kept_counts


@pytest.mark.parametrize(
    ("name", "per_task", "smallest", "steps"),
    [
        ("cifar100-lt10", 2044, 50, 640),
        ("cifar100-lt100", 1242, 5, 390),
        ("cifar100-balanced", 5000, 500, 1570),
        ("tinyimagenet-lt10", 3994, 50, 1250),
        ("tinyimagenet-lt100", 2304, 5, 720),
        ("cifar10-lt10", 5000, 5000, 1570),  # ten tasks of one class: nothing to be rare beside
        ("glyphs-lt1", 5000, 500, 1570),
    ],
)
def test_the_published_sizes(name: str, per_task: int, smallest: int, steps: int) -> None:
    stream = label_stream(name, seed=3)
    per_class = stream.counts
    assert [per_class[classes].sum() for classes in stream.tasks] == [per_task] * 10
    assert len(stream.ids) == 10 * per_task
    assert per_class.min() == smallest
    assert len(stream) == steps


def test_two_classes_per_task_keep_all_and_a_tenth() -> None:
    stream = label_stream("cifar10-lt10", tasks=5)
    assert [sorted(stream.counts[classes].tolist()) for classes in stream.tasks] == [[500, 5000]] * 5


def test_halves_go_to_the_even_number_and_none_goes_below_one() -> None:
    assert tail_counts(25, 2, 10) == [25, 2]
    assert tail_counts(35, 2, 10) == [35, 4]
    assert tail_counts(5, 3, 100) == [5, 1, 1]
    assert tail_counts(7, 1, 100) == [7]


@given(st.integers(1, 3000), st.integers(1, 60), st.floats(1, 1e6))
@example(500, 10, 1.0)
def test_counts_never_rise_with_rank(largest: int, classes: int, imbalance: float) -> None:
    counts = tail_counts(largest, classes, imbalance)
    assert counts[0] == largest
    assert all(earlier >= later >= 1 for earlier, later in pairwise(counts))
    if classes > 1:  # the last class is smaller by the whole factor, to within rounding
        assert abs(counts[-1] - max(1, Fraction(largest) / Fraction(imbalance))) <= Fraction(1, 2) + Fraction(1, 10**6)


def test_ranks_follow_the_seed_rule() -> None:
    assert class_ranks(10, task=3, seed=5).tolist() == Random(5 + 3027, "imbalance").permutation(10).tolist()
    assert class_ranks(10, task=1, seed=0).tolist() == class_ranks(10, task=0, seed=1009).tolist()


def test_stream_counts_are_the_tail_by_rank_in_every_task() -> None:
    stream = label_stream("tinyimagenet-lt100", seed=4, order="permuted")
    for task, classes in enumerate(stream.tasks):
        by_rank = classes[np.argsort(class_ranks(20, task, seed=4))]
        assert stream.counts[by_rank].tolist() == tail_counts(500, 20, 100)


def test_ranks_may_have_a_seed_of_their_own() -> None:
    stream = label_stream("tinyimagenet-lt100", seed=4, order="permuted", imbalance_seed=9)
    usual = label_stream("tinyimagenet-lt100", seed=4, order="permuted")
    for task, classes in enumerate(stream.tasks):
        by_rank = classes[np.argsort(class_ranks(20, task, seed=9))]
        assert stream.counts[by_rank].tolist() == tail_counts(500, 20, 100)
        assert classes.tolist() == usual.tasks[task].tolist()
    assert (stream.counts != usual.counts).mean() > 0.8  # in a task of 20 ranks, one class in 20 keeps its own


@given(st.lists(st.integers(1, 400), min_size=2, max_size=12), st.floats(1, 200), st.integers(0, 50))
def test_a_class_keeps_no_more_than_it_has(sizes: list[int], imbalance: float, seed: int) -> None:
    held = np.array(sizes, np.int64)
    tasks = [part.astype(np.int64) for part in np.array_split(np.arange(len(sizes)), 2)]
    kept = kept_counts(held, tasks, imbalance, seed)
    assert (kept <= held).all()
    assert (kept >= 1).all()
    for task, classes in enumerate(tasks):
        wanted = tail_counts(int(held[classes].max()), len(classes), imbalance)
        ranks = class_ranks(len(classes), task, seed).tolist()
        expected = [min(wanted[rank], sizes[label]) for rank, label in zip(ranks, classes.tolist(), strict=True)]
        assert kept[classes].tolist() == expected
