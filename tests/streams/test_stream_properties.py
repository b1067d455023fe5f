"""What holds for every stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.core.rng import Random
from reprise.streams import LabelStream, from_labels


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
