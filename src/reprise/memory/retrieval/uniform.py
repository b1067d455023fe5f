"""Uniform retrieval: any stored examples, whatever their class."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Score, Source
from reprise.memory.retrieval.among import sample_among
from reprise.memory.theory.laws import Floats, uniform_inclusion


@register("retrieval", "uniform")
class Uniform(Policy):
    """n examples without replacement from the whole memory.

    A class comes with the same chance at every step, so that its gap is geometric and has no bound.
    """

    scored = False

    def start(self, source: Source, index: Index) -> None:
        self.random = source("example choice")

    def draw(self, n: int, index: Index, score: Score | None) -> list[int]:
        return self.random.sample(index.size, min(n, index.size))

    def draw_among(self, n: int, index: Index, score: Score | None, barred: Set[int]) -> list[int]:
        return sample_among(n, index, barred, self.random)

    def gap_tail(self, classes: int, per_class: int, slots: int, longest: int) -> Floats:
        seen = uniform_inclusion(classes, per_class, slots)
        return np.asarray((1.0 - seen) ** np.arange(longest))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
