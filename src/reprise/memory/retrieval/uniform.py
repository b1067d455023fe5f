"""Uniform retrieval: any stored examples, whatever their class."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Score, Source


@register("retrieval", "uniform")
class Uniform(Policy):
    """n examples without replacement from the whole memory."""

    scored = False

    def start(self, source: Source, index: Index) -> None:
        self.random = source("example choice")

    def draw(self, n: int, index: Index, score: Score | None) -> list[int]:
        return self.random.sample(index.size, min(n, index.size))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
