"""What a policy must keep when classes are left out of a draw and when examples are removed, if it can do so at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reprise.checks.common import TRIALS, Broken, require, rows_for, score_for, trial
from reprise.core.rng import Random
from reprise.memory import Memory


def check_leaving_out(make: Callable[[int, int], Memory], what: str) -> None:
    """No class that is left out returns, something does while another is stored, and a saved run goes on as it did.

    `make(capacity, seed)` gives a new memory that uses the retrieval. One without `draw_among` is let off.
    """
    if not callable(getattr(make(1, 0).retrieval, "draw_among", None)):
        return
    for seed in range(TRIALS // 2):
        capacity, script = trial(seed)
        chance = Random(seed, "checks leaving out")
        memory, saved = make(capacity, seed), make(capacity, seed + 1)
        for number, step in enumerate(script):
            where = f"in trial {seed}, step {number}"
            barred = [label for label in memory.classes.tolist() if chance.below(3) == 0]
            held = memory.labels
            if number % 7 == 6:
                saved.load_state_dict(memory.state_dict())
            slots = _drawn(memory, step.n, barred, what)
            limit = min(step.n, int((~np.isin(held, barred)).sum()))
            require(
                number % 7 != 6 or _drawn(saved, step.n, barred, what) == slots,
                f"{what}, restored from its state, must leave classes out as it did; {where} it did not",
            )
            require(
                len(set(slots)) == len(slots) <= limit and all(0 <= slot < len(held) for slot in slots),
                f"{what} must draw at most {limit} different filled slots; {where} it drew {slots}",
            )
            returned = sorted({int(held[slot]) for slot in slots} & set(barred))
            require(not returned, f"{what} must leave out {barred}; {where} it drew {returned}")
            require(
                bool(slots) or not limit,
                f"{what} must draw something while anything may return; {where} it drew nothing",
            )
            memory.store(list(step.labels))


def _drawn(memory: Memory, n: int, barred: list[int], what: str) -> list[int]:
    try:
        slots: list[int] = memory.draw(n, exclude=barred, score=score_for(memory)).slots.tolist()
        return slots
    except Exception as error:
        raise Broken(f"{what} failed where it left out {barred}: {type(error).__name__}: {error}") from error


def check_removing(storage: Any, what: str) -> None:
    """What is left is what the moves say, it is stored into as before, and a saved run goes on as it did.

    A storage without `forget` is let off, and one without `resized` is not resized.
    """
    if not callable(getattr(storage, "forget", None)):
        return
    for seed in range(TRIALS):
        capacity, script = trial(seed)
        chance = Random(seed, "checks removing")
        memory, saved = (Memory(capacity, storage, "rpr+pass", seed + more) for more in (0, 1))
        examples: list[int] = []  # by slot
        came = 0
        for number, step in enumerate(script):
            where = f"in trial {seed}, step {number}"
            removed = [slot for slot in range(len(memory)) if chance.below(6) == 0]
            size = 1 + chance.below(2 * capacity) if number % 5 == 4 and hasattr(storage, "resized") else 0
            again = number % 7 == 6
            if again:
                saved.load_state_dict(memory.state_dict())
            answers = [
                _change(one, removed, size, step.labels, what) for one in ([memory, saved] if again else [memory])
            ]
            require(
                not again or (repr(answers[0]) == repr(answers[1]) and memory.state_dict() == saved.state_dict()),
                f"{what}, restored from its state, must go on as it did when examples are removed; {where} it did not",
            )
            *moves, slots = answers[0]
            for move in moves:
                for source, target in zip(move.source.tolist(), move.target.tolist(), strict=True):
                    examples[target] = examples[source]
                del examples[len(examples) - len(move) :]
            for slot in slots.tolist():
                if slot >= 0:
                    examples[slot : slot + 1] = [came]
                came += 1
            require(
                len(set(examples)) == len(examples) == len(memory) <= memory.capacity,
                f"{what} must write to filled slots and to the next empty one; {where} it wrote to {slots.tolist()}",
            )
            memory.draw(2)


def _change(memory: Memory, removed: list[int], capacity: int, labels: tuple[int, ...], what: str) -> list[Any]:
    try:
        moves: list[Any] = [memory.remove(slots=removed)]
        if capacity:
            moves.append(memory.resize(capacity))
        return [*moves, memory.store(list(labels), score=rows_for(memory, labels))]
    except Exception as error:
        raise Broken(f"{what} failed where examples were removed: {type(error).__name__}: {error}") from error
