"""What every policy must prove: it is its arguments, it repeats itself, it can be stopped and continued."""

from __future__ import annotations

import json
import random as global_random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from reprise.core.rng import Random
from reprise.memory import Memory, is_scored

TRIALS = 8


class Broken(AssertionError):
    """A policy does not keep its contract."""


def require(kept: bool, sentence: str) -> None:
    """Raise `Broken` with this sentence unless the promise was kept."""
    if not kept:
        raise Broken(sentence)


@dataclass(frozen=True)
class Step:
    """Draw n, then store these labels."""

    n: int
    labels: tuple[int, ...]


def trial(seed: int, steps: int = 60) -> tuple[int, list[Step]]:
    """A capacity and a script of draws and batches in which classes come, go and come back."""
    chance = Random(seed, "checks")
    capacity = (1, 3, 7, 20, 64)[seed % 5]
    fixed = 1 + chance.below(6) if seed % 2 else None  # every other trial draws the same n at every step
    script = []
    for step in range(steps):
        first = (step // 7) * (1 + seed % 3)  # the classes drift, so that storage must evict whole classes
        labels = tuple(first + chance.below(1 + chance.below(9)) for _ in range(chance.below(9)))
        if chance.below(10) == 0:
            labels += (10**12 + seed,)  # a label is any whole number, not an index
        script.append(Step(fixed or chance.below(12), labels))
    return capacity, script


def score(slots: Any) -> Any:
    """A score for retrievals that ask for one: fixed, and different for every slot."""
    return np.sin(np.asarray(slots, np.float64) * 12.9898)


def score_for(memory: Memory) -> Callable[[Any], Any] | None:
    """The score, unless the memory's retrieval says that it takes none."""
    return None if getattr(memory.retrieval, "scored", None) is False else score


def rows_for(memory: Memory, labels: tuple[int, ...]) -> Callable[..., Any] | None:
    """What a storage that goes by a score is told: three numbers of every example; None for any other storage."""
    if not is_scored(memory.storage):
        return None
    held = memory.labels

    def rows(slots: Any = None) -> Any:
        what = np.array(labels, np.int64) if slots is None else held[slots]
        return np.sin(np.outer(what % 1009 + 1, [12.9898, 78.233, 37.719]))

    return rows


def advance(memory: Memory, step: Step) -> tuple[list[list[int]], list[int]]:
    """One step: what each channel drew, and where the labels went."""
    try:
        asked = score_for(memory)
        drawn = [memory.draw(step.n, channel=channel, score=asked).slots.tolist() for channel in range(memory.draws)]
        return drawn, memory.store(list(step.labels), score=rows_for(memory, step.labels)).tolist()
    except Exception as error:
        raise Broken(f"{memory!r} failed where it must not: {type(error).__name__}: {error}") from error


@contextmanager
def untouched_globals(what: str) -> Iterator[None]:
    """Fail if the block draws from the random numbers that everybody shares."""
    python, numpy = global_random.getstate(), np.random.get_state()  # noqa: NPY002
    yield
    after = np.random.get_state()  # noqa: NPY002
    require(
        python == global_random.getstate() and all(np.array_equal(a, b) for a, b in zip(numpy, after, strict=True)),
        f"{what} must draw from the random stream it is started with, never from a global one",
    )


def check_arguments(policy: Any, resolve: Callable[[Any], Any]) -> None:
    """The policy is its constructor arguments: fresh copies, equality and spec."""
    copy = policy.fresh()
    require(copy is not policy, f"{policy!r}.fresh() must make a new object")
    require(type(copy) is type(policy), f"{policy!r}.fresh() must be of the same class, got {copy!r}")
    require(repr(copy) == repr(policy), f"{policy!r}.fresh() must have the same arguments, got {copy!r}")
    require(copy == policy, f"{policy!r}.fresh() must equal the policy itself")
    spec = getattr(resolve(policy), "spec", repr(policy))
    if spec != repr(policy) and "(" not in spec:
        again = resolve(spec)
        require(again == resolve(policy), f"the spec {spec!r} of {policy!r} must make it again, got {again!r}")


def check_running(make: Callable[[int, int], Memory], what: str) -> None:
    """Equal seeds give equal runs; a run can be saved at any step and continued bit for bit.

    `make(capacity, seed)` gives a new memory that uses the policy.
    """
    for seed in range(TRIALS):
        capacity, script = trial(seed)
        memory = make(capacity, seed)
        saved, run = [], []
        with untouched_globals(what):
            for step in script:
                saved.append(memory.state_dict())
                run.append(advance(memory, step))
        again = make(capacity, seed)
        require(
            [advance(again, step) for step in script] == run,
            f"{what} must do the same again from the same seed; trial {seed} did not",
        )
        for start in range(0, len(script), 7):
            resumed = make(capacity, seed + 1)
            resumed.load_state_dict(_through_json(saved[start], what))
            for place in range(start, len(script)):
                require(
                    advance(resumed, script[place]) == run[place],
                    f"{what}, restored from its state at step {start} of trial {seed}, must go on as it did; "
                    f"at step {place} it did not",
                )


def _through_json(state: Any, what: str) -> Any:
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        raise Broken(f"{what}'s state_dict must be plain numbers, strings, lists, dicts and arrays: {error}") from error
