"""Many runs at once on one GPU: lanes are kept busy until every run of a group has its record."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reprise.fleet.grouping import stacks
from reprise.fleet.lane_plan import LanePlan
from reprise.fleet.plans import Plans
from reprise.nets import Network
from reprise.runs.errors import check_losses, diverged, weights_diverged
from reprise.runs.images import Fingerprints, Images
from reprise.runs.plan import READOUTS, Labels, Tests
from reprise.runs.result import RunResult, Trained
from reprise.runs.run import Run
from reprise.runs.settings import StreamSettings
from reprise.train.machine import made_by
from reprise.train.pixels import Pixels
from reprise.train.state import check_plan, make_network

if TYPE_CHECKING:
    from reprise.fleet.engine.lane import Lane

# Streams share hardware queues, eight of them unless told so before the device is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

RUNS_PER_LANE = 8  # where more are to be had: enough for every kernel to fill a large GPU
_CHUNK = 16  # steps asked for at once
_AHEAD = 2  # chunks that a lane may be behind the host
_MOST_LANES = 3
Ended = tuple[Run, "RunResult | Exception"]
Begin = Callable[[Run], bool]
_PLANNERS = 2  # a plan takes a fraction of what its run takes; more processes would only be in the way at the start


@dataclass
class ActiveRun:
    """A run in a slot of a lane: how far it is, and the mark behind which it has ended."""

    slot: int
    planned: LanePlan
    began: float
    done: int = 0
    tested: int = 0
    end: Callable[[], bool] | None = None
    error: Exception | None = None

    @property
    def tests(self) -> Tests:
        assert self.planned.plan.tests is not None
        return self.planned.plan.tests

    @property
    def running(self) -> bool:
        """Whether it has steps left to be asked for."""
        return self.error is None and self.done < self.planned.plan.steps

    @property
    def ended(self) -> bool:
        """Whether the device has done all that was asked for."""
        return self.end is not None and self.end()

    def timings(self) -> dict[str, float]:
        """Seconds to plan the run, and from its first step until now; its steps. The names are the plain loop's."""
        prepare, train = self.planned.plan.seconds, time.perf_counter() - self.began
        return {"prepare": round(prepare, 3), "train": round(train, 3), "steps": self.done}


class LaneQueue:
    """A lane and the runs on it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.free = list(range(lane.width))
        self.active: list[ActiveRun] = []
        self.marks: deque[Callable[[], bool]] = deque()
        for slot in self.free:
            lane.rest(slot)

    def take(self, planned: LanePlan, weights: Tensor) -> None:
        """Let a run begin in a free slot."""
        self.lane.begin(self.free[-1], planned, weights)
        slot = self.free.pop()
        self.active.append(ActiveRun(slot, planned, time.perf_counter()))

    @property
    def ready(self) -> bool:
        """Whether there is something to ask for, and the device has little left to do."""
        while self.marks and self.marks[0]():
            self.marks.popleft()
        return len(self.marks) < _AHEAD and any(run.running for run in self.active)

    def advance(self) -> int:
        """Ask for the next few steps, and for tests where they are due; gives how many run-steps."""
        lane, running = self.lane, [run for run in self.active if run.running]
        steps = min(_CHUNK, *(run.tests.due[run.tested] - run.done for run in running))
        try:
            lane.advance(steps)
        except Exception as error:
            if lane.padded:
                raise
            self._give_up(running[0], error)  # of a step outside the graph, such as too little memory
            return 0
        for run in running:
            run.done += steps
            if run.done == run.tests.due[run.tested]:
                try:
                    lane.evaluate(run.slot, run.tested, run.tests.chosen(run.tested))
                except Exception as error:  # such as too little memory; one of the device itself will come again
                    run.error = without_tensors(error)
                run.tested += 1
            if not run.running:
                lane.rest(run.slot)
                run.end = lane.mark()
        self.marks.append(lane.mark())
        return steps * len(running)

    def _give_up(self, run: ActiveRun, error: Exception) -> None:
        """Let a run end with an error. One of the device itself comes again here, and is the lane's."""
        self.lane.rest(run.slot)
        run.error, run.end = without_tensors(error), self.lane.mark()

    def finished(self) -> Iterator[ActiveRun]:
        """Runs that have ended; the slot of each is free when the next one is asked for."""
        for run in [run for run in self.active if run.ended]:
            yield run
            self.active.remove(run)
            self.free.append(run.slot)


