"""Pools planned ahead: whatever the network says, what a live memory draws is a choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.core import registry
from reprise.core.registry import register
from reprise.memory import MaximallyInterfered
from reprise.runs import Run
from reprise.runs.plan import make_stream
from reprise.runs.pools import plan_pools
from reprise.tape import run_memory

LABELS = np.repeat(np.arange(6), (20, 3, 9, 14, 1, 8))


def run_of(**settings: Any) -> Run:
    pytest.importorskip("torch", reason="a run that trains needs torch")
    usual: dict[str, Any] = {"dataset": "some", "learner": "er", "tasks": 3, "batch": 7, "buffer": 12, "replay": 4}
    return Run.of(**{**usual, **settings})


@given(
    pool=st.integers(1, 20),
    replay=st.integers(0, 9),
    buffer=st.integers(1, 15),
    storage=st.sampled_from(["reservoir", "brs", "brs-always", "cbrs", "fifo"]),
    seed=st.integers(0, 2**31),
    levels=st.integers(1, 50),
)
def test_what_a_live_memory_draws_is_a_choice_among_the_pools(
    pool: int, replay: int, buffer: int, storage: str, seed: int, levels: int
) -> None:
    """Of few levels many scores are equal, and then order decides."""
    run = run_of(retrieval=f"mir:{pool}", replay=replay, buffer=buffer, storage=storage, seed=seed)
    stream = make_stream(run, LABELS)
    random, said = np.random.default_rng(seed), []

    def score(slots: np.ndarray) -> np.ndarray:
        said.append(random.integers(0, levels, len(slots)).astype(float))
        return said[-1]

    live = run_memory(stream, run.make_memory(), replay, score=score)
    pools = plan_pools(run, stream)
    width = min(pool, buffer)
    assert pools.slots.shape == pools.ids.shape == (len(stream), width)
    assert np.array_equal(pools.counts, [0 if not replay else min(pool, held) for held in stored(live)])
    chosen, answers = np.full((len(stream), min(replay, width)), 99), iter(said)
    for step in np.flatnonzero(pools.counts):
        scores = np.full(width, -np.inf)
        scores[: pools.counts[step]] = next(answers)
        ranked = np.argsort(-scores, kind="stable")[: chosen.shape[1]]
        chosen[step, : len(ranked)] = ranked
        chosen[step, pools.counts[step] :] = 99  # beyond what is drawn anything may stand
    assert pools.tape(chosen).hash == live.hash


def stored(tape: Any) -> list[int]:
    """How many slots are filled when each step draws."""
    filled: set[int] = set()
    found = []
    for written in tape.written:
        found.append(len(filled))
        filled |= {*written[written >= 0].tolist()}
    return found


class More(MaximallyInterfered):
    """Asks about more than it says."""

    @property
    def pool(self) -> int:
        return self.candidates - 1


def test_a_retrieval_that_asks_about_more_than_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    register("retrieval", "more", argument=int)(More)
    run = run_of(retrieval="more:5")
    promised = "'more:5' has a pool, so it must ask once a draw, about 4 at most"
    words = promised + r"; in (\d+) draws it asked \1 times, about 5"
    with pytest.raises(ValueError, match=words):
        plan_pools(run, make_stream(run, LABELS))
