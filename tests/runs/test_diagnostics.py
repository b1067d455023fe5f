"""Diagnostics: episodes counted by hand and by a slow loop written from the definition alone."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reprise
from reprise.audit import measure
from reprise.runs.diagnostics import BINS, bias_displacement, find_episodes
from reprise.tape import Tape


class Batches:
    """A stream of one's own: batches of example ids in order."""

    def __init__(self, labels: list[int], sizes: list[int]) -> None:
        self.labels = np.array(labels, np.int64)
        self.ends = np.cumsum([0, *sizes])

    def __iter__(self):
        return (np.arange(a, b) for a, b in zip(self.ends[:-1], self.ends[1:], strict=True))


def tape_of(replayed: list[list[list[int]]], arriving: list[list[tuple[int, int]]], initial: list[int]) -> Tape:
    """A tape from labels: what each draw of each step replays, and (label, slot) of what arrives; −1 is not kept."""
    labels = list(initial)
    memory = {slot: slot for slot in range(len(initial))}
    steps, draws = len(replayed), max(map(len, replayed))
    width = max(1, *map(len, arriving))
    replay = np.full((steps, draws, 4), -1)
    slots, incoming, written = replay.copy(), np.full((steps, width), -1), np.full((steps, width), -1)
    for step, (drawn, new) in enumerate(zip(replayed, arriving, strict=True)):
        for draw, wanted in enumerate(drawn):
            for place, label in enumerate(wanted):
                slot = next(s for s, example in memory.items() if labels[example] == label)
                replay[step, draw, place], slots[step, draw, place] = memory[slot], slot
        for place, (label, slot) in enumerate(new):
            incoming[step, place], written[step, place] = len(labels), slot
            if slot >= 0:
                memory[slot] = len(labels)
            labels.append(label)
    facts = {"stream": "by-hand", "storage": "fifo", "retrieval": "rpr", "capacity": 9, "replay_size": 4, "seed": 0}
    arrays = {"labels": np.array(labels, np.int64), "boundaries": np.array([steps]), "initial": np.arange(len(initial))}
    return Tape(incoming=incoming, replay=replay, slots=slots, written=written, **arrays, **facts)


def powers(steps: int, classes: int = 1) -> np.ndarray:
    """Biases whose step t takes 2^t away, so that a sum names its steps."""
    return np.repeat(-(2.0 ** np.arange(steps + 1))[:, None], classes, axis=1)


def test_only_updates_strictly_between_the_visits_count() -> None:
    tape = tape_of([[[0]], [[]], [[]], [[0]], [[0]]], [[]] * 5, initial=[0])
    found = find_episodes(tape, powers(5))
    assert (found.first.tolist(), found.second.tolist()) == ([0], [3])  # steps 3 to 4: no update between, not counted
    assert found.displacement.tolist() == [-(2.0 + 4.0)]
    assert (found.gaps.tolist(), found.absent.tolist()) == ([3], [2])
    result = bias_displacement(tape, powers(5))
    assert result.episodes == (1, 0, 0, 0, 0)
    assert result.mean == (-6.0, None, None, None, None)
    assert result.negative == (1.0, None, None, None, None)


def test_an_incoming_appearance_leaves_out_its_update_and_no_more() -> None:
    arriving = [[], [], [(0, -1)], [(1, -1)], []]
    tape = tape_of([[[0]], [[]], [[]], [[]], [[0]]], arriving, initial=[0])
    found = find_episodes(tape, powers(5, 2))
    assert found.displacement.tolist() == [-(2.0 + 8.0)]
    assert (found.gaps.tolist(), found.absent.tolist()) == ([4], [2])


def test_an_episode_without_a_jointly_absent_update_is_not_counted() -> None:
    tape = tape_of([[[0]], [[]], [[]], [[0]]], [[], [(0, -1)], [(0, -1)], []], initial=[0])
    assert len(find_episodes(tape, powers(4)).classes) == 0
    assert bias_displacement(tape, powers(4)).episodes == (0, 0, 0, 0, 0)


