"""Candidates planned ahead, where a retrieval asks the network about examples that do not depend on its answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reprise.runs.run import Run
from reprise.streams import LabelStream, StillStream
from reprise.tape import Tape, run_memory


@dataclass(frozen=True, eq=False)
class Pools:
    """The stored examples that a run's network is asked about, step by step: all that is open is who returns."""

    first: Tape
    """The replay sequence in which the first candidates return at every step, whatever the network says."""
    slots: NDArray[np.int32]
    """T×P: where the candidates of each step lie, −1 as padding."""

    @property
    def ids(self) -> NDArray[np.int32]:
        """T×P: the example ids of the candidates, 0 as padding."""
        return _held(self.first, self.slots)

    @property
    def counts(self) -> NDArray[np.int32]:
        """Candidates of each step."""
        counts: NDArray[np.int32] = np.count_nonzero(self.slots >= 0, axis=1).astype(np.int32)
        return counts

    def tape(self, chosen: NDArray[np.int64]) -> Tape:
        """The replay sequence in which these candidates return: positions in the pools, T×n, highest score first.

        As many count as are drawn; positions beyond them may be anything, or left out.
        """
        drawn = self.first.slots[:, 0] >= 0
        at = np.zeros(drawn.shape, np.int64)
        at[:, : chosen.shape[1]] = chosen
        slots = np.where(drawn, np.take_along_axis(self.slots, np.where(drawn, at, 0), 1), -1)
        replay = np.where(drawn, _held(self.first, slots), -1)
        return replace(self.first, slots=slots.astype(np.int64)[:, None], replay=replay.astype(np.int64)[:, None])


def plan_pools(run: Run, stream: LabelStream | StillStream) -> Pools:
    """The pools of a run over its stream, whose retrieval has a `pool`."""
    memory = run.make_memory()
    pool = min(memory.retrieval.pool, memory.capacity)  # type: ignore[attr-defined]
    asked: list[NDArray[np.int32]] = []

    def score(candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        asked.append(candidates.astype(np.int32))  # of thousands of steps all are kept
        return np.zeros(len(candidates))

    first = run_memory(stream, memory, run.replay_size, score=score)
    drawn = np.flatnonzero((first.slots[:, 0] >= 0).any(1))
    most = max(map(len, asked), default=0)
    if len(drawn) != len(asked) or most > pool:
        raise ValueError(
            f"{memory.retrieval_spec!r} has a pool, so it must ask once a draw, about {pool} at most; "
            f"in {len(drawn)} draws it asked {len(asked)} times, about {most} at most"
        )
    slots = np.full((len(first.slots), pool), -1, np.int32)
    for step, candidates in zip(drawn, asked, strict=True):
        slots[step, : len(candidates)] = candidates
    return Pools(first, slots)


def _held(tape: Tape, slots: NDArray[np.int32]) -> NDArray[np.int32]:
    """The ids of what lies in these slots when a step draws; 0 where there is no slot."""
    holder = np.zeros(tape.capacity, np.int32)
    ids = np.zeros_like(slots)
    for step, (row, arrived, written) in enumerate(zip(slots, tape.incoming, tape.written, strict=True)):
        ids[step] = np.where(row >= 0, holder[row], 0)
        kept = written >= 0
        holder[written[kept]] = arrived[kept]
    return ids
