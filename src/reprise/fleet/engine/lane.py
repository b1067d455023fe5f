"""A lane: some runs side by side, step by step, their step captured once as a CUDA graph and replayed.

All that a step reads lies on the device: images, tapes, crops, and counters that the step itself moves on. So the host
only says "again". When a run ends, the next one's tape and weights are copied into its slot, and the graph is used
as it is. Batches that are not full are padded, with weight 0 and out of BatchNorm's sight, so that every step of every
run is the same graph. A BatchNorm that is not of the stacked networks would see the padding: there a step whose batches
are not full, one of the first of a run or the last of a task, is taken by itself, without a graph.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise import nets
from reprise.fleet.engine import step_kernels
from reprise.fleet.engine.bodies import PIECE, Body, Separate, Stacked, pieces
from reprise.fleet.engine.branches import Branches
from reprise.fleet.engine.candidates import Candidates
from reprise.fleet.engine.checking import check_buffers, check_trained
from reprise.fleet.engine.flat_state import Layout
from reprise.fleet.engine.fused_eval import tested
from reprise.fleet.engine.incoming import Incoming
from reprise.fleet.engine.launch import launch, rehearsal
from reprise.fleet.engine.stack import Stack
from reprise.fleet.grouping import has_own_passes, pool_size, stacks
from reprise.fleet.lane_plan import LanePlan
from reprise.learners import Batch, LearnerContext, Step, find_learner, make_learner
from reprise.runs.augmentation import PAD
from reprise.runs.run import Run
from reprise.runs.settings import StreamSettings
from reprise.train.evaluate import arithmetic, forward_precision
from reprise.train.machine import computes_bf16
from reprise.train.pixels import Pixels
from reprise.train.state import make_network

_BLOCK = 1024
_TEST_BATCH = 1000
Counts = Sequence[int]
"""How many images of each batch are real; then how many candidates, where the memory asks about some."""


class Lane:
    """Slots for `width` runs of a group whose runs differ in stream, tape and seed alone.

    Without a GPU, where Triton's interpreter stands in for the kernels, steps are taken one by one.
    """

    def __init__(
        self, run: Run, pixels: Pixels, test: Pixels, classes: int, longest: int, tests: int, width: int = 1
    ) -> None:
        stream, descent, readout = run.stream, run.descent, run.readout
        assert isinstance(stream, StreamSettings)
        assert descent is not None
        assert readout is not None
        self.run, self.descent, self.precision = run, descent, descent.precision
        self.batch, self.replay, self.horizon = stream.batch, run.memory.replay, readout.ema
        self.pixels, self.test = pixels, test
        self.classes = classes
        self.width = width
        self.device = device = pixels.device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.branches = Branches(width, device)
        self.segments = 1 + (run.draws if self.replay else 0)
        self.sizes = (self.batch, *[self.replay] * (self.segments - 1))
        self.positions = sum(self.sizes)
        self.examples = len(pixels.labels)
        self.longest = longest
        self.graph: torch.cuda.CUDAGraph | None = None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))  # which may still be at the images
        with torch.cuda.stream(self.stream):
            self._allocate(tests)
            self._build()
            if self.stream is not None:
                with _same_algorithms(find=self.padded):
                    self._capture(self.stream)
        self.synchronize()

    def _allocate(self, tests: int) -> None:
        device, runs, positions, batch = self.device, self.width, self.positions, self.batch
        height, width = self.pixels.images.shape[1:3]

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros((runs, *shape), dtype=dtype, device=device)

        longest = self.longest + 1  # the last row is for runs that have ended
        self.ids = zeros(longest, positions, dtype=torch.int32)
        self.counts = zeros(longest, self.segments, dtype=torch.int32)
        self.crops = zeros(longest, positions, 3, dtype=torch.int8)
        self.counter = zeros(dtype=torch.int64)
        self.active = zeros(dtype=torch.int32)
        halved = self.precision == "bf16" and computes_bf16(device.type)
        dtype = torch.bfloat16 if halved else torch.float32
        self.x = zeros(positions, height, width, 3, dtype=dtype)
        self.y, self.example = zeros(positions, dtype=torch.int64), zeros(positions, dtype=torch.int64)
        self.keep, self.group = zeros(batch, dtype=torch.int64), zeros(batch, dtype=torch.int64)
        self.weight = zeros(positions)
        self.real = zeros(self.segments, dtype=torch.int32)
        self.seen = zeros(self.classes + 1, dtype=torch.bool)  # the last entry is for what is not real
        self.loss, self.logits = zeros(1), zeros(batch, self.classes)
        self.losses, self.hits = zeros(longest), zeros(longest, dtype=torch.int64)
        self.correct = zeros(tests, 2, self.classes, dtype=torch.int64)

    def _build(self) -> None:
        device, learner = self.device, self.run.learner
        assert learner is not None
        first = self._network()
        stacked = stacks(self.run, first)
        self.padded = stacked or not first.mixes_examples
        kind = find_learner(learner.name)
        self.calls_before = has_own_passes(kind) or (kind.moves_first and not stacked)
        pool = pool_size(self.run)
        asks = "memory asks the network" if pool else "learner asks for a pass beside the step's"
        if self.width > 1 and (pool or self.calls_before or not self.padded):
            why = asks if pool or self.calls_before else "network mixes examples"
            raise ValueError(f"runs whose {why} have a lane each, got {self.width} for one")
        self.candidates = Candidates(self.run, self.pixels, self.longest, pool) if pool else None
        self.full = self.sizes if self.candidates is None else (*self.sizes, self.candidates.pool)
        self.counts_ahead: Iterator[Counts] | None = None  # of the steps to come, where batches are not padded
        self.nets = [first, *(copy.deepcopy(first) for _ in range(1, self.width))]
        self.mean_nets = copy.deepcopy(self.nets)
        self.layout = layout = Layout.of(self.nets[0])
        self.rows = torch.zeros(self.width, layout.length, device=device)
        self.mean_rows = torch.zeros_like(self.rows)
        for mine, rows in ((self.nets, self.rows), (self.mean_nets, self.mean_rows)):
            for net, row in zip(mine, rows, strict=True):
                layout.attach(net, row)
        self.copies: Tensor | None = None
        self.body: Body
        self.incoming: Incoming | None = None  # where a learner moves the weights first
        if stacked:
            if self.precision == "bf16":
                self.copies = torch.empty_like(self.rows[:, : layout.copied], dtype=torch.bfloat16)
            height, width = self.pixels.images.shape[1:3]
            stack = Stack(first, layout, self.rows, self.copies, self.real, self.sizes, (height, width), self.precision)
            self.body = Stacked(self.nets, stack)
            if kind.moves_first:
                self.incoming = Incoming(self.nets, stack, self.branches)
        else:
            self.body = Separate(self.nets, layout)
        # One id more than there are, for logits that nobody will ask for.
        context = LearnerContext(self.classes, self.examples + 1, self.run.seed, learner.passes)
        self.learners = [
            make_learner(learner.name, net, context, **learner.hyper).to(device).train() for net in self.body.networks
        ]
        check_trained(self.learners, self.nets, layout)
        check_buffers(self.run, self.classes, first)
        # Rows hold floating-point numbers alone; of the rest a run must not see what the last one left.
        pairs = zip(self.nets, self.mean_nets, strict=True)
        states = ((one for net in pair for one in net.buffers() if not one.is_floating_point()) for pair in pairs)
        self.counted = [[(one, one.clone()) for one in state] for state in states]
        self.pieces = pieces(layout, self.body, device)
        has_bias = getattr(self.nets[0].fc, "bias", None) is not None
        shape = self.width, self.longest + 2, self.classes
        self.biases = torch.zeros(shape, device=device) if has_bias else None

    def _network(self) -> nets.Network:
        net = make_network(self.run, self.classes)
        return net.to(self.device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload,no-any-return]

    def _capture(self, stream: torch.cuda.Stream) -> None:
        self.counts.fill_(1)
        self.active.fill_(1)
        with rehearsal():
            self._step()
            self.evaluate(0, 0, np.zeros(1, np.int64))
        for _ in range(2):  # so that every choice is made before the capture
            self._step()
            self.counter.zero_()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile, as long as they leave this stream alone.
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            self._step()

    def _step(self, counts: Counts | None = None) -> None:
        """One step of training of every run, wherever its counter stands; of so many real images alone, if told."""
        with arithmetic(self.precision):
            steps = self._forward(counts or self.full)
            self.branches.each(lambda run: self._differentiate(run, steps[run]))
            self.body.backward()
        with torch.no_grad():
            self._sgd_ema()
            self._note()

    def _forward(self, counts: Counts) -> list[Step]:
        """What comes before each run's own loss, which is then told of its step."""
        self._fetch()
        present = torch.zeros_like(self.seen).scatter_(1, self.group, True)
        self.seen |= present
        counts, pool = counts[: self.segments], counts[self.segments :]
        if self.candidates is not None and any(pool):
            self._choose(self.candidates, present, counts[0], *pool)
        steps = [self._batches(run, present, counts) for run in range(self.width)]
        if self.incoming is not None:
            self.incoming.move_first(self.x, self.learners, steps)
        self.body.forward(self.x)
        return steps

    def _fetch(self) -> None:
        pixels = self.pixels
        height, width = pixels.images.shape[1:3]
        grid = (self.positions, -(-height * width * 3 // _BLOCK), self.width)
        launch(
            step_kernels.fetch, grid,
            pixels.images, pixels.labels, self.ids, self.counts, self.crops, self.counter, self.active, pixels.shift,
            pixels.scale, self.x, self.y, self.example, self.keep, self.group, self.weight, self.real,
            self.ids.shape[1], height=height, width=width, positions=self.positions, incoming=self.batch,
            replay=max(self.replay, 1), segments=self.segments, pad=PAD, nowhere=self.examples, classes=self.classes,
            block=_BLOCK,
        )  # fmt: skip

    def _choose(self, candidates: Candidates, present: Tensor, arrived: int, pool: int) -> None:
        """Ask the network of the only run which candidates return, and fetch these."""
        step = self._batches(0, present, (arrived, 0))
        with forward_precision(self.precision, self.device):
            ids = candidates.choose(self.counter, self.learners[0], step, pool)
        self.ids[0, :, self.batch : self.batch + len(ids)].index_copy_(0, self.counter, ids[None].int())
        self._fetch()

    def _batches(self, run: int, present: Tensor, counts: Counts) -> Step:
        x = self.x[run].permute(0, 3, 1, 2)
        whole = (x, self.y[run], self.example[run], self.weight[run])
        parts = zip(*(torch.split(one, list(self.sizes)) for one in whole), strict=True)
        incoming, *replay = (
            Batch(*(values[:count] for values in part)) for part, count in zip(parts, counts, strict=True) if count
        )
        last, keep = self.classes, self.keep[run, : counts[0]]
        return Step(0, incoming, tuple(replay), present[run, :last], self.seen[run, :last], keep)

    def _differentiate(self, run: int, step: Step) -> None:
        """A run's own loss, and what it asks of the network."""
        learner = self.learners[run]
        with forward_precision(self.precision, self.device):
            if self.calls_before:
                learner.before(step)
            loss, logits = learner(step)
        self.body.take(run, torch.autograd.grad(loss, self.body.wanted(run)))
        with torch.no_grad():
            learner.after(step, logits.detach())
            self.loss[run] = loss.detach()
            self.logits[run, : len(logits)] = logits.detach()

    def _sgd_ema(self) -> None:
        """SGD and the averaged read-out, over all weights of all runs at once."""
        descent, layout, length = self.descent, self.layout, self.rows.shape[1]
        copies = self.rows if self.copies is None else self.copies
        launch(
            step_kernels.sgd_ema, (len(self.pieces[0]), self.width),
            self.rows, self.mean_rows, copies, self.body.gradient, *self.pieces, self.real, length, copies.shape[1],
            self.body.gradient.shape[1], self.segments, descent.lr, descent.weight_decay, horizon=self.horizon,
            copied=0 if self.copies is None else layout.copied, block=PIECE,
        )  # fmt: skip
        left = layout.length - layout.weights
        if left:
            launch(
                step_kernels.average, (-(-left // _BLOCK), self.width),
                self.rows, self.mean_rows, self.real, layout.weights, length, self.segments,
                horizon=self.horizon, block=_BLOCK,
            )  # fmt: skip
        self.body.changed()

    def _note(self) -> None:
        batch, at = self.batch, self.counter[:, None]
        self.losses.scatter_(1, at, self.loss)
        right = (self.logits.argmax(2) == self.y[:, :batch]) & (self.weight[:, :batch] > 0)
        self.hits.scatter_(1, at, right.sum(1, keepdim=True))
        torch.clamp(self.counter + self.active, max=self.longest, out=self.counter)  # beyond it there is no row
        if self.biases is not None:
            span = self.layout.spans["fc.bias"]
            now = self.rows[:, None, span.start : span.end]
            self.biases.scatter_(1, self.counter[:, None, None].expand_as(now), now)

    @torch.no_grad()
    def begin(self, slot: int, planned: LanePlan, weights: Tensor) -> None:
        """Take a run: its tape, its crops, its initial weights. Nothing of the last one remains."""
        with torch.cuda.stream(self.stream):
            for mine, theirs in ((self.ids, planned.ids), (self.counts, planned.counts), (self.crops, planned.crops)):
                mine[slot, : len(theirs)].copy_(_sent(theirs, self.device), non_blocking=True)
            self.counter[slot] = 0
            self.seen[slot] = False
            self.losses[slot] = torch.nan
            self.learners[slot].restart(planned.plan.run.seed)  # padding has weight 0, but no weight takes a NaN away
            weights = weights if weights.is_cuda else _sent(weights.numpy(), self.device)
            for rows in (self.rows, self.mean_rows):
                rows[slot].copy_(weights)
            if self.copies is not None:
                self.copies[slot].copy_(self.rows[slot, : self.layout.copied])
            for mine, first in self.counted[slot]:
                mine.copy_(first)
            self.body.changed()
            if self.biases is not None:
                self.biases[slot, 0] = self.nets[slot].fc.bias.detach()  # type: ignore[operator]
            self.active[slot] = 1
            if self.candidates is not None and planned.pools is not None:
                self.candidates.begin(planned.pools)
            self.counts_ahead = iter(planned.real.tolist())

    def rest(self, slot: int) -> None:
        """This slot's run has ended: no step of another one changes its weights, until the next run begins there."""
        with torch.cuda.stream(self.stream):
            self.active[slot] = 0
            self.counts_ahead = iter(())

    def rewind(self) -> None:
        """Have all slots go on from the first step of their tapes, as if all batches were full."""
        with torch.cuda.stream(self.stream):
            self.counter.zero_()
            self.active.fill_(1)
            self.counts_ahead = None

    def advance(self, steps: int) -> None:
        """Ask for so many steps more of every run; they are done when the device gets there."""
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                counts = self._next_counts()
                if counts is None:
                    continue  # nothing that rests may see an image: BatchNorm would note it
                if self.graph is not None and tuple(counts) == self.full:
                    self.graph.replay()
                else:
                    with _same_algorithms(find=False):
                        self._step(counts)

    def _next_counts(self) -> Counts | None:
        """How many images of each batch the next step sees: all, if batches are padded; None at the end of a run."""
        if self.padded or self.counts_ahead is None:
            return self.full
        return next(self.counts_ahead, None)

    def mark(self) -> Callable[[], bool]:
        """A function that says whether the device has done what was asked for so far."""
        event = torch.cuda.Event()
        event.record(self.stream)
        return event.query

    def synchronize(self) -> None:
        """Wait until all that was asked for is done."""
        if self.stream is not None:
            self.stream.synchronize()

    @torch.no_grad()
    def evaluate(self, slot: int, number: int, chosen: NDArray[np.int64]) -> None:
        """Test both read-outs of a run on these images, and keep the counts under `number`."""
        batches = max(-(-len(chosen) // _TEST_BATCH), 1)
        padded = np.zeros(batches * _TEST_BATCH, np.int64)  # every batch of one size: algorithms are chosen once
        padded[: len(chosen)] = chosen
        with torch.cuda.stream(self.stream), _same_algorithms(find=self.padded), arithmetic(self.precision):
            ids = _sent(padded, self.device)
            real = torch.arange(len(padded), device=self.device) < len(chosen)
            labels = self.test.labels[ids]
            for which, net in enumerate((self.mean_nets[slot], self.nets[slot])):
                forward = tested(net, self.precision)
                with forward_precision(self.precision, self.device):
                    parts = [
                        forward(self.test.normalised(self.test.gather(part))).argmax(1)
                        for part in torch.split(ids, _TEST_BATCH)
                    ]
                right = (torch.cat(parts) == labels) & real
                self.correct[slot, number, which].zero_().index_add_(0, labels, right.long())


@contextlib.contextmanager
def _same_algorithms(*, find: bool = True) -> Iterator[None]:
    """Within it cuDNN takes an algorithm that always gives the same bits: the fastest, found once for each shape.

    Unless it is to be found, it is the one that cuDNN deems fastest.
    """
    flags = torch.backends.cudnn
    before = flags.benchmark, flags.deterministic
    flags.benchmark, flags.deterministic = find, True
    try:
        yield
    finally:
        flags.benchmark, flags.deterministic = before


def _sent(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array on the device, without waiting for what the device does before."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