def test_an_eviction_discards_the_open_episode() -> None:
    # Class 0 is overwritten by class 1 at step 1, and comes back at step 3, each seen at the next draw.
    arriving = [[], [(1, 0)], [], [(0, 0)], [], [], []]
    tape = tape_of([[[0]], [[]], [[1]], [[]], [[0]], [[]], [[0]]], arriving, initial=[0])
    found = find_episodes(tape, powers(7, 2))
    assert (found.first.tolist(), found.second.tolist()) == ([4], [6])
    assert found.displacement.tolist() == [-(2.0**5)]
    # A class that leaves and returns between two draws never left.
    arriving = [[], [(1, 0), (0, 0)], [], []]
    tape = tape_of([[[0]], [[]], [[]], [[0]]], arriving, initial=[0])
    assert find_episodes(tape, powers(4, 2)).displacement.tolist() == [-4.0]


def test_a_visit_in_either_draw_of_a_step_closes() -> None:
    replayed = [[[0], [1]], [[1], []], [[1], [0]], [[], []], [[0, 1], [0]]]
    found = find_episodes(tape_of(replayed, [[]] * 5, initial=[0, 1]), powers(5, 2))
    assert found.classes.tolist() == [0, 0, 1]
    assert found.displacement.tolist() == [-2.0, -8.0, -8.0]


def test_bins() -> None:
    gaps = [2, 4, 5, 8, 9, 16, 17, 32, 33, 60]
    visits = {0, *np.cumsum(gaps).tolist()}
    steps = sum(gaps) + 1
    tape = tape_of([[[0]] if t in visits else [[]] for t in range(steps)], [[]] * steps, initial=[0])
    ramp = np.arange(steps + 1.0)[:, None]
    assert bias_displacement(tape, -ramp).mean == (-2.0, -5.5, -11.5, -23.5, -45.5)
    rising = bias_displacement(tape, ramp)
    assert (rising.episodes, rising.negative) == ((2,) * 5, (0.0,) * 5)
    assert bias_displacement(tape, 0 * ramp).negative == (0.0,) * 5  # standing still is not below zero
    kinked = ramp.copy()
    kinked[3:] -= 10  # a fall at step 2, a visit: it belongs to no episode
    kinked[4:] -= 10  # and one at step 3, within the second episode
    assert bias_displacement(tape, kinked).negative == (0.5, 0.0, 0.0, 0.0, 0.0)


def test_plain_values() -> None:
    tape = tape_of([[[0]], [[]], [[0]]], [[]] * 3, initial=[0])
    found = bias_displacement(tape, powers(3)).to_dict()
    assert tuple(found) == BINS == ("1-4", "5-8", "9-16", "17-32", "33+")
    assert found["1-4"] == {"episodes": 1, "mean": -2.0, "negative": 1.0}
    assert found["33+"] == {"episodes": 0, "mean": None, "negative": None}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def literal(tape: Tape, biases: np.ndarray) -> list[tuple[int, int, int, float]]:
    """Class, both visits and displacement of every episode, step by step with dictionaries."""
    label = tape.labels.tolist()
    memory = dict(enumerate(tape.initial.tolist()))
    opened: dict[int, int] = {}
    sums: dict[int, list[float]] = {}
    episodes = []
    for step in range(len(tape)):
        resident = {label[example] for example in memory.values()}
        for gone in set(opened) - resident:
            del opened[gone], sums[gone]
        replayed = {label[example] for example in tape.replay[step].ravel().tolist() if example >= 0}
        incoming = {label[example] for example in tape.incoming[step].tolist() if example >= 0}
        for c in replayed:
            if c in opened and sums[c]:
                episodes.append((c, opened[c], step, math.fsum(sums[c])))
            opened[c], sums[c] = step, []
        for c in set(opened) - replayed - incoming:
            sums[c].append(float(biases[step + 1, c]) - float(biases[step, c]))
        for example, slot in zip(tape.incoming[step].tolist(), tape.written[step].tolist(), strict=True):
            if slot >= 0:
                memory[slot] = example
    return sorted(episodes)


