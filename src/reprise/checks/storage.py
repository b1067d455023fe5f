"""The contract of a storage."""

from __future__ import annotations

from typing import Any

from reprise.checks.changes import check_removing
from reprise.checks.common import TRIALS, advance, check_arguments, check_running, require, trial
from reprise.memory import Memory, Storage, as_storage, is_scored

_ARMS = ("rpr", "iid", "uniform", "fixed", "frozen-iid", "rpr+pass")


def check_storage(policy: str | Storage) -> None:
    """Prove that a storage keeps its contract, or raise `Broken`.

    It is its arguments; equal seeds repeat; it can be saved and restored at any step; a batch gives what its
    examples give one by one; slots fill in order and stay within the capacity; what it returns is what it
    wrote; and it keeps the same examples whatever the retrieval does in between. A storage that goes by a score is
    given one; as it asks before the batch is written, its batches need not give what their examples give. If examples
    can be removed and it can be resized, what is left is stored into as before, and it can be saved and restored then.
    """
    storage = as_storage(policy)
    what = f"storage {storage!r}"
    check_arguments(storage, as_storage)
    check_running(lambda capacity, seed: Memory(capacity, storage, "rpr", seed), what)
    for seed in range(TRIALS):
        _check_slots(storage, what, seed)
        if not is_scored(storage):
            _check_batches(storage, what, seed)
        _check_arms(storage, what, seed)
    check_removing(storage, what)


def _check_slots(storage: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    memory = Memory(capacity, storage, "uniform", seed)
    held: dict[int, int] = {}
    for number, step in enumerate(script):
        where = f"in trial {seed}, step {number}"
        _, slots = advance(memory, step)
        require(len(slots) == len(step.labels), f"{what} must return a slot for each label; {where} it did not")
        for slot, label in zip(slots, step.labels, strict=True):
            require(
                -1 <= slot < capacity, f"{what} must return slots of −1 to {capacity - 1}; {where} it returned {slot}"
            )
            if slot >= 0:
                held[slot] = label
        require(
            memory.labels.tolist() == [held[slot] for slot in sorted(held)] and sorted(held) == list(range(len(held))),
            f"{what} must write exactly the slots it returns, filling them in order; {where} it did not",
        )


def _check_batches(storage: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    whole, single = (Memory(capacity, storage, "uniform", seed) for _ in range(2))
    for number, step in enumerate(script):
        together = whole.store(list(step.labels)).tolist()
        apart = [int(single.store([label])[0]) for label in step.labels]
        require(
            together == apart,
            f"{what} must decide example by example; in trial {seed}, step {number}, the batch {list(step.labels)} "
            f"went to {together}, its examples one by one to {apart}",
        )


def _check_arms(storage: Any, what: str, seed: int) -> None:
    capacity, script = trial(seed)
    arms = [Memory(capacity, storage, retrieval, seed) for retrieval in _ARMS]
    for number, step in enumerate(script):
        slots = [advance(memory, step)[1] for memory in arms]
        for arm, found in zip(_ARMS, slots, strict=True):
            require(
                found == slots[0],
                f"{what} must keep the same examples whatever is retrieved; in trial {seed}, step {number}, it wrote "
                f"{found} under {arm!r} and {slots[0]} under {_ARMS[0]!r}",
            )
