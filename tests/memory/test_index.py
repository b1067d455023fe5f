"""The index agrees with the plainest one there is: a list of slots for every class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.core.rng import Random
from reprise.memory import Index


class Plain:
    """Slots by class in lists; a slot that leaves is replaced by the last of its list."""

    def __init__(self):
        self.labels, self.stamps, self.rows, self.writes = [], [], {}, 0

    def put(self, slot, label):
        if slot == len(self.labels):
            self.labels.append(-1)
            self.stamps.append(-1)
        old = self.labels[slot]
        if old != label:
            if old >= 0:
                row = self.rows[old]
                last = row.pop()
                if last != slot:
                    row[row.index(slot)] = last
                if not row:
                    del self.rows[old]
            self.rows.setdefault(label, []).append(slot)
            self.labels[slot] = label
        self.stamps[slot] = self.writes
        self.writes += 1


def agree(index, plain):
    assert index.size == len(plain.labels)
    assert index.labels[: index.size].tolist() == plain.labels
    assert list(index.stamps)[: index.size] == plain.stamps
    assert index.writes == plain.writes
    assert index.residents == set(plain.rows)
    for label, row in plain.rows.items():
        assert index.slots(label) == row
        assert index.count(label) == len(row)
        assert [index.slot(label, turn) for turn in range(len(row))] == row
    for label in (0, 5, 1_050, 10**6, 2**63 - 1):
        assert index.count(label) == len(plain.rows.get(label, ()))


# Small labels, labels about as large as twice the memory and a thousand, and the largest there are.
LABELS = st.one_of(st.integers(0, 5), st.integers(1_020, 1_060), st.integers(2**63 - 4, 2**63 - 1))


@given(
    capacity=st.integers(1, 12),
    batches=st.lists(st.lists(st.tuples(st.integers(-1, 11), LABELS), max_size=8), max_size=12),
    together=st.booleans(),
)
def test_any_writes(capacity, batches, together):
    index, plain = Index(capacity), Plain()
    changed, seen = index.watch(), set()
    for batch in batches:
        size, writes = index.size, []
        for slot, label in batch:
            place = min(slot, size, capacity - 1)
            size += place == size
            writes.append((place, label))
        if together:
            index.put_all([slot for slot, _ in writes], [label for _, label in writes])
        for slot, label in writes:
            if slot >= 0:
                plain.put(slot, label)
                if not together:
                    index.put(slot, label)
        agree(index, plain)
        assert changed == seen ^ set(plain.rows), "what has come or gone since the last look"
        if len(batch) % 2:
            changed.clear()
            seen = set(plain.rows)


@pytest.mark.parametrize("spread", [3, 40, 3_000, 10**15])
def test_long_runs(spread):
    # Rows grow, move, empty and are laid out afresh many times over.
    rng = np.random.default_rng(spread % 97)
    index, plain = Index(300), Plain()
    for turn in range(60):
        low = int(rng.integers(0, spread))
        labels = rng.integers(low, low + 1 + int(rng.integers(1, spread)), 90).tolist()
        filling = max(0, min(300 - index.size, 90))
        slots = [*range(index.size, index.size + filling), *rng.integers(0, 300, 90 - filling).tolist()]
        index.put_all(slots, labels)
        for slot, label in zip(slots, labels, strict=True):
            plain.put(slot, label)
        if turn % 10 == 9:
            agree(index, plain)
            other = Index(300)
            other.put_all([0, 1], [7, 8])
            other.load_state_dict(index.state_dict())
            agree(other, plain)
            index = other


def test_slots_fill_in_order():
    index = Index(4)
    index.put(0, 3)
    for write in (lambda: index.put(2, 3), lambda: index.put_all([2], [3])):
        with pytest.raises(ValueError, match="slot 2 cannot be written before slot 1"):
            write()
    assert index.size == 1
    assert index.slots(3) == [0]


def test_choice_among_a_class_is_as_its_list():
    index = Index(30)
    index.put_all(range(30), [label % 7 * 10**12 for label in range(30)])
    labels = [0, 3 * 10**12, 6 * 10**12]
    one, other = Random(0, "x"), Random(0, "x")
    for _ in range(50):
        expected = [index.slots(label)[other.below(index.count(label))] for label in labels]
        assert index.choose(labels, one) == expected
    for missing in (5, 7 * 10**12):
        with pytest.raises(KeyError, match=str(missing)):
            index.choose([0, missing], one)


@pytest.mark.parametrize("apart", [0, 10**12])
def test_a_word_that_must_be_refused_is_refused_in_a_choice_too(apart):
    index = Index(30)
    index.put_all(range(30), [apart + label % 3 for label in range(30)])
    labels = [apart, apart + 1, apart + 2]
    for refused in range(3):
        one, other = Random(0, "x"), Random(0, "x")
        for random in (one, other):
            words = random.take(100)
            random.give_back(100)
            random._words[refused] = 0  # refused with ten to choose from, as 2⁶⁴ mod 10 is not 0
        expected = [index.slots(label)[other.below(index.count(label))] for label in labels]
        assert index.choose(labels, one) == expected
        assert one.position == other.position == 4
        assert words[refused] not in one._words


@pytest.mark.parametrize("spread", [7_000, 3])
def test_many_classes_and_few_are_kept_alike(spread):
    # Up to 4,096 classes, rows are known by lists; then by arrays.
    index, plain = Index(9_000), Plain()
    labels = [place * 5 % spread for place in range(9_000)] + [place % 7 for place in range(8_000)]
    slots = [*range(9_000), *range(8_000)]
    index.put_all(slots, labels)
    for slot, label in zip(slots, labels, strict=True):
        plain.put(slot, label)
    agree(index, plain)


def test_classes_that_have_gone_take_no_room():
    index = Index(4)
    for label in range(5_000):
        index.put_all([label % 4], [10**12 + label])
    rows = index._rows
    assert len(rows.end) < 2_500
    assert len(rows.pool) < 200
