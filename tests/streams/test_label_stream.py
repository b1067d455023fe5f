"""What a stream is, and what two streams share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import reprise.streams
from reprise.core.rng import Random
from reprise.streams import LabelStream, from_labels, label_stream


def same(one: LabelStream, other: LabelStream) -> bool:
    return np.array_equal(one.ids, other.ids) and np.array_equal(one.offsets, other.offsets)


def test_iterating_twice_gives_the_same_fresh_arrays() -> None:
    stream = label_stream("cifar10-lt10", seed=1, tasks=5)
    first = list(stream)
    for batch in first:
        batch += 1  # what we were given is ours to change
    again = list(stream)
    assert len(again) == len(stream)
    assert all(batch.dtype == np.int64 for batch in again)
    assert np.array_equal(np.concatenate(again) + 1, np.concatenate(first))
    assert np.array_equal(np.concatenate(again), stream.ids)


def test_everything_it_holds_is_int64_and_read_only() -> None:
    stream = label_stream("cifar10-lt10", validation=True)
    arrays = [stream.ids, stream.offsets, stream.boundaries, stream.labels, stream.heldout]
    for array in [*arrays, stream.counts, stream.task_of_class, *stream.tasks]:
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_labels_given_are_copied() -> None:
    labels = np.arange(40, dtype=np.int64) % 10
    stream = from_labels(labels)
    labels[:] = 0
    assert stream.labels.tolist() == [number % 10 for number in range(40)]


def test_tasks_hold_classes_in_label_order() -> None:
    stream = label_stream("cifar100-lt10")
    assert [classes.tolist() for classes in stream.tasks] == np.arange(100).reshape(10, 10).tolist()
    assert stream.task_of_class.tolist() == [label // 10 for label in range(100)]
    uneven = label_stream("cifar10-balanced", tasks=3)
    assert [len(classes) for classes in uneven.tasks] == [4, 3, 3]


def test_permuted_order_is_seeded_by_name() -> None:
    stream = label_stream("cifar100-lt10", seed=6, order="permuted")
    assert np.concatenate(stream.tasks).tolist() == Random(6, "class order").permutation(100).tolist()
    for task, (start, stop) in enumerate(zip([0, *stream.boundaries[:-1]], stream.boundaries, strict=True)):
        ids = stream.ids[stream.offsets[start] : stream.offsets[stop]]
        assert set(stream.labels[ids].tolist()) == set(stream.tasks[task].tolist())


def test_seeds_differ_and_repeat() -> None:
    assert same(label_stream("cifar100-lt10", 2), label_stream("cifar100-lt10", 2))
    assert not same(label_stream("cifar100-lt10", 2), label_stream("cifar100-lt10", 3))


def test_streams_of_one_seed_share_examples_and_their_order() -> None:
    balanced, lt10, lt100 = (label_stream(f"cifar100-{tail}", 7).ids for tail in ("balanced", "lt10", "lt100"))
    assert np.array_equal(lt10[np.isin(lt10, lt100)], lt100)
    assert np.array_equal(balanced[np.isin(balanced, lt10)], lt10)


def test_what_is_kept_says_nothing_about_when_it_arrives() -> None:
    balanced, lt100 = (label_stream(f"cifar100-{tail}", 7) for tail in ("balanced", "lt100"))
    places = np.flatnonzero(np.isin(balanced.ids, lt100.ids)) % 5000  # within the task
    assert stats.kstest(places / 5000, "uniform").pvalue > 1e-3


def test_a_batch_size_changes_only_the_cuts() -> None:
    one, other = label_stream("cifar100-lt10"), label_stream("cifar100-lt10", batch=10)
    assert np.array_equal(one.ids, other.ids)
    assert len(other) == 10 * 205
    assert len(label_stream("cifar100-lt10", batch=10**30)) == 10


def test_synthetic_ids_go_class_by_class() -> None:
    stream = label_stream("cifar10-balanced")
    assert np.array_equal(stream.labels, np.arange(50_000) // 5000)


def test_real_labels_give_the_same_sequence_of_labels() -> None:
    options = {"seed": 5, "order": "permuted", "validation": True, "disjoint": 0.4, "blur": 0.3}
    labels = Random(11, "test").permutation(50_000) % 100
    plain, real = label_stream("cifar100-lt10", **options), label_stream("cifar100-lt10", labels=labels, **options)
    assert not np.array_equal(plain.ids, real.ids)
    assert np.array_equal(plain.labels[plain.ids], labels[real.ids])
    assert np.array_equal(plain.offsets, real.offsets)
    assert np.array_equal(real.labels, labels)


def test_real_examples_are_chosen_by_index_within_class() -> None:
    labels = Random(11, "test").permutation(50_000) % 100
    plain, real = label_stream("cifar100-lt100"), label_stream("cifar100-lt100", labels=labels)
    by_class = [np.flatnonzero(labels == label) for label in range(100)]
    assert real.ids.tolist() == [by_class[place // 500][place % 500] for place in plain.ids.tolist()]


def test_validation_holds_out_a_tenth_of_each_class() -> None:
    plain, stream = label_stream("cifar100-balanced", 3), label_stream("cifar100-balanced", 3, validation=True)
    assert len(plain.heldout) == 0
    assert np.bincount(stream.labels[stream.heldout]).tolist() == [50] * 100
    assert np.array_equal(np.sort(np.concatenate([stream.ids, stream.heldout])), np.arange(50_000))
    tailed = label_stream("cifar100-lt10", 3, validation=True)
    assert np.array_equal(tailed.heldout, stream.heldout)
    assert tailed.counts.max() == 450
    assert not np.isin(tailed.ids, tailed.heldout).any()


def test_validation_takes_one_of_a_small_class_and_none_of_a_single() -> None:
    stream = from_labels(np.repeat([0, 1, 2, 3], [1, 2, 14, 26]), tasks=1, validation=True)
    assert np.bincount(stream.labels[stream.heldout], minlength=4).tolist() == [0, 1, 1, 3]


def test_blur_moves_its_share_of_the_blurry_classes() -> None:
    plain = label_stream("cifar100-lt10", 1)
    stream = label_stream("cifar100-lt10", 1, disjoint=0.5, blur=0.2)
    assert np.array_equal(np.sort(stream.ids), np.sort(plain.ids))
    assert np.array_equal(stream.counts, plain.counts)
    away = away_per_class(stream)
    assert np.count_nonzero(away) == 50
    assert np.array_equal(away[away > 0], np.rint(0.2 * stream.counts[away > 0]).astype(int))


def test_blur_reaches_every_other_task_alike() -> None:
    stream = label_stream("cifar100-balanced", 2, disjoint=0.0, blur=1.0)
    home = stream.task_of_class[stream.labels[stream.ids]]
    met = np.zeros((10, 10), int)
    np.add.at(met, (home, task_of_example(stream)), 1)
    assert (np.diag(met) == 0).all()
    away = met[~np.eye(10, dtype=bool)]  # 90 cells of 50,000/90 examples
    assert stats.chisquare(away).pvalue > 1e-3


@pytest.mark.parametrize("options", [{"disjoint": 1.0, "blur": 0.5}, {"disjoint": 0.0, "blur": 0.0}])
def test_no_blur_is_the_plain_stream(options: dict[str, float]) -> None:
    assert same(label_stream("cifar100-lt10", 1, **options), label_stream("cifar100-lt10", 1))


def test_a_task_that_blur_empties_has_no_steps() -> None:
    stream = from_labels([0, 1, 2, 3], seed=0, tasks=4, disjoint=0.0, blur=1.0)
    assert len(stream.boundaries) == 4
    assert stream.boundaries[-1] == len(stream) == len(set(task_of_example(stream).tolist()))


def test_the_shuffle_within_a_task_is_uniform() -> None:
    labels = [0, 1, 2, 3]
    orders = [tuple(from_labels(labels, seed, tasks=1).ids.tolist()) for seed in range(2400)]
    seen = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(seen) == 24
    assert stats.chisquare(seen).pvalue > 1e-3


def test_names_of_streams_over_labels() -> None:
    labels = np.arange(40) % 10
    assert from_labels(labels).name == "custom-balanced"
    assert from_labels(labels, imbalance=10).name == "custom-lt10"
    assert from_labels(labels, imbalance=2.5, name="mine").name == "mine-lt2.5"


def test_the_repr_says_what_it_is() -> None:
    stream = label_stream("cifar100-lt10", 4, order="permuted", batch=16)
    assert repr(stream) == (
        "<LabelStream 'cifar100-lt10', seed=4, batch=16, order='permuted': "
        "100 classes, 10 tasks, 20,440 examples, 1,280 steps>"
    )


def test_public_names_are_there() -> None:
    assert all(hasattr(reprise.streams, name) for name in reprise.streams.__all__)


def task_of_example(stream: LabelStream) -> np.ndarray:
    """The task in which each example arrives."""
    step = np.repeat(np.arange(len(stream)), np.diff(stream.offsets))
    return np.searchsorted(stream.boundaries, step, side="right")


def away_per_class(stream: LabelStream) -> np.ndarray:
    """How many examples of each class arrive outside its task."""
    labels = stream.labels[stream.ids]
    away = task_of_example(stream) != stream.task_of_class[labels]
    return np.bincount(labels[away], minlength=stream.num_classes)
