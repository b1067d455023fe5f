"""What holds for every stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.core.rng import Random
from reprise.streams import LabelStream, from_labels
from reprise.streams.longtail import kept_counts


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """Class sizes and options."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=12))
    tasks = draw(st.integers(1, len(sizes)))
    sharp = tasks == 1
    return sizes, {
        "seed": draw(st.integers(0, 2000)),
        "imbalance": draw(st.sampled_from([1.0, 1.5, 10.0, 100.0])),
        "batch": draw(st.integers(1, 50)),
        "tasks": tasks,
        "order": draw(st.sampled_from(["label", "permuted"])),
        "validation": draw(st.booleans()),
        "disjoint": 1.0 if sharp else draw(st.floats(0, 1)),
        "blur": 0.0 if sharp else draw(st.floats(0, 1)),
    }


def build(sizes: list[int], options: dict[str, Any]) -> LabelStream:
    return from_labels(np.repeat(np.arange(len(sizes)), sizes), **options)


@settings(deadline=None)
@given(requests())
def test_every_example_at_most_once_and_never_a_held_out_one(request: tuple[list[int], dict[str, Any]]) -> None:
    sizes, options = request
    stream = build(sizes, options)
    met = np.concatenate([stream.ids, stream.heldout])
    assert len(np.unique(met)) == len(met)
    assert ((met >= 0) & (met < sum(sizes))).all()
    assert (stream.counts >= 1).all()
    assert (stream.counts <= sizes).all()
    if options["imbalance"] == 1:
        assert len(met) == sum(sizes)


@settings(deadline=None)
@given(requests())
def test_batches_are_full_up_to_the_last_of_a_task(request: tuple[list[int], dict[str, Any]]) -> None:
    sizes, options = request
    stream = build(sizes, options)
    batches = list(stream)
    assert len(batches) == len(stream) == stream.boundaries[-1]
    assert np.array_equal(np.concatenate(batches), stream.ids)
    assert stream.offsets[0] == 0
    assert stream.offsets[-1] == len(stream.ids)
    lasts = set(stream.boundaries.tolist())
    for step, batch in enumerate(batches, start=1):
        assert len(batch) == options["batch"] or (step in lasts and 0 < len(batch) < options["batch"])


@settings(deadline=None)
@given(requests())
def test_boundaries_part_the_tasks(request: tuple[list[int], dict[str, Any]]) -> None:
    sizes, options = request
    stream = build(sizes, options | {"blur": 0.0})
    batches = list(stream)
    assert len(stream.boundaries) == len(stream.tasks) == options["tasks"]
    assert sorted(np.concatenate(stream.tasks).tolist()) == list(range(len(sizes)))
    start = 0
    for task, stop in enumerate(stream.boundaries.tolist()):
        assert stop > start
        met = stream.labels[np.concatenate(batches[start:stop])]
        assert set(met.tolist()) == set(stream.tasks[task].tolist())
        assert (stream.task_of_class[met] == task).all()
        start = stop


@settings(deadline=None)
@given(requests())
def test_blur_conserves_examples(request: tuple[list[int], dict[str, Any]]) -> None:
    sizes, options = request
    blurred, plain = build(sizes, options), build(sizes, options | {"blur": 0.0, "disjoint": 1.0})
    assert np.array_equal(np.sort(blurred.ids), np.sort(plain.ids))
    assert np.array_equal(blurred.heldout, plain.heldout)
    step = np.repeat(np.arange(len(blurred)), np.diff(blurred.offsets))
    labels = blurred.labels[blurred.ids]
    away = np.searchsorted(blurred.boundaries, step, side="right") != blurred.task_of_class[labels]
    moved = np.bincount(labels[away], minlength=len(sizes))
    share = np.rint(options["blur"] * blurred.counts).astype(int)
    assert all(count in (0, wanted) for count, wanted in zip(moved.tolist(), share.tolist(), strict=True))
    assert (moved == share).sum() >= len(sizes) - round(options["disjoint"] * len(sizes))
    assert (moved == 0).sum() >= round(options["disjoint"] * len(sizes))


@settings(deadline=None)
@given(requests(), st.integers(0, 100))
def test_labels_in_any_order_give_the_same_sequence(request: tuple[list[int], dict[str, Any]], mix: int) -> None:
    sizes, options = request
    plain = build(sizes, options)
    labels = plain.labels[Random(mix, "test").permutation(sum(sizes))]
    real = from_labels(labels, **options)
    assert np.array_equal(labels[real.ids], plain.labels[plain.ids])
    assert np.array_equal(real.offsets, plain.offsets)
    assert np.array_equal(real.boundaries, plain.boundaries)
    assert np.array_equal(np.bincount(labels[real.heldout]), np.bincount(plain.labels[plain.heldout]))


# The seed of a tail, by itself.

TAILED = requests().filter(lambda request: request[1]["imbalance"] > 1)
SEEDS = st.integers(0, 2000)


def same(one: LabelStream, other: LabelStream) -> bool:
    arrays = ("ids", "offsets", "boundaries", "heldout")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


@settings(deadline=None)
@given(TAILED)
def test_a_tail_of_the_stream_s_own_seed_is_the_usual_one(request: tuple[list[int], dict[str, Any]]) -> None:
    sizes, options = request
    assert same(build(sizes, options), build(sizes, options | {"imbalance_seed": options["seed"]}))


@settings(deadline=None)
@given(TAILED, SEEDS, SEEDS)
def test_who_is_rare_follows_the_tail_s_seed_alone(
    request: tuple[list[int], dict[str, Any]], tail: int, other: int
) -> None:
    sizes, options = request
    stream = build(sizes, options | {"imbalance_seed": tail})
    there = np.array(sizes) - np.bincount(stream.labels[stream.heldout], minlength=len(sizes))
    assert stream.counts.tolist() == kept_counts(there, stream.tasks, options["imbalance"], tail).tolist()
    if options["order"] == "label":  # a permuted order deals classes to tasks by the stream's seed
        again = build(sizes, options | {"imbalance_seed": tail, "seed": other})
        assert again.counts.tolist() == stream.counts.tolist()


@settings(deadline=None)
@given(TAILED, SEEDS, SEEDS)
def test_all_but_who_is_rare_follows_the_stream_s_seed(
    request: tuple[list[int], dict[str, Any]], tail: int, other: int
) -> None:
    sizes, options = request
    options = options | {"blur": 0.0}
    one, two = (build(sizes, options | {"imbalance_seed": seed}) for seed in (tail, other))
    assert np.array_equal(one.heldout, two.heldout)
    assert all(np.array_equal(*pair) for pair in zip(one.tasks, two.tasks, strict=True))
    shared = np.intersect1d(one.ids, two.ids)
    # Of each class the smaller share is within the larger; the same number of examples are the same examples.
    fewer = np.minimum(one.counts, two.counts)
    assert np.bincount(one.labels[shared], minlength=len(sizes)).tolist() == fewer.tolist()
    # What both bring comes in the same order.
    assert np.array_equal(one.ids[np.isin(one.ids, shared)], two.ids[np.isin(two.ids, shared)])
