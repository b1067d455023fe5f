"""The contract of a schedule: everything a retrieval must prove, and its promises about waiting."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.checks.common import TRIALS, advance, check_arguments, require, trial
from reprise.checks.retrieval import check_retrieval
from reprise.memory import Memory, Schedule, as_retrieval
from reprise.memory.retrieval import Scheduled

Floats = NDArray[np.float64]

# Classes and replay size: b divides C, does not, is 1, is C, is more than C.
SETTINGS = ((12, 4), (13, 4), (7, 1), (9, 8), (8, 8), (5, 12), (1, 3), (40, 8))
_LONG = 600
_LAWS = ((12, 4), (13, 4), (40, 8))
# So many visits, were they independent, leave their law by more than this less than once in a million cases
# (2·exp(−2·3000·0.05²), the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart). A step has one visit at least.
_VISITS, _APART = 3000, 0.05


def check_schedule(policy: str | Schedule) -> None:
    """Prove that a schedule keeps its contract, or raise `Broken`.

    All that `check_retrieval` asks. On a fixed set: it names resident classes only, none twice in a batch that
    has room for each once (unless it says `distinct = False`), leaves out no class for good, serves every class
    alike when b divides C, and keeps its `bound`. While classes come and go it keeps its `churn_bound` after a visit
    and its `first_bound`, if it has one, after an arrival, with the interval's own largest set and insertions. Waits
    that no visit ends count as well. If it declares a law, by `gap_tail`, that is a law: it begins at 1, never rises,
    reaches the floor ⌈C/b⌉ and not beyond the bound, has mean C/b where b divides C, and gaps follow it.
    """
    retrieval = as_retrieval(policy)
    if not isinstance(retrieval, Scheduled):
        raise TypeError(f"check_schedule takes a schedule, got {policy!r}")
    schedule = retrieval.schedule
    what = f"schedule {schedule!r}"
    check_arguments(schedule, lambda given: as_retrieval(given).schedule)  # type: ignore[attr-defined]
    check_retrieval(retrieval)
    for classes, n in SETTINGS:
        _check_fixed_set(schedule, what, classes, n)
        _check_law(schedule, what, classes, n)
    for seed in range(3 * TRIALS):
        _check_churn(schedule, what, seed)


def _check_fixed_set(schedule: Any, what: str, classes: int, n: int) -> None:
    per_class = n + 2  # enough examples for every class slot
    memory = Memory(classes * per_class, "fifo", schedule, seed=classes * 100 + n)
    memory.store(np.arange(classes * per_class) % classes)
    where = f"with {classes} classes and batches of {n}"
    visits, last, longest = Counter[int](), dict.fromkeys(range(classes), -1), 0
    for step in range(_LONG):
        batch = memory.draw(n).labels.tolist()
        require(len(batch) == n, f"{what}, {where}, must fill the batch; at step {step} it drew {len(batch)}")
        if n <= classes and getattr(schedule, "distinct", True):
            require(len(set(batch)) == n, f"{what}, {where}, must not name a class twice in a batch; it drew {batch}")
        for label in set(batch):
            longest = max(longest, step - last[label])
            last[label] = step
            visits[label] += 1
    # Whoever the last batch left out waits at least one step more.
    longest = max([longest, *(_LONG - step for step in last.values() if step < _LONG - 1)])
    require(len(visits) == classes, f"{what}, {where}, must serve every class; {classes - len(visits)} never came")
    bound = schedule.bound(classes, n)
    require(
        bound is None or longest <= bound, f"{what}, {where}, promises waits of at most {bound}; one took {longest}"
    )
    if classes % n == 0:
        _check_marginal(visits, what, where)


def _check_marginal(visits: Counter[int], what: str, where: str) -> None:
    expected = visits.total() / len(visits) / _LONG
    # Six standard deviations of independent draws: no schedule that serves classes alike comes near.
    slack = 6 * (_LONG * expected * (1 - expected)) ** 0.5 + 1
    for label, count in visits.items():
        require(
            abs(count - _LONG * expected) <= slack,
            f"{what}, {where}, must serve classes alike, {_LONG * expected:.0f} times in {_LONG} steps; class {label} "
            f"came {count} times",
        )


def _check_law(schedule: Any, what: str, classes: int, n: int) -> None:
    """What a law is in itself, and on some settings that gaps follow it."""
    declared, floor = getattr(schedule, "gap_tail", None), -(-classes // n)
    longest = 60 * floor  # a geometric law leaves one gap in 10²⁶ beyond that
    where = f"with {classes} classes and batches of {n}"
    found = None if declared is None else declared(classes, n, longest)
    if found is None:
        return
    tail = np.asarray(found, np.float64)
    says = f"{what}, {where}, must give the probability of gaps of at least 1 to {longest} steps"
    require(tail.shape == (longest,), f"{says}; it gave an array of shape {tail.shape}")
    require(bool(abs(tail[0] - 1) < 1e-9), f"{says}, and the first is 1; it gave {tail[0]}")
    require(bool((np.diff(tail) < 1e-9).all() and (tail > -1e-9).all()), f"{says}, which never rise nor are below 0")
    require(bool(tail[floor - 1] > 0), f"{says}, and no schedule keeps every gap below {floor}; its law does")
    bound = schedule.bound(classes, n)
    beyond = 0.0 if bound is None else float(tail[bound:].max(initial=0.0))
    require(beyond < 1e-9, f"{says}, and its bound is {bound}; by its law {beyond:.2g} of all gaps are longer")
    if getattr(schedule, "distinct", True) and (classes % n == 0 or n >= classes):
        mean, due = float(tail.sum()), max(classes / n, 1.0)
        require(abs(mean - due) < 1e-6, f"{says}; their mean is {due:g} steps, and by its law {mean:.6g}")
    if (classes, n) in _LAWS:
        _check_gaps(schedule, tail, f"{what}, {where}", classes, n)


def _check_gaps(schedule: Any, tail: Floats, who: str, classes: int, n: int) -> None:
    memory = Memory(classes * (n + 2), "fifo", schedule, seed=classes * 100 + n)
    memory.store(np.arange(classes * (n + 2)) % classes)
    last, counts = dict[int, int](), np.zeros(len(tail), np.int64)
    for step in range(_VISITS):
        for label in set(memory.draw(n).labels.tolist()):
            if label in last:
                counts[min(step - last[label], len(tail)) - 1] += 1
            last[label] = step
    measured = np.cumsum(counts[::-1])[::-1] / counts.sum()
    worst = int(np.abs(measured - tail).argmax())
    require(
        bool(abs(measured[worst] - tail[worst]) <= _APART),
        f"{who}, says that {tail[worst]:.1%} of gaps take {worst + 1} steps or more; {measured[worst]:.1%} did",
    )


@dataclass
class _Wait:
    """A resident class that waits, and what has happened to the set meanwhile."""

    since: int  # step of the last visit; the one before the first draw that knew the class
    most: int
    inserted: int = 0
    arrival: bool = False


def _check_churn(schedule: Any, what: str, seed: int) -> None:
    capacity, script = trial(2 * seed + 1, steps=150)  # odd trials draw the same n at every step
    memory = Memory(capacity, ("fifo", "reservoir", "brs")[seed % 3], schedule, seed)
    n = script[0].n
    waits: dict[int, _Wait] = {}
    for number, step in enumerate(script):
        resident = set(memory.classes.tolist())
        arrived = resident - waits.keys()
        for label in waits.keys() - resident:
            del waits[label]
        for wait in waits.values():
            wait.most = max(wait.most, len(resident))
            wait.inserted += len(arrived)
        waits.update((label, _Wait(number - 1, len(resident), arrival=True)) for label in arrived)
        labels = memory.labels
        (slots,), _ = advance(memory, step)
        batch = {int(labels[slot]) for slot in slots}
        for label, wait in waits.items():
            _check_wait(schedule, what, wait, n, f"in trial {seed} class {label} waited", number, label in batch)
        waits.update((label, _Wait(number, len(resident))) for label in batch)


def _check_wait(schedule: Any, what: str, wait: _Wait, n: int, who: str, step: int, served: bool) -> None:
    promise = getattr(schedule, "first_bound", None) if wait.arrival else schedule.churn_bound
    bound = None if promise is None else promise(wait.most, wait.inserted, n)
    if bound is None:
        return
    waited = step - wait.since
    since, end = "an arrival" if wait.arrival else "a visit", "until" if served else "and was not served at"
    require(
        waited + (not served) <= bound,  # whoever is not served now waits at least one step more
        f"{what} promises waits of at most {bound} after {since} with up to {wait.most} classes, {wait.inserted} "
        f"arrivals and batches of {n}; {who} {waited} steps {end} step {step}",
    )
