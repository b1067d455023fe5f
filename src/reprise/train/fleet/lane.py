"""A lane: one run at a time on a stream of its own, its step captured once as a CUDA graph and replayed.

All that a step reads lies on the device: images, tape, crops, and a counter that the step itself moves on. So the host
only says "again". When a run ends, the next one's tape and weights are copied into the same places, and the graph is
used as it is. Batches that are not full are padded, with weight 0 and out of BatchNorm's sight, so that every step of
every run is the same graph.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reprise import nets
from reprise.learners import Batch, Setting, Step, make_learner
from reprise.nets.fused import FusedResNet18, read_out
from reprise.nets.resnet import ResNet18
from reprise.train.augment import PAD
from reprise.train.config import TrainRun
from reprise.train.evaluate import arithmetic, forward_precision
from reprise.train.fleet import kernels
from reprise.train.fleet.planned import Planned
from reprise.train.fleet.row import Row
from reprise.train.pixels import Pixels

_BLOCK = 1024
_PIECE = 2048
_TEST_BATCH = 1000


class Lane:
    """Places for one run of a group whose runs differ in stream, tape and seed alone."""

    def __init__(self, config: TrainRun, pixels: Pixels, test: Pixels, classes: int, longest: int, tests: int) -> None:
        self.config = config
        self.pixels, self.test = pixels, test
        self.classes = classes
        self.device = device = pixels.device
        self.stream = torch.cuda.Stream(device)
        self.segments = 1 + (config.draws if config.replay else 0)
        self.places = config.batch + (self.segments - 1) * config.replay
        self.examples = len(pixels.labels)
        with torch.cuda.stream(self.stream):
            self._allocate(longest, tests)
            self._build()
            with _same_algorithms():
                self._capture()
        self.done = 0
        self.stream.synchronize()

    def _allocate(self, longest: int, tests: int) -> None:
        device, places = self.device, self.places
        height, width = self.pixels.images.shape[1:3]

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.ids = zeros(longest, places, dtype=torch.int32)
        self.counts = zeros(longest, self.segments, dtype=torch.int32)
        self.crops = zeros(longest, places, 3, dtype=torch.int8)
        self.counter = zeros(1, dtype=torch.int64)
        dtype = torch.bfloat16 if self.config.precision == "bf16" else torch.float32
        self.x = zeros(places, height, width, 3, dtype=dtype)
        self.y, self.example = zeros(places, dtype=torch.int64), zeros(places, dtype=torch.int64)
        self.keep = zeros(self.config.batch, dtype=torch.int64)
        self.group = zeros(self.config.batch, dtype=torch.int64)
        self.weight = zeros(places)
        self.real = zeros(self.segments, dtype=torch.int32)
        self.seen = zeros(self.classes + 1, dtype=torch.bool)  # the last place is for what is not real
        self.losses, self.hits = zeros(longest), zeros(longest, dtype=torch.int64)
        self.correct = zeros(tests, 2, self.classes, dtype=torch.int64)

    def _build(self) -> None:
        config = self.config
        self.net = self._network()
        self.mean_net = copy.deepcopy(self.net)
        self.row, self.mean_row = Row.of(self.net), Row.of(self.mean_net)
        net: nets.Network = self.net
        self.copy: Tensor | None = None
        trained: dict[nn.Module, Tensor] = {}
        if isinstance(self.net, ResNet18):
            net = FusedResNet18(self.net, self.real)
            if config.precision == "bf16":
                self.copy, trained = self.row.half()
                net.weights.update(trained)
        # In the order of the row: copies stand in for the convolutions' weights.
        self.trained = [*trained.values(), *self.row.parameters[len(trained) :]]
        self.pieces: dict[bool, _Pieces] = {}
        # One id more than there are, for logits that nobody will ask for.
        setting = Setting(self.classes, self.examples + 1, config.seed, config.passes)
        self.learner = make_learner(config.learner, net, setting, **config.hyper).to(self.device).train()
        bias = getattr(self.net.fc, "bias", None)
        longest = len(self.losses)
        self.biases = torch.zeros(longest + 1, self.classes, device=self.device) if bias is not None else None

    def _network(self) -> nets.Network:
        config = self.config
        net = nets.build(config.backbone, classes=self.classes, head=config.head, width=config.width, seed=config.seed)
        return net.to(self.device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload,no-any-return]

    def _capture(self) -> None:
        self.counts.fill_(1)
        for _ in range(3):  # so that every kernel is compiled and every choice made before the capture
            self._step()
            self.counter.zero_()
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._step()
        for pieces in self.pieces.values():
            pieces.point()

    def _step(self) -> None:
        """One step of training, wherever the counter stands."""
        config = self.config
        self._fetch()
        step = self._batches()
        with arithmetic(config.precision):
            with forward_precision(config.precision, self.device):
                loss, logits = self.learner(step)
            gradients = torch.autograd.grad(loss, self.trained)
        with torch.no_grad():
            self.learner.after(step, logits.detach())
            self._descend(gradients)
            self._note(loss.detach(), logits.detach())

    def _fetch(self) -> None:
        pixels, config = self.pixels, self.config
        height, width = pixels.images.shape[1:3]
        grid = (self.places, -(-height * width * 3 // _BLOCK))
        kernels.fetch[grid](
            pixels.images, pixels.labels, self.ids, self.counts, self.crops, self.counter, pixels.shift, pixels.scale,
            self.x, self.y, self.example, self.keep, self.group, self.weight, self.real, height=height, width=width,
            places=self.places, incoming=config.batch, replay=max(config.replay, 1), segments=self.segments, pad=PAD,
            nowhere=self.examples, classes=self.classes, block=_BLOCK,
        )  # fmt: skip

    def _batches(self) -> Step:
        sizes = [self.config.batch, *[self.config.replay] * (self.segments - 1)]
        x = self.x.permute(0, 3, 1, 2)
        parts = zip(*(torch.split(one, sizes) for one in (x, self.y, self.example, self.weight)), strict=True)
        incoming, *replay = (Batch(*part) for part in parts)
        present = torch.zeros_like(self.seen).index_fill_(0, self.group, True)
        self.seen |= present
        last = self.classes
        return Step(0, incoming, tuple(replay), present[:last], self.seen[:last], self.keep)

    def _descend(self, gradients: tuple[Tensor, ...]) -> None:
        """SGD and the averaged read-out, over all weights of one kind at once."""
        row, mean, config = self.row, self.mean_row.values, self.config
        half = [one for one in gradients if one.dtype == torch.bfloat16]
        for parts, first in ((half, 0), (gradients[len(half) :], row.copied if half else 0)):
            if not parts:
                continue
            is_half = parts is half
            if is_half not in self.pieces:
                self.pieces[is_half] = _Pieces(parts, first, self.device)
            pieces = self.pieces[is_half]
            pieces.take(parts)
            kernels.descend[(len(pieces.tensors),)](
                row.values, mean, row.values if self.copy is None else self.copy, pieces.gradients, pieces.tensors,
                pieces.starts, pieces.places, pieces.sizes, self.real, config.lr, config.weight_decay,
                horizon=config.ema, half=is_half, block=_PIECE,
            )  # fmt: skip
        left = row.values.numel() - row.weights
        if left:
            kernels.average[(-(-left // _BLOCK),)](
                row.values[row.weights :], mean[row.weights :], self.real, left, horizon=config.ema, block=_BLOCK
            )

    def _note(self, loss: Tensor, logits: Tensor) -> None:
        batch = self.config.batch
        self.losses.index_copy_(0, self.counter, loss.view(1))
        hits = ((logits.argmax(1) == self.y[:batch]) & (self.weight[:batch] > 0)).sum()
        self.hits.index_copy_(0, self.counter, hits.view(1))
        self.counter += 1
        if self.biases is not None:
            self.biases.index_copy_(0, self.counter, self.net.fc.bias.detach()[None])  # type: ignore[operator]

    @torch.no_grad()
    def begin(self, planned: Planned, weights: Tensor) -> None:
        """Take a run: its tape, its crops, its initial weights. Nothing of the last one remains."""
        self.planned = planned
        self.done = 0
        with torch.cuda.stream(self.stream):
            for mine, theirs in ((self.ids, planned.ids), (self.counts, planned.counts), (self.crops, planned.crops)):
                mine[: len(theirs)].copy_(torch.from_numpy(theirs))
            self.counter.zero_()
            self.seen.zero_()
            self.losses.fill_(torch.nan)
            for name, buffer in self.learner.named_buffers():
                if not name.startswith("net."):
                    buffer.zero_()  # padding has weight 0, but no weight takes a NaN away
            self.row.values.copy_(weights, non_blocking=True)
            self.mean_row.values.copy_(weights, non_blocking=True)
            if self.copy is not None:
                self.copy.copy_(self.row.values[: self.row.copied])
            if self.biases is not None:
                self.biases[0] = self.net.fc.bias.detach()  # type: ignore[operator]

    def rewind(self) -> None:
        """Go back to the first step, as far as the tape is concerned."""
        with torch.cuda.stream(self.stream):
            self.counter.zero_()
        self.done = 0

    def advance(self, steps: int) -> None:
        """Ask for so many steps more; they are done when the device gets there."""
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                self.graph.replay()
        self.done += steps

    @torch.no_grad()
    def evaluate(self, number: int, chosen: NDArray[np.int64]) -> None:
        """Test both read-outs on these images, and keep the counts under `number`."""
        config = self.config
        batches = max(-(-len(chosen) // _TEST_BATCH), 1)
        padded = np.zeros(batches * _TEST_BATCH, np.int64)  # every batch of one size: algorithms are chosen once
        padded[: len(chosen)] = chosen
        with torch.cuda.stream(self.stream), _same_algorithms(), arithmetic(config.precision):
            ids = torch.from_numpy(padded).to(self.device)
            real = torch.arange(len(padded), device=self.device) < len(chosen)
            labels = self.test.labels[ids]
            for place, net in enumerate((self.mean_net, self.net)):
                forward = read_out(net, config.precision) if isinstance(net, ResNet18) else _evaluated(net)
                with forward_precision(config.precision, self.device):
                    parts = [
                        forward(self.test.normalised(self.test.gather(part))).argmax(1)
                        for part in torch.split(ids, _TEST_BATCH)
                    ]
                right = (torch.cat(parts) == labels) & real
                self.correct[number, place].zero_().index_add_(0, labels, right.long())


@contextlib.contextmanager
def _same_algorithms() -> Iterator[None]:
    """Within it cuDNN takes the fastest algorithm that always gives the same bits, found once for each shape."""
    flags = torch.backends.cudnn
    before = flags.benchmark, flags.deterministic
    flags.benchmark, flags.deterministic = True, True
    try:
        yield
    finally:
        flags.benchmark, flags.deterministic = before


def _evaluated(net: nn.Module) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        net.eval()
        logits: Tensor = net(x)
        net.train()
        return logits

    return forward


class _Pieces:
    """Tensors cut into pieces for `descend`: which tensor a piece is of, and where in it; and where tensors lie."""

    def __init__(self, parts: Sequence[Tensor], first: int, device: torch.device) -> None:
        """Pieces of weights that lie one after the other from `first` on, in the order of their gradients."""
        sizes = np.array([one.numel() for one in parts], np.int64)
        counts = -(-sizes // _PIECE)
        pieces = [np.arange(count) * _PIECE for count in counts]
        self.tensors = torch.from_numpy(np.repeat(np.arange(len(sizes), dtype=np.int32), counts)).to(device)
        self.starts = torch.from_numpy(np.concatenate(pieces).astype(np.int32)).to(device)
        self.places = torch.from_numpy(first + np.cumsum(sizes) - sizes).to(device)
        self.sizes = torch.from_numpy(sizes).to(device)
        self.gradients = torch.zeros(len(sizes), dtype=torch.int64, device=device)

    def take(self, parts: Sequence[Tensor]) -> None:
        """Hold the gradients, in memory as the row has their weights. Within a capture nothing can be copied."""
        self.parts = [
            one.contiguous(memory_format=torch.channels_last) if one.dim() == 4 else one.contiguous() for one in parts
        ]
        if not torch.cuda.is_current_stream_capturing():
            self.point()

    def point(self) -> None:
        """Tell the device where the gradients lie: in a captured graph, at the same place at every replay."""
        self.gradients.copy_(torch.tensor([one.data_ptr() for one in self.parts]))