class Uncaptured(Exception):
    """A step could not be captured, for a reason that was not seen beforehand."""


class Group:
    """Runs that differ in stream, tape and seed alone, on a number of lanes."""

    def __init__(self, images: Images, device: torch.device) -> None:
        self.images = images
        self.data: Fingerprints = {}
        self.device = device
        self.pixels = Pixels(images.train, device)
        self.test = self.pixels if images.test is images.train else Pixels(images.test, device)
        self.classes = len(images.train.classes)

    def takes(self, run: Run) -> bool:
        """Whether lanes can play such runs: images lie on the device, and kernels can count those of a step."""
        if self.pixels.mapped is not None or self.test.mapped is not None:
            return False
        try:
            net = make_network(run, self.classes)
        except Exception:
            return False  # the plain loop will say of every run what is wrong
        if stacks(run, net):
            height, width = self.images.train.images.shape[1:3]
            assert isinstance(run.stream, StreamSettings)
            images, channels = run.stream.batch + run.memory.replay * run.draws, len(net.get_parameter("conv1.weight"))
            return bool(images * height * width * channels < 2**31)  # beyond it, kernels would count wrong
        return True

    def train(
        self,
        runs: Sequence[Run],
        lanes: int | None,
        planners: int | None,
        begin: Begin,
        tick: Callable[[int], None],
    ) -> Iterator[Ended]:
        """Train every run, `lanes` at once, and give what each leaves as it ends; `tick` is told of steps asked for.

        `begin` is asked just before a run is planned, and may say no.
        """
        planners = min(planners or _PLANNERS, len(runs))
        slots = min(lanes or len(runs), _MOST_LANES * RUNS_PER_LANE)
        ahead = min(2 * planners, slots) if runs[0].scored else 2 * planners + slots  # plans with pools are large
        with Plans(runs, Labels.of(self.images, runs[0]), planners, ahead, begin) as plans:
            self.data = self.data or self.images.fingerprints(runs[0])  # that of all: they use the same splits
            try:
                net = make_network(runs[0], self.classes)
                made = self._lanes(runs, lanes, stacks(runs[0], net))
            except Exception as error:
                if out_of_memory(error):
                    raise
                raise Uncaptured(f"{type(error).__name__}: {error}") from error
            yield from self._keep_busy(plans, net, [LaneQueue(lane) for lane in made], tick)

    def _keep_busy(
        self, plans: Plans, net: Network, queues: list[LaneQueue], tick: Callable[[int], None]
    ) -> Iterator[Ended]:
        while plans or any(queue.active for queue in queues):
            while plans.ready and any(queue.free for queue in queues):
                run, prepared = plans.take()
                try:
                    if isinstance(prepared, Exception):
                        raise prepared
                    # Where most slots are free: so that lanes are equally full when few runs are left.
                    emptiest = max(queues, key=lambda queue: len(queue.free))
                    check_plan(prepared[0].plan, self.images, net)
                    emptiest.take(*prepared)
                except Exception as error:
                    yield run, without_tensors(error)
            asked = 0
            for queue in queues:
                if queue.ready:
                    asked += queue.advance()
                for one in queue.finished():
                    try:
                        found = one.error or self.collect(queue.lane, one)
                    except Exception as error:
                        found = without_tensors(error)
                    yield one.planned.plan.run, found
            if asked:
                tick(asked)
            else:
                time.sleep(2e-4)  # the device is busy, and needs nothing from here

    def _lanes(self, runs: Sequence[Run], wanted: int | None, stacked: bool) -> list[Lane]:
        """Lanes for as many runs as were asked for; or as many as pay, more of them making all faster.

        Of lanes with several runs one is tried after the other; of those with one run, as many again.
        """
        first, most = runs[0], min(wanted or len(runs), len(runs))
        assert isinstance(first.stream, StreamSettings)
        longest = len(self.images.train) // first.stream.batch + first.stream.tasks + 1
        runs_per_lane = RUNS_PER_LANE if stacked else 1
        made: list[Lane] = []
        best, paid = 0.0, 0
        while most > 0:
            width = min(runs_per_lane, most)
            full = False
            try:
                made.append(self._lane(first, longest, width))
            except Exception as error:
                if not out_of_memory(error) or (not made and runs_per_lane == 1):
                    raise
                full = True
            if full:  # only here is nothing left that holds what the lane had got
                torch.cuda.empty_cache()
                if made:
                    return made[: max(len(made) - 1, 1)]  # leaves room for evaluation
                runs_per_lane //= 2
                continue
            most -= width
            if wanted is None and most and (runs_per_lane > 1 or len(made) >= 2 * paid):
                rate = measured_rate(made)
                if rate < best * 1.03:
                    return made[:paid]
                best, paid = rate, len(made)
            if wanted is None and len(made) == (_MOST_LANES if runs_per_lane > 1 else RUNS_PER_LANE * 2):
                break
        return made

    def _lane(self, run: Run, longest: int, width: int) -> Lane:
        from reprise.fleet.engine.lane import Lane  # needs Triton

        assert isinstance(run.stream, StreamSettings)
        assert run.data is not None
        assert run.evaluation is not None
        test, every = self.pixels if run.data.validation else self.test, run.evaluation.every
        tests = longest // every + run.stream.tasks if every else run.stream.tasks
        return Lane(run, self.pixels, test, self.classes, longest, tests + 1, width)

    def collect(self, lane: Lane, one: ActiveRun) -> RunResult:
        """What a run that has ended leaves on its lane; an error if it has diverged."""
        slot, plan = one.slot, one.planned.plan
        assert plan.run.descent is not None
        steps, lr, candidates = plan.steps, plan.run.descent.lr, lane.candidates
        if candidates is not None and candidates.failed[:steps].any():
            first = int(candidates.failed[:steps].nonzero()[0])
            raise diverged(f"in step {first + 1} of {steps} an example's score is not a number", lr)
        losses = lane.losses[slot, :steps].cpu().numpy()
        check_losses(losses, steps, lr)
        if not torch.isfinite(lane.rows[slot]).all():  # once they are not, they stay so, and the loss may not show it
            raise weights_diverged("the weights are", steps, steps, lr)
        correct = lane.correct[slot, : len(one.tests.due)].cpu().numpy()
        trained = Trained(
            evaluations=plan.evaluations({name: correct[:, which] for which, name in enumerate(READOUTS)}),
            losses=losses,
            hits=lane.hits[slot, :steps].cpu().numpy(),
            biases=None if lane.biases is None else lane.biases[slot, : steps + 1].cpu().numpy(),
            made_by=made_by(self.device),
        )
        chosen = None if candidates is None else candidates.chosen[:steps].cpu().numpy()
        return RunResult.of(plan, self.data, one.planned.tape(chosen), one.timings(), trained)


def without_tensors(error: Exception) -> Exception:
    """The error without the calls that it ended: as long as it is kept, it would hold their tensors, and the lane."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or one.__context__
    for one in chain:
        one.with_traceback(None)
    return error


def out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out; a capture that it ended may say something else of itself, after the fact.

    Where cuDNN has no room for any algorithm, torch says only that it found none.
    """
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError) or "unable to find an engine" in str(error):
            return True
        error = error.__context__
    return False


def measured_rate(lanes: Sequence[Lane], steps: int = 24) -> float:
    """Run-steps a second of lanes that run at once, on whatever they hold."""
    steps = min(steps, *(lane.longest for lane in lanes))  # a lane has room for no more
    seconds = []
    for count in (min(4, steps), steps):  # a few to begin with, unmeasured
        for lane in lanes:
            lane.rewind()
        torch.cuda.synchronize(lanes[0].device)
        began = time.perf_counter()
        for _ in range(count):
            for lane in lanes:
                lane.advance(1)
        torch.cuda.synchronize(lanes[0].device)
        seconds.append(time.perf_counter() - began)
    return steps * sum(lane.width for lane in lanes) / seconds[-1]
