"""A run put together from its configuration: images, stream, tape, network, learner, read-outs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reprise import data, nets
from reprise.core.files import digest
from reprise.core.rng import Random
from reprise.data import ImageSet
from reprise.learners import Batch, Learner, LearnerContext, Step, find_learner, make_learner
from reprise.streams import LabelStream, from_labels, label_stream
from reprise.streams.datasets import DATASETS, tail_name
from reprise.tape import plan
from reprise.train.average import Readout
from reprise.train.config import TrainRun
from reprise.train.evaluate import Stored, arithmetic, correct_per_class, forward_precision
from reprise.train.feed import Feed, LiveFeed, TapeFeed
from reprise.train.metrics import Evaluations
from reprise.train.pixels import Pixels
from reprise.train.ranks import Ranks
from reprise.train.scoring import describe, interference

READOUTS = ("ema", "live")
Fingerprints = dict[str, str]
"""The fingerprints of the images that a run uses, by split."""
# Buffers stay each process's own; newer torch calls that by the first name, and warns of the second.
_NAMES = ("forward_sync_buffers", "broadcast_buffers")
_OWN_BUFFERS: dict[str, Any] = {
    next(name for name in _NAMES if name in inspect.signature(DistributedDataParallel).parameters): False
}


@dataclass(frozen=True)
class Images:
    """The images that a run learns from and is tested on."""

    train: ImageSet
    test: ImageSet

    @classmethod
    def load(
        cls,
        run: TrainRun,
        root: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Images:
        """Read a run's images from the folder `root`; `glyphs` needs none. A validation run never reads test images."""

        def part(split: str) -> ImageSet:
            return data.load(run.dataset, root, split, size=run.size, holdout=run.holdout, progress=progress)

        train = _first(part("train"), run.per_class)
        return cls(train, train if run.validation else _first(part("test"), run.test_per_class))

    @staticmethod
    def source(run: TrainRun) -> tuple[object, ...]:
        """What decides which images a run needs."""
        return run.dataset, run.size, run.holdout, run.per_class, run.test_per_class, run.validation

    def fingerprints(self, run: TrainRun) -> Fingerprints:
        """Those of the images as they are now; a validation run uses the training images alone."""
        train = {"train": self.train.fingerprint()}
        return train if run.validation else {**train, "test": self.test.fingerprint()}


