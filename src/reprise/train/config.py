"""What one training run is: everything that decides its result, checked before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import torch

from reprise.core.arguments import as_float, as_int
from reprise.core.files import digest
from reprise.core.rng import check_seed
from reprise.learners import Learner, LearnerContext, find_learner, hyperparameters, make_learner
from reprise.learners.learner import PASSES
from reprise.memory import Memory, as_retrieval, as_storage, is_scored
from reprise.nets.build import from_timm
from reprise.nets.heads import HEADS
from reprise.nets.resnet import ResNet18
from reprise.streams.options import Order, StreamOptions
from reprise.train.augment import AUGMENTS
from reprise.train.scoring import DESCRIPTIONS, MODES, VIRTUAL_LOSSES

PRECISIONS = ("fp32", "tf32", "bf16")
OPTIMIZERS = ("sgd", "adam")
_WHOLE = {
    **dict.fromkeys(("buffer", "width", "batch", "tasks", "size", "per_class", "test_per_class", "ema"), 1),
    **dict.fromkeys(("replay", "evaluate_every"), 0),
}
_REAL = ("imbalance", "disjoint", "blur", "holdout", "lr", "momentum", "weight_decay")


@dataclass(frozen=True)
class TrainRun:
    """One training run; two runs are equal when they would give the same result on the same images and machine.

    What is left None is filled in: the optimiser's settings are the learner's own, `augment` is the data set's.
    `hyper` is completed by the learner's defaults.
    """

    dataset: str = "glyphs"
    imbalance: float = 1.0
    learner: str = "er-ace"
    hyper: Mapping[str, Any] = field(default_factory=dict)
    storage: str = "reservoir"
    retrieval: str = "rpr"
    buffer: int = 5120
    replay: int = 8
    seed: int = 0
    backbone: str = "resnet18"
    width: int = 64
    head: str = "cosine"
    pretrained: bool = False
    batch: int = 32
    tasks: int = 10
    order: Order = "label"
    disjoint: float = 1.0
    blur: float = 0.0
    validation: bool = False
    size: int | None = None
    """Side to which images are resized; their own unless told."""
    holdout: float | None = None
    """Share of every class to test on, for a folder without a test part."""
    per_class: int | None = None
    """At most so many training images of each class, the first ones; all unless told."""
    test_per_class: int | None = None
    """At most so many test images of each class, the first ones; all unless told."""
    optimizer: str | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    augment: str | None = None
    passes: str = "separate"
    precision: str = "fp32"
    ema: int = 1024
    """Examples that the averaged read-out looks back over: a step of n examples moves it by n / ema."""
    evaluate_every: int = 0
    """Steps between evaluations, beside those at task boundaries; 0 for none."""
    virtual_loss: str = "plain"
    """For `mir:N`: the loss of the virtual step."""
    scoring: str = "train"
    """For `mir:N`: how BatchNorm behaves while candidates are scored."""

    def __post_init__(self) -> None:
        kind = find_learner(self.learner)
        given = {
            "hyper": MappingProxyType(hyperparameters(self.learner, self.hyper)),
            "augment": ("crop" if self.dataset == "glyphs" else "crop+flip") if self.augment is None else self.augment,
            **{name: value for name, value in asdict(kind.descent).items() if getattr(self, name) is None},
        }
        for name, value in {**given, **_plain({**vars(self), **given})}.items():
            object.__setattr__(self, name, value)
        self._check(kind)

    def _check(self, kind: type[Learner]) -> None:
        for name, allowed in [
            ("head", tuple(HEADS)),
            ("optimizer", OPTIMIZERS),
            ("precision", PRECISIONS),
            ("passes", PASSES),
            ("augment", AUGMENTS),
            ("virtual_loss", VIRTUAL_LOSSES),
            ("scoring", MODES),
        ]:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("lr", "momentum", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError(f"holdout must be a share between 0 and 1, got {self.holdout}")
        if not isinstance(self.pretrained, bool):
            raise TypeError(f"pretrained must be True or False, got {self.pretrained!r}")
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum is for sgd; adam has its own, got momentum={self.momentum}")
        if from_timm(self.backbone) and self.width != 64:
            raise ValueError(f"width is for 'resnet18'; the backbone {self.backbone!r} has its own, got {self.width}")
        _try_learner(self.learner, tuple(self.hyper.items()))
        self.stream_options  # noqa: B018 - checks its values
        self.memory()
        if self.description and self.description not in DESCRIPTIONS:
            raise ValueError(
                f"storage {self.storage!r} says scored = {self.description!r}; a run can tell it of "
                f"{' or '.join(DESCRIPTIONS)}"
            )
        choosing = is_scored(as_retrieval(self.retrieval))
        if choosing and kind.draws != 1:
            raise ValueError(
                f"learner {self.learner!r} takes {kind.draws} replay batches a step; {self.retrieval!r} chooses one, "
                "for a learner that takes one"
            )
        if choosing and not self.lr:
            raise ValueError(f"lr must be above 0 for {self.retrieval!r}, which looks at a step of that size, got 0")

    @property
    def scored(self) -> bool:
        """Whether retrieval or storage asks the network, so that no tape can be planned."""
        return bool(self.description) or is_scored(as_retrieval(self.retrieval))

    @property
    def description(self) -> str:
        """What storage asks of the network, `features` or `gradients`; empty if it asks for nothing."""
        return str(getattr(as_storage(self.storage), "scored", "") or "")

    @property
    def draws(self) -> int:
        """Replay batches a step takes."""
        return find_learner(self.learner).draws

    @property
    def stream_options(self) -> StreamOptions:
        return StreamOptions(
            self.imbalance, self.batch, self.tasks, self.order, self.validation, self.disjoint, self.blur
        )

    def memory(self) -> Memory:
        """The replay memory at the start of the run."""
        return Memory(self.buffer, self.storage, self.retrieval, self.seed, max(self.draws, 1))

    def configuration(self) -> dict[str, Any]:
        """All that decides the run's result but its seed and its images, as plain JSON values."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "seed"}
        return {"kind": "train", **settings, "hyper": dict(self.hyper)}

    def identity(self, data: Mapping[str, str]) -> str:
        """The hash of all that decides the result: configuration, seed, and the fingerprints of the images."""
        return digest([self.configuration(), self.seed, dict(data)])[:24]

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], seed: int) -> TrainRun:
        """The run that a record is of."""
        settings = {name: value for name, value in configuration.items() if name != "kind"}
        return cls(**settings, seed=seed)

    def with_seed(self, seed: int) -> TrainRun:
        """The same run under another seed."""
        return replace(self, seed=seed)

    def __hash__(self) -> int:
        return hash(digest([self.configuration(), self.seed]))

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainRun.from_configuration, (self.configuration(), self.seed)  # a read-only mapping cannot be pickled


@cache
def _try_learner(name: str, hyper: tuple[tuple[str, Any], ...]) -> None:
    """Make the learner around a network of no size, so that a wrong hyper-parameter is found before images are read."""
    with torch.device("meta"):
        net = ResNet18(2, "cosine", 1)
    make_learner(name, net, LearnerContext(2, 1), **dict(hyper))


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that are numbers, checked, as Python's own: 1 and 1.0 and NumPy's ones are the same run."""
    plain: dict[str, Any] = {"seed": check_seed(settings["seed"])}
    for name, least in _WHOLE.items():
        if settings[name] is not None:
            plain[name] = as_int(settings[name], name.replace("_", " "), least)
    for name in _REAL:
        if settings[name] is not None:
            plain[name] = as_float(settings[name], name)
    return plain
