"""Any life of a memory, as Hypothesis tells it: stores, draws that leave classes out, removals, other capacities."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from reprise.recorded import RecordedMemory

LABELS = (0, 1, 2, 3, 7, 10**6)
Event = tuple[str, Any]

_label = st.sampled_from(LABELS)
_labels = st.lists(_label, max_size=6)
_some = st.lists(st.integers(0, 40), min_size=1, max_size=4)
_exclude = st.fixed_dictionaries({}, optional={"exclude": _labels, "only": _labels})
EVENTS = st.one_of(
    st.tuples(st.just("draw"), _exclude),
    st.tuples(st.just("draw"), _exclude),
    st.tuples(st.just("store"), _labels),
    st.tuples(st.just("remove"), _some),
    st.tuples(st.just("remove labels"), _labels),
    st.tuples(st.just("resize"), st.integers(1, 14)),
    st.tuples(st.just("clear"), st.none()),
)
ASSIGNED = st.tuples(
    st.just("assign"), st.lists(st.tuples(st.integers(0, 40), st.sampled_from((-1, *LABELS))), max_size=6)
)


def live(memory: RecordedMemory, n: int, events: list[Event]) -> list[Any]:
    """Let all that happen; return what the memory answered."""
    answers: list[Any] = []
    for kind, what in events:
        if kind == "draw":
            for channel in range(memory.draws):  # `exclude` is for the first alone, `only` for both
                told = what if channel == 0 or "only" in what else {}
                answers.append(memory.draw(n, channel=channel, **told).slots.tolist())
        elif kind == "store" and memory.storage_spec != "external":
            answers.append(memory.store(what).tolist())
        elif kind == "assign":
            memory.assign([slot % memory.capacity for slot, _ in what], [label for _, label in what])
        elif kind == "remove":
            filled = np.flatnonzero(memory.labels >= 0).tolist()
            slots = [filled[place % len(filled)] for place in what] if filled else []
            answers.append(repr(memory.remove(slots=slots)))
        elif kind == "remove labels":
            answers.append(repr(memory.remove(labels=what)))
        elif kind == "resize":
            answers.append(repr(memory.resize(what)))
        elif kind == "clear":
            memory.clear()
        check_index(memory)
    return answers


def check_index(memory: RecordedMemory) -> None:
    """Filled slots are 0 … size−1, and every one is in the row of its class and in no other."""
    index = memory._index
    held = index.labels[: index.size].tolist()
    assert min(held, default=0) >= 0
    assert set(index.labels[index.size :].tolist()) <= {-1}
    assert set(index.stamps[index.size :].tolist()) <= {-1}
    assert len(set(index.stamps[: index.size].tolist())) == index.size <= index.capacity == memory.capacity
    rows = {label: index.slots(label) for label in index.residents}
    assert sorted(slot for row in rows.values() for slot in row) == list(range(index.size))
    assert all(held[slot] == label for label, row in rows.items() for slot in row)
    assert all(index.count(label) == len(row) == held.count(label) for label, row in rows.items())
    levels = getattr(memory._store, "levels", None)
    if levels is not None:
        assert {label: levels.count(label) for label in rows} == {label: len(row) for label, row in rows.items()}
        assert levels.top == max(map(len, rows.values()), default=0)