def other_images(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str | None:
    """In words, which images something was made with that are not ours; None if all are."""
    for part, name in (("train", "training"), ("test", "test")):
        if theirs.get(part) != ours.get(part):
            one, other = (str(found.get(part))[:12] for found in (theirs, ours))
            return f"its {name} images have the fingerprint {one}, this run's have {other}"
    return None


def _first(images: ImageSet, each: int | None) -> ImageSet:
    """The first `each` images of every class."""
    if each is None:
        return images
    kept = np.sort(np.concatenate([np.flatnonzero(images.labels == c)[:each] for c in range(len(images.classes))]))
    return replace(images, images=images.images[kept], labels=images.labels[kept])


def make_stream(run: TrainRun, labels: NDArray[np.int64]) -> LabelStream:
    """The stream of a run over a data set's labels; shuffled as a whole for a learner that sees all at once."""
    chosen: dict[str, Any] = {
        name: getattr(run, name) for name in ("batch", "tasks", "order", "validation", "disjoint", "blur")
    }
    if run.dataset in DATASETS:
        stream = label_stream(f"{run.dataset}-{tail_name(run.imbalance)}", run.seed, labels=labels, **chosen)
    else:
        name = Path(run.dataset).name
        stream = from_labels(labels, run.seed, imbalance=run.imbalance, name=name, **chosen)
    if find_learner(run.learner).shuffled:
        order = Random(run.seed, "joint order").permutation(len(stream.ids))
        stream = replace(stream, ids=stream.ids[order])
    return stream


def make_network(run: TrainRun, classes: int) -> nets.Network:
    """The network that a run begins with."""
    return nets.build(
        run.backbone,
        classes=classes,
        head=run.head,
        width=run.width,
        seed=run.seed,
        pretrained=run.pretrained,
    )


def due_steps(stream: LabelStream, every: int) -> set[int]:
    """How many steps are done when the read-outs are tested: at task boundaries, and `every` so many steps if not 0."""
    between = range(every, len(stream) + 1, every) if every else ()
    return {step for step in (*stream.boundaries.tolist(), *between) if step}


def check_run(
    config: TrainRun,
    net: nets.Network,
    images: Images,
    stream: LabelStream,
    arrivals: Sequence[int],
    replayed: Sequence[Sequence[int]],
) -> None:
    """Say what stands in the way of a run, if anything does, before its first step.

    `net` is a network as the run has it, of any seed; `arrivals` and `replayed` are the sizes of its batches.
    """
    if len(stream) == 0:
        raise ValueError(f"the stream {stream.title!r} has no step: there is nothing to learn from")
    # BatchNorm cannot normalise a single number: one image that has shrunk to one position.
    height, width = images.train.images.shape[1:3]
    side = net.output_stride
    alone = 1 in arrivals or any(1 in row for row in replayed)
    if side is not None and max(height, width) <= side and alone and net.mixes_examples:
        raise ValueError(
            f"a batch of one image of {height}×{width} leaves BatchNorm a single number to normalise: "
            f"give another batch or replay size, or resize the images to more than {side}×{side}"
        )
    tested = images.train.labels[stream.heldout] if config.validation else images.test.labels
    classes = len(images.train.classes)
    if (named := int(tested.max(initial=0)) + 1) > classes:
        raise ValueError(f"the test images are of {named} classes, the training images of {classes}")


def find_device(device: str | torch.device) -> torch.device:
    """The device that is meant, or a sentence where there is none."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"there is no device {device!r}; 'cpu' and 'cuda' are known") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(device)!r} was asked for, but torch finds no GPU here; 'cpu' always works")
    return found


class Run:
    """The state of a training run between two steps; `state_dict` holds all of it that the configuration does not."""

    def __init__(self, config: TrainRun, images: Images, device: str | torch.device = "cpu") -> None:
        self.config = config
        self.device = find_device(device)
        self.ranks = Ranks.here()
        self.data = images.fingerprints(config)
        if not self.ranks.agree(digest(self.data), self.device):
            raise ValueError("the processes that share this run have different images; give all of them the same ones")
        self.pixels = Pixels(images.train, self.device)
        self.test = self.pixels if config.validation else Pixels(images.test, self.device)
        self.stream = make_stream(config, images.train.labels)
        self.classes = len(images.train.classes)
        setting = LearnerContext(self.classes, len(images.train), config.seed, config.passes)
        net = make_network(config, self.classes).to(self.device)
        if self.device.type == "cuda":
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.learner: Learner = make_learner(config.learner, net, setting, **config.hyper).to(self.device).train()
        self.readout = Readout(net, config.ema)
        self.optimizer = _optimizer(config, self.learner)
        self.feed = self._feed()
        replayed = getattr(self.feed, "replayed", [[config.replay]])
        check_run(config, net, images, self.stream, self.feed.arrivals, replayed)
        self.forward = self._shared()
        self._begin(images)

    def _feed(self) -> Feed:
        run, classes = self.config, self.classes
        assert run.augment is not None
        memory, size = run.memory(), run.replay if run.draws else 0
        if not run.scored:
            tape = plan(self.stream, memory, size)
            return TapeFeed(tape, self.pixels, classes, run.seed, run.augment, self.ranks)
        if self.ranks.world > 1:
            raise ValueError(f"{memory.scored!r} asks the network at every step, which one process alone can do")
        return LiveFeed(self.stream, memory, size, self.pixels, self._score, self._describe, run.seed, run.augment)

    def _shared(self) -> nn.Module:
        """What a step's forward passes go through: the learner, or its share of data-parallel training."""
        if self.ranks.world == 1:
            return self.learner
        if not self.learner.parallel:
            raise ValueError(f"learner {self.config.learner!r} cannot share its steps; train it in one process")
        # BatchNorm normalises each part by itself. The first process's statistics are tested and kept.
        return DistributedDataParallel(self.learner, **_OWN_BUFFERS)

    def _begin(self, images: Images) -> None:
        steps, device = len(self.stream), self.device
        self.step = 0
        self.losses = torch.full((steps,), torch.nan, device=device)
        self.hits = torch.zeros(steps, dtype=torch.int64, device=device)
        self.biases = None if self.bias is None else torch.empty(steps + 1, self.classes, device=device)
        self.note_bias()
        kept = self.stream.heldout if self.config.validation else np.arange(len(images.test))
        self.test_labels = (images.train if self.config.validation else images.test).labels[kept]
        self.test_ids = torch.from_numpy(np.array(kept)).to(device)
        self.test_counts = np.bincount(self.test_labels, minlength=self.classes)
        self.boundaries = set(self.stream.boundaries.tolist())
        self.due = due_steps(self.stream, self.config.evaluate_every)
        self.evaluated: list[int] = []
        self.seen: list[NDArray[np.bool_]] = []
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
        return len(self.stream)

    def _score(self, step: Step, candidates: Any) -> Tensor:
        run = self.config
        assert run.lr is not None
        with arithmetic(run.precision), forward_precision(run.precision, self.device):
            return interference(self.learner, step, candidates, lr=run.lr, loss=run.virtual_loss, mode=run.scoring)

    def _describe(self, batch: Batch) -> Tensor:
        with arithmetic(self.config.precision), forward_precision(self.config.precision, self.device):
            return describe(self.net, batch, self.config.description)

    def evaluate(self) -> dict[str, Evaluations]:
        """Test both read-outs on the classes seen so far, and keep what was found."""
        arrived = np.zeros(self.classes, np.bool_)
        arrived[self.stream.labels[self.stream.ids[: self.stream.offsets[self.step]]]] = True
        ids = self.test_ids[torch.from_numpy(arrived[self.test_labels]).to(self.device)]
        predictor = partial(self.learner.predictor, stored=Stored(self.pixels, self._stored))
        for name, net in (("ema", self.readout.net), ("live", self.net)):
            # In data-parallel training every process tests a part, with the statistics that the first will save.
            self.ranks.follow(net.buffers())
            mine = ids[self.ranks.rank :: self.ranks.world]
            correct = correct_per_class(net, self.test, mine, self.classes, self.config.precision, predictor)
            self.correct[name].append(self.ranks.total(correct).cpu().numpy())
        self.evaluated.append(self.step)
        self.seen.append(arrived)
        return self.evaluations()

    def _stored(self) -> Tensor:
        """The ids of what is stored now, in order of slots."""
        return torch.from_numpy(self.feed.stored(self.step)).to(self.device)

    def evaluations(self) -> dict[str, Evaluations]:
        """All evaluations so far, by read-out."""
        steps = np.array(self.evaluated, np.int64)
        shape = (len(steps), self.classes)
        return {
            name: Evaluations(
                steps=steps,
                boundary=np.isin(steps, sorted(self.boundaries)),
                correct=np.array(self.correct[name], np.int64).reshape(shape),
                seen=np.array(self.seen, np.bool_).reshape(shape),
                counts=self.test_counts,
                task_of_class=self.stream.task_of_class,
                stream_counts=self.stream.counts,
            )
            for name in READOUTS
        }

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
            "evaluated": list(self.evaluated),
            "seen": np.array(self.seen, np.bool_).reshape(-1, self.classes),
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
        self.evaluated = [int(step) for step in state["evaluated"]]
        self.seen = list(np.asarray(state["seen"]))
        self.correct = {name: list(np.asarray(rows)) for name, rows in state["correct"].items()}
        self.feed.seek(done)


def _optimizer(run: TrainRun, learner: Learner) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    assert run.lr is not None
    assert run.momentum is not None
    assert run.weight_decay is not None
    if run.optimizer == "adam":
        return torch.optim.Adam(parameters, run.lr, weight_decay=run.weight_decay)
    return torch.optim.SGD(parameters, run.lr, run.momentum, weight_decay=run.weight_decay)