def agree(tape: Tape, biases: np.ndarray) -> int:
    expected = literal(tape, biases)
    found = find_episodes(tape, biases)
    where = list(zip(found.classes.tolist(), found.first.tolist(), found.second.tolist(), strict=True))
    assert where == [episode[:3] for episode in expected]
    np.testing.assert_allclose(found.displacement, [episode[3] for episode in expected], rtol=0, atol=1e-12)
    binned = bias_displacement(tape, biases)
    for number, (least, most) in enumerate([(1, 4), (5, 8), (9, 16), (17, 32), (33, len(tape))]):
        inside = [moved for _, first, second, moved in expected if least <= second - first <= most]
        assert binned.episodes[number] == len(inside)
        if inside:
            assert binned.mean[number] == pytest.approx(sum(inside) / len(inside), abs=1e-12)
            assert binned.negative[number] == sum(moved < 0 for moved in inside) / len(inside)
        else:
            assert binned.mean[number] is binned.negative[number] is None
    return len(expected)


@settings(max_examples=max(400, settings().max_examples))
@given(
    st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=40),
    st.integers(1, 6),
    st.sampled_from(["reservoir", "fifo", "brs", "brs-always", "cbrs"]),
    st.sampled_from(["uniform", "iid", "fixed", "rpr"]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 99),
)
def test_any_tape(batches, capacity, storage, retrieval, replay, draws, seed) -> None:
    stream = Batches([label for batch in batches for label in batch], [len(batch) for batch in batches])
    memory = reprise.Memory(capacity, storage=storage, retrieval=retrieval, draws=draws, seed=seed)
    tape = reprise.plan(stream, memory, replay=replay)
    agree(tape, np.random.default_rng(seed).normal(size=(len(tape) + 1, 7)))


@pytest.mark.parametrize(("storage", "draws"), [("fifo", 1), ("reservoir", 2)])
def test_a_long_life(storage: str, draws: int) -> None:
    rng = np.random.default_rng(5)
    # Waves of classes, so that they leave the memory and come back.
    labels = [int(step // 20 * 3 + rng.integers(8)) % 24 for step in range(600)]
    memory = reprise.Memory(24, storage=storage, retrieval="iid", draws=draws, seed=1)
    tape = reprise.plan(Batches(labels, [2] * 300), memory, replay=1)
    biases = rng.normal(size=(301, 24)).cumsum(axis=0).astype(np.float32)
    assert agree(tape, biases) > 50
    audit = measure(tape)
    assert audit.deactivations > 5  # the comparison means little unless classes left
    assert audit.wall_max > audit.max
    assert sum(n > 0 for n in bias_displacement(tape, biases).episodes) >= 4


def test_what_does_not_fit_is_refused() -> None:
    tape = tape_of([[[0]], [[]], [[0]]], [[(2, -1)], [], []], initial=[0, 1])
    with pytest.raises(ValueError, match=r"3 steps and one after each, 4 in all.*got shape \(3, 3\)"):
        bias_displacement(tape, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="got 2 and class 2 on the tape"):
        bias_displacement(tape, np.zeros((4, 2)))
    with pytest.raises(ValueError, match="got 1 and class 1 on the tape"):
        bias_displacement(tape_of([[[0]], [[]], [[0]]], [[]] * 3, initial=[0, 1]), np.zeros((4, 1)))
    broken = np.zeros((4, 3))
    broken[2, 1] = np.nan
    with pytest.raises(ValueError, match="finite, row 2 is not"):
        bias_displacement(tape, broken)
    with pytest.raises(TypeError, match="got int64"):
        bias_displacement(tape, np.zeros((4, 3), np.int64))
    with pytest.raises(TypeError, match="needs a Tape, got list"):
        bias_displacement([], broken)
