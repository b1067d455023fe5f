"""A run in training: its plan, network, learner, read-outs and what has been measured so far."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reprise import nets
from reprise.core.files import digest
from reprise.learners import Batch, Learner, LearnerContext, Step, make_learner
from reprise.runs.images import Images
from reprise.runs.metrics import Evaluations
from reprise.runs.plan import READOUTS, Labels, RunPlan, make_plan
from reprise.runs.result import RunResult, Trained
from reprise.runs.run import Run
from reprise.train.average import Readout
from reprise.train.evaluate import Stored, arithmetic, correct_per_class, forward_precision
from reprise.train.feed import Feed, LiveFeed, TapeFeed
from reprise.train.machine import find_device, made_by
from reprise.train.pixels import Pixels
from reprise.train.ranks import Ranks
from reprise.train.scoring import describe, interference

# Buffers stay each process's own; newer torch calls that by the first name, and warns of the second.
_NAMES = ("forward_sync_buffers", "broadcast_buffers")
_OWN_BUFFERS: dict[str, Any] = {
    next(name for name in _NAMES if name in inspect.signature(DistributedDataParallel).parameters): False
}


def make_network(run: Run, classes: int) -> nets.Network:
    """The network that a run begins with."""
    network = run.network
    assert network is not None
    return nets.build(
        network.name,
        classes=classes,
        head=network.head,
        width=network.width,
        seed=run.seed,
        pretrained=network.pretrained,
        bn_momentum=network.bn_momentum,
    )


def check_plan(plan: RunPlan, images: Images, net: nets.Network) -> None:
    """Say what stands in the way of a plan, if anything does, before its first step; `net` may be of any seed."""
    # BatchNorm cannot normalise a single number: one image that has shrunk to one position.
    run, tape = plan.run, plan.tape
    height, width = images.train.images.shape[1:3]
    arrivals = np.diff(plan.stream.offsets)  # type: ignore[union-attr]
    replayed = np.array([run.memory.replay]) if tape is None else np.count_nonzero(tape.replay >= 0, axis=2)
    alone = bool((arrivals == 1).any() or (replayed == 1).any())
    side = net.output_stride
    if side is not None and max(height, width) <= side and alone and net.mixes_examples:
        raise ValueError(
            f"a batch of one image of {height}×{width} leaves BatchNorm a single number to normalise: "
            f"give another batch or replay size, or resize the images to more than {side}×{side}"
        )


class Training:
    """The state of a run between two steps; `state_dict` holds all of it that the description does not."""

    def __init__(self, run: Run, images: Images, device: str | torch.device = "cpu") -> None:
        if run.learner is None or run.descent is None or run.readout is None:
            raise ValueError(
                f"{run.name}: without a learner there is nothing to train; reprise.runs.make_plan plans it"
            )
        self.run, self.descent = run, run.descent
        self.device = find_device(device)
        self.ranks = Ranks.here()
        self.data = images.fingerprints(run)
        if not self.ranks.agree(digest(self.data), self.device):
            raise ValueError("the processes that share this run have different images; give all of them the same ones")
        self.pixels = Pixels(images.train, self.device)
        validation = run.data is not None and run.data.validation
        self.test = self.pixels if validation else Pixels(images.test, self.device)
        self.plan = make_plan(run, Labels.of(images, run))
        self.classes = len(images.train.classes)
        context = LearnerContext(self.classes, len(images.train), run.seed, run.learner.passes)
        net = make_network(run, self.classes).to(self.device)
        if self.device.type == "cuda":
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.learner: Learner = (
            make_learner(run.learner.name, net, context, **run.learner.hyper).to(self.device).train()
        )
        self.readout = Readout(net, run.readout.ema)
        self.optimizer = _optimizer(run, self.learner)
        self.feed = self._feed()
        check_plan(self.plan, images, net)
        self.forward = self._shared()
        self._begin()

    def _feed(self) -> Feed:
        if not self.run.scored:
            return TapeFeed(self.plan, self.pixels, self.classes, self.ranks)
        if self.ranks.world > 1:
            raise ValueError(
                f"{self.run.make_memory().scored!r} asks the network at every step, which one process alone can do"
            )
        return LiveFeed(self.plan, self.pixels, self.classes, self._score, self._describe)

    def _shared(self) -> nn.Module:
        """What a step's forward passes go through: the learner, or its share of data-parallel training."""
        if self.ranks.world == 1:
            return self.learner
        if not self.learner.parallel or self.learner.moves_first:  # each process would move by its part of the batch
            assert self.run.learner is not None
            raise ValueError(f"learner {self.run.learner.name!r} cannot share its steps; train it in one process")
        # BatchNorm normalises each part by itself. The first process's statistics are tested and kept.
        return DistributedDataParallel(self.learner, **_OWN_BUFFERS)

    def _begin(self) -> None:
        steps, device = self.steps, self.device
        self.step = 0
        self.losses = torch.full((steps,), torch.nan, device=device)
        self.hits = torch.zeros(steps, dtype=torch.int64, device=device)
        self.biases = None if self.bias is None else torch.empty(steps + 1, self.classes, device=device)
        self.note_bias()
        assert self.plan.tests is not None
        self.tests = self.plan.tests
        self.due = frozenset(self.tests.due)
        self.boundaries = frozenset(self.plan.stream.boundaries.tolist())
        self.correct: dict[str, list[NDArray[np.int64]]] = {name: [] for name in READOUTS}

    @property
    def net(self) -> nets.Network:
        """The live network."""
        return self.learner.net

    @property
    def bias(self) -> Tensor | None:
        """The head's bias, if it has one."""
        bias = getattr(self.net.fc, "bias", None)
        return bias.detach() if isinstance(bias, Tensor) else None

    def note_bias(self) -> None:
        """Keep the head's bias as it is after this many steps."""
        if self.biases is not None and self.bias is not None:
            self.biases[self.step] = self.bias

    @property
    def steps(self) -> int:
        return self.plan.steps

    def _score(self, step: Step, candidates: Any) -> Tensor:
        precision, memory = self.descent.precision, self.run.memory
        assert self.descent.lr is not None
        with arithmetic(precision), forward_precision(precision, self.device):
            return interference(
                self.learner, step, candidates, lr=self.descent.lr, loss=memory.virtual_loss, mode=memory.scoring
            )

    def _describe(self, batch: Batch) -> Tensor:
        precision = self.descent.precision
        with arithmetic(precision), forward_precision(precision, self.device):
            return describe(self.net, batch, self.run.description)

    def _stored(self) -> Tensor:
        """The ids of what is stored now, in order of slots."""
        return torch.from_numpy(self.feed.stored(self.step)).to(self.device)

    def evaluate(self) -> dict[str, Evaluations]:
        """Make the next test of the plan, which is due now: both read-outs on the classes seen so far."""
        ids = torch.from_numpy(self.tests.chosen(len(self.correct["live"]))).to(self.device)
        predictor = partial(self.learner.predictor, stored=Stored(self.pixels, self._stored))
        for name, net in (("ema", self.readout.net), ("live", self.net)):
            # In data-parallel training every process tests a part, with the statistics that the first will save.
            self.ranks.follow(net.buffers())
            mine = ids[self.ranks.rank :: self.ranks.world]
            correct = correct_per_class(net, self.test, mine, self.classes, self.descent.precision, predictor)
            self.correct[name].append(self.ranks.total(correct).cpu().numpy())
        return self.evaluations()

    def evaluations(self) -> dict[str, Evaluations]:
        """All evaluations so far, by read-out."""
        return self.plan.evaluations(self.correct)

    def result(self, timings: dict[str, float]) -> RunResult:
        """What the run leaves, once its last step is done."""
        trained = Trained(
            evaluations=self.evaluations(),
            losses=self.losses.cpu().numpy(),
            hits=self.hits.cpu().numpy(),
            biases=None if self.biases is None else self.biases.cpu().numpy(),
            made_by=made_by(self.device, self.ranks.world),
        )
        return RunResult.of(self.plan, self.data, self.feed.tape(), timings, trained)

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors; those of the device are not copied."""
        done = self.step
        return {
            "step": done,
            "learner": dict(self.learner.state_dict()),
            "readout": dict(self.readout.net.state_dict()),
            "optimizer": self.optimizer.state_dict()["state"],
            "feed": self.feed.state_dict(),
            "losses": self.losses[:done],
            "hits": self.hits[:done],
            "biases": None if self.biases is None else self.biases[: done + 1],
            "correct": {
                name: np.array(rows, np.int64).reshape(-1, self.classes) for name, rows in self.correct.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the run that gave this state."""
        done = int(state["step"])
        self.feed.load_state_dict(state["feed"])
        self.learner.load_state_dict(state["learner"])
        self.readout.net.load_state_dict(state["readout"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.losses[:done], self.hits[:done] = state["losses"].to(self.device), state["hits"].to(self.device)
        if self.biases is not None:
            self.biases[: done + 1] = state["biases"].to(self.device)
        self.step = done
        self.correct = {name: list(np.asarray(rows)) for name, rows in state["correct"].items()}
        self.feed.seek(done)


def _optimizer(run: Run, learner: Learner) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    descent = run.descent
    assert descent is not None
    assert descent.lr is not None
    assert descent.momentum is not None
    assert descent.weight_decay is not None
    if descent.optimizer == "adam":
        return torch.optim.Adam(parameters, descent.lr, weight_decay=descent.weight_decay)
    return torch.optim.SGD(parameters, descent.lr, descent.momentum, weight_decay=descent.weight_decay)
