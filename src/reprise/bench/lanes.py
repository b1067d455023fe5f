"""Captured steps on a GPU: one run, and several at once, driven as the fleet drives them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch

from reprise import nets
from reprise.bench.loops import Size, config
from reprise.bench.profile import by_class, by_name
from reprise.bench.results import Share, Timing
from reprise.train import Images
from reprise.train.pixels import Pixels

if TYPE_CHECKING:
    from reprise.fleet.engine.lane import Lane

# As the fleet has it; it counts only if it is set before the device is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

CHUNK, AHEAD = 16, 2  # steps between two marks, and marks that the device may be behind, as in the fleet
TURN = 4  # steps asked of a lane before the next one's turn


class Lanes:
    """Lanes of one kind; more are made as they are asked for, and those there are stay."""

    def __init__(self, images: Images, size: Size, device: torch.device, precision: str) -> None:
        from reprise.fleet.driver import RUNS_PER_LANE
        from reprise.fleet.engine.flat_state import initial_row
        from reprise.fleet.engine.lane import Lane
        from reprise.fleet.lane_plan import make_lane_plan
        from reprise.runs.plan import Labels

        self.size, self.device = size, device
        self.config = config(size, precision)
        self.pixels = Pixels(images.train, device)
        self.planned = make_lane_plan(self.config, Labels.of(images, self.config))
        self.longest = self.planned.plan.steps
        self.weights = initial_row(nets.build("resnet18", classes=size.classes, width=size.width, seed=0))
        self.kind, self.runs_per_lane = Lane, RUNS_PER_LANE
        self.made: dict[int, list[Lane]] = {}

    def at_once(self, count: int) -> list[Lane]:
        """Lanes for so many runs, as the fleet has them: full ones, and one for the rest."""
        widths = [self.runs_per_lane] * (count // self.runs_per_lane) + [count % self.runs_per_lane]
        lanes = []
        for width, many in ((width, widths.count(width)) for width in dict.fromkeys(widths) if width):
            made = self.made.setdefault(width, [])
            while len(made) < many:
                lane = self.kind(self.config, self.pixels, self.pixels, self.size.classes, self.longest, 1, width)
                for slot in range(width):
                    lane.begin(slot, self.planned, self.weights)
                made.append(lane)
            lanes += made[:many]
        torch.cuda.synchronize(self.device)
        return lanes

    def timing(self, count: int) -> Timing:
        """Rounds of `count` runs at once."""
        lanes = self.at_once(count)
        wall, host = [], []
        for _ in range(self.size.rounds):
            took, used = self._round(lanes, self.size.warm, self.size.steps)
            wall.append(took)
            host.append(used)
        self._check(lanes, self.size.warm + self.size.steps)
        return Timing(self.size.steps * count, wall, host)

    def host_share(self, count: int, steps: int) -> float:
        """Cores that the host keeps busy while so many runs replay so many steps."""
        took, used = self._round(self.at_once(count), 0, min(steps, self.longest))
        return used / took

    def tested(self) -> float:
        """Test images a second, both read-outs of one run counted."""
        (lane,), ids = self.at_once(1), np.arange(len(self.pixels.labels))
        rates = []
        for _ in range(self.size.rounds + 1):
            torch.cuda.synchronize(self.device)
            began = time.perf_counter()
            lane.evaluate(0, 0, ids)
            lane.synchronize()
            rates.append(2 * len(ids) / (time.perf_counter() - began))
        return median(rates[1:])  # the first compiles

    def profile(self, count: int, steps: int = 10) -> tuple[list[Share], list[Share]]:
        """What a run-step takes on a lane of so many runs, or a full one, by class of kernels and by kernel."""
        from torch.profiler import ProfilerActivity, profile

        (lane,) = self.at_once(min(count, self.runs_per_lane))
        steps = min(steps, self.longest - self.size.warm)
        lane.rewind()
        lane.advance(self.size.warm)
        lane.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            lane.advance(steps)
            torch.cuda.synchronize(self.device)
        kernels = by_name(found.key_averages(), steps * lane.width)
        if not kernels:
            raise RuntimeError("the profiler saw no kernel; it may need rights that this process lacks")
        return by_class(kernels), kernels

    def _round(self, lanes: Sequence[Lane], warm: int, steps: int) -> tuple[float, float]:
        for lane in lanes:
            lane.rewind()
        _play(lanes, warm)
        torch.cuda.synchronize(self.device)
        began, used = time.perf_counter(), time.process_time()
        _play(lanes, steps)
        return time.perf_counter() - began, time.process_time() - used

    def _check(self, lanes: Sequence[Lane], steps: int) -> None:
        for lane in lanes:
            if not torch.isfinite(lane.losses[:, :steps]).all():
                raise RuntimeError(f"a loss within the first {steps} steps is not a number: nothing was trained")


def _play(lanes: Sequence[Lane], steps: int) -> None:
    """Ask all lanes for so many steps, in turn, and sleep while the device is busy; ends when it is done."""
    marks: deque[list[Callable[[], bool]]] = deque()
    for done in range(0, steps, TURN):
        turn = min(TURN, steps - done)
        for lane in lanes:
            lane.advance(turn)
        if (done + turn) % CHUNK == 0 or done + turn == steps:
            marks.append([lane.mark() for lane in lanes])
            while len(marks) > AHEAD:
                _sleep_until(marks.popleft())
    for left in marks:
        _sleep_until(left)


def _sleep_until(events: Sequence[Callable[[], bool]]) -> None:
    for passed in events:
        while not passed():
            time.sleep(2e-4)  # to wait in the driver would keep a core busy
