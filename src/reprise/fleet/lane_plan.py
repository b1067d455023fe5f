"""A run's plan as a lane plays it: every step a row of images, the incoming batch first, then each replay batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reprise.runs.plan import Ids, Labels, RunPlan, make_plan
from reprise.runs.pools import Pools, plan_pools
from reprise.runs.run import Run
from reprise.runs.settings import StreamSettings
from reprise.tape import Tape


@dataclass(frozen=True, eq=False)
class LanePlan:
    """A plan, and its rows: of one length for all steps, where batches that are not full are padded."""

    plan: RunPlan
    pools: Pools | None  # where the memory asks the network: then replay is chosen on the lane, and its ids stand in
    ids: NDArray[np.int32]  # steps × images; one that is not real repeats the first of its batch
    counts: NDArray[np.int32]  # steps × batches: images that are real
    crops: NDArray[np.int8]  # steps × images × 3

    @property
    def real(self) -> NDArray[np.int32]:
        """Of each step, how many images of each batch are real; then how many candidates, if there are any."""
        return self.counts if self.pools is None else np.column_stack([self.counts, self.pools.counts])

    def tape(self, chosen: NDArray[np.int64] | None) -> Tape:
        """The whole replay sequence; where a lane has chosen, by the positions in the pools that it took."""
        if self.pools is not None:
            assert chosen is not None
            return self.pools.tape(chosen)
        assert self.plan.tape is not None
        return self.plan.tape


def make_lane_plan(run: Run, labels: Labels) -> LanePlan:
    """Plan a run for a lane."""
    plan, stream = make_plan(run, labels), run.stream
    pools, tape = None, plan.tape
    if run.scored:
        began = time.perf_counter()
        pools = plan_pools(run, plan.stream)
        tape = pools.first
        plan = replace(plan, seconds=plan.seconds + time.perf_counter() - began)
    crops, replay_crops = plan.crops, plan.replay_crops
    assert tape is not None
    assert crops is not None
    assert replay_crops is not None
    assert isinstance(stream, StreamSettings)
    size = run.replay_size
    steps, draws = tape.replay.shape[:2]
    batches = [_filled(tape.incoming, stream.batch)]
    batches += [_filled(tape.replay[:, draw], size) for draw in range(draws if size else 0)]
    counts = [np.count_nonzero(tape.incoming >= 0, axis=1)]
    counts += [np.count_nonzero(tape.replay[:, draw] >= 0, axis=1) for draw in range(draws if size else 0)]
    # A batch shorter than its part of the row leaves the rest of it unused.
    arriving = np.zeros((steps, stream.batch, 3), np.int8)
    arriving[:, : crops.shape[1]] = crops
    return LanePlan(
        plan,
        pools,
        np.concatenate(batches, 1).astype(np.int32),
        np.stack(counts, 1).astype(np.int32),
        np.concatenate([arriving, replay_crops.reshape(steps, -1, 3)], 1),
    )


def _filled(rows: Ids, width: int) -> Ids:
    """Rows of this width, each filled up with its first id; a row without any, with id 0."""
    filled = np.zeros((len(rows), width), np.int64)
    filled[:, : rows.shape[1]] = rows
    first = np.maximum(rows[:, :1], 0) if rows.shape[1] else np.zeros((len(rows), 1), np.int64)
    beyond = np.ones(filled.shape, bool)
    beyond[:, : rows.shape[1]] = rows < 0
    return np.where(beyond, first, filled)
