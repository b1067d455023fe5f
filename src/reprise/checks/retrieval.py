"""The contract of a retrieval."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprise.checks.changes import check_leaving_out
from reprise.checks.common import TRIALS, advance, check_arguments, check_running, require, score, score_for, trial
from reprise.memory import Memory, Retrieval, Schedule, as_retrieval, is_scored


def check_retrieval(policy: str | Retrieval | Schedule) -> None:
    """Prove that a retrieval keeps its contract, or raise `Broken`.

    It is its arguments; equal seeds repeat; it can be saved and restored at any step; a batch is of filled
    slots, none twice, at most n and never empty while anything is stored; it leaves the memory as it was; and
    a second channel does not disturb the first. A retrieval that needs a score is given one; one that has a `pool`
    asks once a draw, about at most so many, the same whatever the scores, and draws those of the highest. If it can
    leave classes out of a draw, these do not return, something else does, and it can be saved and restored then.
    """
    retrieval = as_retrieval(policy)
    what = f"retrieval {retrieval!r}"
    check_arguments(retrieval, as_retrieval)
    check_running(lambda capacity, seed: Memory(capacity, "reservoir", retrieval, seed, draws=2), what)
    for seed in range(TRIALS):
        _check_batches(retrieval, what, seed)
        _check_channels(retrieval, what, seed)
        if is_scored(retrieval) and getattr(retrieval, "pool", None) is not None:
            _check_pool(retrieval, what, seed)
    check_leaving_out(lambda capacity, seed: Memory(capacity, "reservoir", retrieval, seed), what)


def _check_batches(retrieval: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    memory = Memory(capacity, "reservoir", retrieval, seed)
    for number, step in enumerate(script):
        where = f"in trial {seed}, step {number}"
        before = memory.labels.tolist()
        slots = memory.draw(step.n, score=score_for(memory)).slots.tolist()
        limit = min(step.n, len(before))
        require(len(set(slots)) == len(slots), f"{what} must not repeat an example in a batch; {where} it drew {slots}")
        require(
            all(0 <= slot < len(before) for slot in slots),
            f"{what} must draw filled slots, 0 to {len(before) - 1}; {where} it drew {slots}",
        )
        require(len(slots) <= limit, f"{what} must draw at most {limit} examples; {where} it drew {len(slots)}")
        require(
            bool(slots) or limit == 0, f"{what} must draw something while anything is stored; {where} it drew nothing"
        )
        require(memory.labels.tolist() == before, f"{what} must leave the memory as it was; {where} it did not")
        memory.store(list(step.labels))


def _check_channels(retrieval: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    one = Memory(capacity, "reservoir", retrieval, seed)
    two = Memory(capacity, "reservoir", retrieval, seed, draws=2)
    for number, step in enumerate(script):
        (alone,), _ = advance(one, step)
        (first, _), _ = advance(two, step)
        require(
            alone == first,
            f"{what} must draw the same on its first channel with or without a second; trial {seed}, step {number}",
        )


def _check_pool(retrieval: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    liked, disliked = (Memory(capacity, "reservoir", retrieval, seed) for _ in range(2))
    for number, step in enumerate(script):
        where = f"in trial {seed}, step {number}"
        pools = []
        for memory, sign in ((liked, 1.0), (disliked, -1.0)):
            asked: list[list[int]] = []

            def rounded(slots: Any, sign: float = sign, asked: list[list[int]] = asked) -> Any:
                asked.append(slots.tolist())
                return np.rint(sign * 3 * score(slots))  # so that some are equal

            drawn = memory.draw(step.n, score=rounded).slots.tolist()
            memory.store(list(step.labels))
            once = len(asked) == bool(drawn) and all(len(pool) <= retrieval.pool for pool in asked)
            require(
                once,
                f"{what} has a pool, so it must ask once a draw, about {retrieval.pool} at most; "
                f"{where} it asked about {' and '.join(str(len(pool)) for pool in asked) or 'none'}",
            )
            pools.append(asked)
            if asked:
                (pool,) = asked
                best = np.argsort(-np.rint(sign * 3 * score(pool)), kind="stable")[: step.n]
                require(
                    drawn == [pool[place] for place in best],
                    f"{what} has a pool, so it must draw those of the highest score, ties in order; {where} it did not",
                )
        require(
            pools[0] == pools[1],
            f"{what} has a pool, so it must ask about the same examples whatever their scores; {where} it did not",
        )
