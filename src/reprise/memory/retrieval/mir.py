"""Maximally interfered retrieval: of some uniform candidates, those whose loss would rise most."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Score, Source
from reprise.memory.retrieval.among import sample_among


@register("retrieval", "mir", argument=int)
class MaximallyInterfered(Policy):
    """N uniform candidates are scored by the caller; the n highest return, ties by order of the draw.

    The score is a function of candidate slots; for MIR, the loss after a virtual step on the incoming batch
    minus the loss before. The memory knows nothing of the model.
    """

    scored = True  # so no tape can be planned

    def __init__(self, candidates: int) -> None:
        self.candidates = as_int(candidates, "the N of 'mir:N'", 1)

    @property
    def pool(self) -> int:
        """Its candidates do not depend on any score."""
        return self.candidates

    def start(self, source: Source, index: Index) -> None:
        self.random = source("example choice")

    def draw(self, n: int, index: Index, score: Score | None) -> list[int]:
        return self.draw_among(n, index, score, frozenset())

    def draw_among(self, n: int, index: Index, score: Score | None, barred: Set[int]) -> list[int]:
        if not index.size:
            return []
        if score is None:
            raise ValueError(f"'{self.spec}' chooses by score: call draw(n, score=function of slots)")
        before = self.random.state_dict()
        if barred:
            chosen = sample_among(self.candidates, index, barred, self.random)
        else:
            chosen = self.random.sample(index.size, min(self.candidates, index.size))
        if not chosen:
            return []
        pool = np.array(chosen, np.int64)
        try:
            values = np.asarray(score(pool), np.float64)
            if values.shape != pool.shape or np.isnan(values).any():
                raise ValueError(f"the score must give one number for each of {len(pool)} slots, got {values!r}")
        except BaseException:
            self.random.load_state_dict(before)
            raise
        best = np.argsort(-values, kind="stable")[:n]
        return [int(slot) for slot in pool[best]]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
