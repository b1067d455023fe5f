"""How well a run learned: every figure defined once, from the test examples that each evaluation got right.

All figures are fractions between 0 and 1, or differences of such. In an array, what was not measured is NaN; a
single figure that nothing defines is None.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What a read-out got right, at every evaluation of a run; E evaluations, C classes, K tasks.

    A class of which no example had arrived is not evaluated. A boundary evaluation is the first one after a task's
    last step, and there is at most one per task; a task that a blurry stream left without steps of its own shares
    its step with the task before, and the evaluation may then stand twice.
    """

    steps: Ints  # (E,) steps done at each evaluation, rising
    boundary: Bools  # (E,) whether the evaluation is at a task boundary
    correct: Ints  # (E, C) test examples of each class got right; 0 where the class was not evaluated
    seen: Bools  # (E, C) classes of which an example had arrived by then
    counts: Ints  # (C,) test examples of each class, the same at every evaluation
    task_of_class: Ints  # (C,) task of each class, 0 … K−1
    stream_counts: Ints  # (C,) examples of each class that arrive in the whole stream

    def __post_init__(self) -> None:
        for field in fields(self):
            kind, axes = _EXPECTED[field.name]
            array = _table(getattr(self, field.name), field.name, kind, len(axes))
            array.setflags(write=False)
            object.__setattr__(self, field.name, array)
        evaluations, classes = self.correct.shape
        if not evaluations or not classes:
            raise ValueError(f"metrics need at least one evaluation and one class, got {evaluations} and {classes}")
        for name, (_, axes) in _EXPECTED.items():
            due = tuple({"E": evaluations, "C": classes}[axis] for axis in axes)
            if (shape := getattr(self, name).shape) != due:
                raise ValueError(f"{name} must have shape {due} to go with correct, got {shape}")
        self._check_classes()
        self._check_evaluations()

    def _check_classes(self) -> None:
        for name in ("counts", "task_of_class", "stream_counts"):
            if (least := int(getattr(self, name).min())) < 0:
                raise ValueError(f"{name} must not be negative, got {least}")
        # Ids are bounded first, so that a wild one is an error and not a huge array.
        if self.tasks > self.correct.shape[1]:
            raise ValueError(f"task ids must leave no gaps, got {self.tasks - 1} with {self.correct.shape[1]} classes")
        missing = np.flatnonzero(np.bincount(self.task_of_class) == 0)
        if len(missing):
            raise ValueError(f"every task 0 … {self.tasks - 1} must have a class, task {missing[0]} has none")

    def _check_evaluations(self) -> None:
        if self.steps[0] < 0 or (np.diff(self.steps) < 0).any():
            raise ValueError(f"steps must be rising and not negative, got {self.steps.tolist()}")
        again = np.flatnonzero(np.diff(self.steps) == 0)
        for row in again.tolist():
            pair = slice(row, row + 2)
            alike = (self.correct[row] == self.correct[row + 1]) & (self.seen[row] == self.seen[row + 1])
            if not (self.boundary[pair].all() and alike.all()):
                raise ValueError(
                    f"two evaluations at step {self.steps[row]} must be the same one, at the boundary of two tasks"
                )
        if (marked := int(self.boundary.sum())) > self.tasks:
            raise ValueError(f"there are {self.tasks} tasks, so at most as many boundary evaluations, got {marked}")
        for wrong, sentence in [
            (self.correct < 0, "must not be negative"),
            (self.correct > self.counts, "must not exceed the class's test examples"),
            (~self.seen & (self.correct > 0), "must be 0 for a class that was not seen"),
        ]:
            if wrong.any():
                row, label = np.argwhere(wrong)[0].tolist()
                got = int(self.correct[row, label])
                raise ValueError(f"correct {sentence}, got {got} for class {label} at evaluation {row}")
        lost = self.seen[:-1] & ~self.seen[1:]
        if lost.any():
            row, label = np.argwhere(lost)[0].tolist()
            raise ValueError(f"a class once seen stays seen, but class {label} is not at evaluation {row + 1}")
        unheard = np.flatnonzero(self.seen[-1] & (self.stream_counts == 0))
        if len(unheard):
            raise ValueError(f"class {unheard[0]} is marked as seen, but stream_counts says that none of it arrives")

    @property
    def tasks(self) -> int:
        """K, the number of tasks."""
        return int(self.task_of_class.max()) + 1

    @property
    def accuracy(self) -> Floats:
        """(E, C) right over test examples of the class; NaN where it was not seen or has no test example."""
        return _ratio(self.correct, self.seen * self.counts)


