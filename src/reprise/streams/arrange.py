"""The order of arrival: from labels, options and a seed to a stream.

Every choice is made by *place*: the number of an example when the data set is laid out class by class. Real labels
only say which example id stands at which place. So a stream's sequence of labels depends on class sizes alone, and
is the same whether or not the real labels are at hand, in whatever order they come.

Every choice has a random stream named for it, and gives each place its own lot. So two streams of one seed share all
they can: the examples of an LT100 stream are among those of the LT10 stream, and arrive in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random, check_seed

from .longtail import kept_counts
from .options import StreamOptions
from .stream import Ints, LabelStream

Mask = NDArray[np.bool_]
Small = NDArray[np.unsignedinteger]  # class or task numbers in a narrow type, which sorts faster


def arrange(name: str, labels: Ints, options: StreamOptions, seed: int) -> LabelStream:
    """The stream over `labels`, which hold every class from 0 up at least once."""
    seed = check_seed(seed)
    sizes = np.bincount(labels).astype(np.int64, copy=False)
    classes = len(sizes)
    if options.tasks > classes:
        raise ValueError(f"tasks must be at most the number of classes, {classes}, got {options.tasks}")
    in_order = Random(seed, "class order").permutation(classes) if options.order == "permuted" else np.arange(classes)
    tasks = tuple(part.copy() for part in np.array_split(in_order.astype(np.int64), options.tasks))

    class_at = np.repeat(np.arange(classes, dtype=_smallest(classes)), sizes)  # the class at each place
    kept = np.ones(len(labels), np.bool_)
    if options.validation:
        tenths = np.where(sizes > 1, np.maximum(1, np.rint(sizes / 10)), 0).astype(np.int64)
        kept = ~_choose(Random(seed, "validation"), class_at, tenths, kept)
        sizes = sizes - tenths
    heldout = np.flatnonzero(~kept)
    tail_seed = seed if options.imbalance_seed is None else options.imbalance_seed
    counts = kept_counts(sizes, tasks, options.imbalance, tail_seed)
    if options.imbalance > 1:
        kept = _choose(Random(seed, "imbalance examples"), class_at, counts, kept)

    home = np.empty(classes, _smallest(options.tasks))
    for task, members in enumerate(tasks):
        home[members] = task
    task_at = home[class_at]
    if options.blurry:
        task_at = _blur(Random(seed, "blur"), class_at, task_at, counts, kept, options)

    # One shuffle of the whole data set, then a stable sort by task: examples that two streams share keep their order.
    arrival = Random(seed, "stream order").permutation(len(labels))
    arrival = arrival[kept[arrival]]
    arrival = arrival[np.argsort(task_at[arrival], kind="stable")]
    offsets, boundaries = _cut(np.bincount(task_at[kept], minlength=options.tasks), options.batch)

    # The example id at each place.
    id_at = np.argsort(labels.astype(_smallest(classes)), kind="stable").astype(np.int64, copy=False)
    return LabelStream(name, seed, id_at[arrival], offsets, boundaries, labels, tasks, np.sort(id_at[heldout]), options)


def _choose(random: Random, class_at: Small, counts: Ints, among: Mask) -> Mask:
    """Mark `counts[c]` random places of each class c, out of those in `among`.

    A larger count from the same lots marks the same places and more.
    """
    order = random.permutation(len(class_at))
    order = order[among[order]]
    order = order[np.argsort(class_at[order], kind="stable")]  # class by class, each class shuffled
    class_of = class_at[order]
    sizes = np.bincount(class_of, minlength=len(counts))
    nth = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[class_of]
    chosen = np.zeros(len(class_at), np.bool_)
    chosen[order[nth < counts[class_of]]] = True
    return chosen


def _blur(
    random: Random,
    class_at: Small,
    task_at: Small,
    counts: Ints,
    kept: Mask,
    options: StreamOptions,
) -> Small:
    """Send a share of every blurry class's kept places to other tasks, each place to a uniformly drawn one."""
    whole = random.permutation(len(counts))[: round(options.disjoint * len(counts))]
    leaving = np.rint(options.blur * counts).astype(np.int64)
    leaving[whole] = 0
    moved = _choose(random, class_at, leaving, kept)
    hops = 1 + (random.fractions(len(class_at))[moved] * (options.tasks - 1)).astype(np.int64)
    blurred: Small = task_at.copy()
    blurred[moved] = (task_at[moved] + hops) % options.tasks
    return blurred


def _cut(examples: Ints, batch: int) -> tuple[Ints, Ints]:
    """Cut tasks of so many examples into steps: where steps start, with the end, and the first step after each task."""
    batch = min(batch, int(examples.sum()))
    boundaries = np.cumsum(-(-examples // batch))
    stops = np.cumsum(examples)
    starts = [np.arange(stop - size, stop, batch) for stop, size in zip(stops.tolist(), examples.tolist(), strict=True)]
    return np.concatenate([*starts, stops[-1:]]).astype(np.int64), boundaries.astype(np.int64)


def _smallest(count: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds 0 … count−1."""
    smallest: np.dtype[np.unsignedinteger] = np.min_scalar_type(count - 1)
    return smallest