_EXPECTED = {
    "steps": ("integers", "E"),
    "boundary": ("booleans", "E"),
    "correct": ("integers", "EC"),
    "seen": ("booleans", "EC"),
    "counts": ("integers", "C"),
    "task_of_class": ("integers", "C"),
    "stream_counts": ("integers", "C"),
}


def task_accuracy(e: Evaluations) -> Floats:
    """(E, K) a(e, k) = Σ right / Σ test examples, over the classes of task k seen by evaluation e; NaN before any."""
    member = (e.task_of_class[:, None] == np.arange(e.tasks)).astype(np.int64)
    return _ratio(e.correct @ member, (e.seen * e.counts) @ member)


def final(e: Evaluations) -> float | None:
    """Final task-mean accuracy: the mean of a(E, k) over the tasks k of which a class arrived."""
    return _mean(task_accuracy(e)[-1])


def boundary_mean(e: Evaluations) -> float | None:
    """The mean over task boundaries of A(e), the mean of a(e, k) over the tasks k begun by then.

    A task has begun when an example of one of its classes has arrived: at sharp boundaries, tasks 1 … k at the k-th.
    """
    return _mean(_row_means(task_accuracy(e))[e.boundary])


def any_time(e: Evaluations) -> float | None:
    """Average any-time accuracy: the mean of the same A(e) over all evaluations, at boundaries and in between."""
    return _mean(_row_means(task_accuracy(e)))


def worst_case(e: Evaluations) -> float | None:
    """WC-ACC at the end: (1/K)·a(E, K) + (1 − 1/K)·(the mean over tasks i < K of min a(e, i)).

    This is the worst-case accuracy of De Lange et al. (2023). The minimum runs over all evaluations from task i's own
    boundary to the last, both of which count; as published, the task's own boundary does not. So worst_case ≤ final.
    K counts the tasks of which a class arrived. None unless every task boundary was evaluated; a single evaluation
    at the end is its own minimum, and gives `final`.
    """
    accuracy = task_accuracy(e)
    known = np.flatnonzero(~np.isnan(accuracy[-1]))
    if not len(known):
        return None
    own = np.zeros(e.tasks, np.int64) if len(e.steps) == 1 else _own_boundaries(e)
    if own is None:
        # With one task there is nothing to forget, whatever was evaluated.
        return float(accuracy[-1, known[0]]) if len(known) == 1 else None
    counted = (np.arange(len(e.steps))[:, None] >= own) & ~np.isnan(accuracy)
    lowest = np.where(counted, accuracy, np.inf).min(axis=0)
    return float((accuracy[-1, known[-1]] + lowest[known[:-1]].sum()) / len(known))


def backward_transfer(e: Evaluations) -> float | None:
    """The mean over tasks j < K of a(E, j) − a(j, j), a(j, j) being that at task j's own boundary.

    A task of which nothing had arrived by its own boundary is left out. None with one task, and unless every task
    boundary was evaluated.
    """
    accuracy = task_accuracy(e)
    known = np.flatnonzero(~np.isnan(accuracy[-1]))
    own = _own_boundaries(e)
    if own is None:
        return None
    earlier = known[:-1]
    return _mean(accuracy[-1, earlier] - accuracy[own[earlier], earlier])


def forgetting_per_class(e: Evaluations) -> Floats:
    """(C,) best accuracy of each class over the boundary evaluations and the last, minus the last; NaN if not seen."""
    accuracy = e.accuracy
    counted = e.boundary.copy()
    counted[-1] = True
    best = np.where(np.isnan(accuracy), -np.inf, accuracy)[counted].max(axis=0)
    return np.where(np.isnan(accuracy[-1]), np.nan, best - accuracy[-1])


def forgetting(e: Evaluations) -> float | None:
    """The mean of forgetting_per_class over the classes that have it."""
    return _mean(forgetting_per_class(e))


def groups(stream_counts: ArrayLike) -> dict[str, Ints]:
    """Class ids in thirds by observed stream frequency, each third sorted.

    Classes are ordered by how many of their examples arrived, ties by class id. The lowest ⌊C/3⌋ are the tail,
    the next ⌊C/3⌋ the mid, the rest the head.
    """
    order = np.argsort(_table(stream_counts, "stream_counts", "integers", 1), kind="stable")
    third = len(order) // 3
    thirds = {"head": order[2 * third :], "mid": order[third : 2 * third], "tail": order[:third]}
    return {name: np.sort(ids).astype(np.int64) for name, ids in thirds.items()}


def group_accuracy(e: Evaluations) -> dict[str, float | None]:
    """The mean final class accuracy of head, mid and tail, each over its classes that arrived."""
    last = e.accuracy[-1]
    return {name: _mean(last[ids]) for name, ids in groups(e.stream_counts).items()}


def macro(e: Evaluations) -> float | None:
    """The mean final class accuracy, over the classes that arrived."""
    return _mean(e.accuracy[-1])


def summary(e: Evaluations) -> dict[str, float | None]:
    """All figures of a run's evaluations under their names."""
    return {
        "final": final(e),
        "boundary_mean": boundary_mean(e),
        "any_time": any_time(e),
        "worst_case": worst_case(e),
        "backward_transfer": backward_transfer(e),
        "forgetting": forgetting(e),
        **group_accuracy(e),
        "macro": macro(e),
    }


def prequential(hits: ArrayLike, sizes: ArrayLike) -> float:
    """Prequential accuracy: Σ hits / Σ sizes, over the incoming batches of all steps.

    Each batch is predicted before it is learned, by the live network as it trains: in training mode, on the
    augmented image, with all classes allowed.

    >>> prequential([0, 5, 3], [8, 8, 4])
    0.4
    """
    right, arrived = _batches(hits, sizes)
    if not arrived.sum():
        raise ValueError("prequential accuracy needs at least one example that arrived, got none")
    return float(right.sum() / arrived.sum())


def prequential_by_task(hits: ArrayLike, sizes: ArrayLike, boundaries: ArrayLike) -> Floats:
    """(K,) the prequential accuracy of each task's steps; NaN for a task without examples.

    `boundaries` holds the first step after each task, as a tape does.
    """
    right, arrived = _batches(hits, sizes)
    ends = _table(boundaries, "boundaries", "integers", 1)
    if (np.diff(ends, prepend=0) < 0).any() or not len(ends) or ends[-1] != len(right):
        raise ValueError(f"boundaries must rise from 0 to the {len(right)} steps that were made, got {ends.tolist()}")
    totals = [np.diff(np.append(0, np.cumsum(values))[ends], prepend=0) for values in (right, arrived)]
    return _ratio(*totals)


def _batches(hits: ArrayLike, sizes: ArrayLike) -> tuple[Ints, Ints]:
    right, arrived = _table(hits, "hits", "integers", 1), _table(sizes, "sizes", "integers", 1)
    if right.shape != arrived.shape:
        raise ValueError(f"hits and sizes must have one entry a step, got {len(right)} and {len(arrived)}")
    wrong = np.flatnonzero((right < 0) | (right > arrived))
    if len(wrong):
        step = int(wrong[0])
        raise ValueError(f"hits must lie in 0 … size, got {right[step]} of {arrived[step]} at step {step}")
    return right, arrived


def _own_boundaries(e: Evaluations) -> Ints | None:
    """The evaluation at each task's boundary; None when some are missing, for then none can be told apart."""
    rows = np.flatnonzero(e.boundary)
    return rows if len(rows) == e.tasks else None


def _ratio(part: Ints, whole: Ints) -> Floats:
    result: Floats = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return result


def _row_means(table: Floats) -> Floats:
    """The mean of each row over what is not NaN."""
    known = ~np.isnan(table)
    totals = np.where(known, table, 0.0).sum(axis=1)
    means: Floats = np.divide(totals, known.sum(axis=1), out=np.full(len(table), np.nan), where=known.any(axis=1))
    return means


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _table(value: ArrayLike, name: str, kind: str, axes: int) -> NDArray[Any]:
    """A copy of `value` as int64 or bool, if that is what it holds."""
    array = np.asarray(value)
    letters, dtype = ("iu", np.int64) if kind == "integers" else ("b", np.bool_)
    if array.size and array.dtype.kind not in letters:
        raise TypeError(f"{name} must hold {kind}, got {array.dtype}")
    if array.ndim != axes:
        raise ValueError(f"{name} must have {axes} {'axis' if axes == 1 else 'axes'}, got shape {array.shape}")
    return array.astype(dtype)
