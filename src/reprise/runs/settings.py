"""The settings of a run, section by section. Each is declared once: its kind, its default, what it means.

Values are checked from these declarations, files are read and written by them, and so is the command line made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, get_args

from reprise.core.arguments import as_float, as_int
from reprise.runs.augmentation import AUGMENTS
from reprise.streams.options import Order

ORDERS: tuple[str, ...] = get_args(Order)
PRECISIONS = ("fp32", "tf32", "bf16")
OPTIMIZERS = ("sgd", "adam")
PASSES = ("separate", "joint")
HEADS = ("cosine", "linear")
VIRTUAL_LOSSES = ("plain", "own")
SCORING = ("train", "eval")
DESCRIPTIONS = ("features", "gradients")
"""What a storage may ask of the network."""


@dataclass(frozen=True)
class Setting:
    """What is known of a setting beside its default."""

    kind: type
    help: str
    metavar: str
    option: str
    """Its name where all settings stand side by side, as on the command line; its own name unless told."""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    unset: str = ""
    """What None stands for, in a few words; empty where None is not allowed."""

    def check(self, value: Any, name: str) -> Any:
        """The value as Python's own kind, so that 1, 1.0 and NumPy's are the same run; or say what is wrong with it."""
        if value is None and self.unset:
            return None
        if self.kind is int:
            return as_int(value, name.replace("_", " "), -(2**63) if self.least is None else int(self.least))
        if self.kind is float:
            number = as_float(value, name)
            if self.least is not None and number < self.least:
                raise ValueError(f"{name} must be {self.least:g} or more, got {number}")
            if self.most is not None and number > self.most:
                raise ValueError(f"{name} must be {self.most:g} or less, got {number}")
            return number + 0.0  # there is one nought, not two
        if self.kind is bool and not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
        if self.kind is str and not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(self.choices)}, got {value!r}")
        return value


def _declare(kind: type, default: Any, help: str, metavar: str, option: str = "", **more: Any) -> Any:
    return field(default=default, metadata={"setting": Setting(kind, help, metavar, option, **more)})


def whole(
    default: int | None, help: str, metavar: str = "N", *, least: int = 1, unset: str = "", option: str = ""
) -> Any:
    """A setting that is a whole number."""
    return _declare(int, default, help, metavar, option, least=least, unset=unset)


def real(
    default: float | None,
    help: str,
    metavar: str,
    *,
    least: float | None = None,
    most: float | None = None,
    unset: str = "",
) -> Any:
    """A setting that is a number."""
    return _declare(float, default, help, metavar, least=least, most=most, unset=unset)


def word(default: str, help: str, metavar: str, option: str = "") -> Any:
    """A setting that is a name or a spec."""
    return _declare(str, default, help, metavar, option)


def choice(default: str | None, choices: tuple[str, ...], help: str, unset: str = "") -> Any:
    """A setting that is one of a few words."""
    return _declare(str, default, help, "|".join(choices), choices=choices, unset=unset)


def flag(help: str) -> Any:
    """A setting that is off unless asked for."""
    return _declare(bool, False, help, "")


def setting_of(one: Field[Any]) -> Setting:
    found: Setting = one.metadata["setting"]
    return found


class Section:
    """A part of a description. Its fields are settings; they are checked when it is made."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            if "setting" in one.metadata:
                declared = setting_of(one)
                value = declared.check(getattr(self, one.name), declared.option or one.name)
                object.__setattr__(self, one.name, value)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


S = TypeVar("S", bound=Section)


def options(section: type[Section]) -> Iterator[tuple[str, Field[Any]]]:
    """The name of each setting where all stand side by side, and its field."""
    for one in fields(section):  # type: ignore[arg-type]
        yield (setting_of(one).option or one.name), one


@dataclass(frozen=True)
class DataSettings(Section):
    """Which images are learned from and tested on."""

    name: str = word(
        "glyphs", "Data set: a name that reprise data list lists, or a folder of images.", "NAME|DIR", "dataset"
    )
    validation: bool = flag("Hold out a tenth of the training images and test on it, never on the test images.")
    augment: str | None = choice(None, AUGMENTS, "What is done to training images.", "crop+flip, crop for glyphs")
    size: int | None = whole(None, "Side to which images are resized.", "PIXELS", unset="their own")
    holdout: float | None = real(
        None, "Share of every class to test on, for a folder without a test part.", "SHARE", unset="none"
    )
    per_class: int | None = whole(None, "Training images of each class, the first ones.", unset="all")
    test_per_class: int | None = whole(None, "Test images of each class, the first ones.", unset="all")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError(f"holdout must be a share between 0 and 1, got {self.holdout}")


@dataclass(frozen=True)
class StreamSettings(Section):
    """The order in which images arrive."""

    imbalance: float = real(
        1.0, "How long the tail is: the largest class of a task over the smallest; 1 is balanced.", "FACTOR"
    )
    imbalance_seed: int | None = whole(
        None, "Which classes of a long tail are rare.", "SEED", least=0, unset="the run's seed"
    )
    batch: int = whole(32, "Examples that come in a step.")
    tasks: int = whole(10, "Tasks that the classes are split into.")
    order: Order = choice("label", ORDERS, "Order in which classes come.")  # noqa: RUF009 - the choices are computed, not the default
    disjoint: float = real(1.0, "Share of classes that stay whole in their task.", "SHARE")
    blur: float = real(0.0, "Share of the other classes' images that is spread over the other tasks.", "SHARE")


@dataclass(frozen=True)
class StillSettings(Section):
    """In place of a stream: a balanced memory that stands still."""

    classes: int = whole(100, "Instead of a stream: a balanced memory of so many classes that stands still.", "C")
    steps: int = whole(3000, "How long it stands still; with classes only.", "T")


@dataclass(frozen=True)
class MemorySettings(Section):
    """Who is kept, and when classes return."""

    storage: str = word("reservoir", "Who is kept: reservoir, brs, brs-always, cbrs, fifo.", "SPEC")
    retrieval: str = word(
        "rpr",
        "When classes return: uniform, iid, fixed, rpr, reused:K, hybrid:S, window:W, deadline:S, frozen-pass, "
        "frozen-iid; a schedule may end in +pass; or mir:N, by the network's losses.",
        "SPEC",
    )
    buffer: int = whole(5120, "Examples that the memory holds.")
    replay: int = whole(8, "Examples replayed a step.", "B", least=0)
    draws: int | None = whole(
        None, "Replay batches a step, each by a schedule of its own.", least=0, unset="the learner's, or 1"
    )
    virtual_loss: str = choice(
        "plain", VIRTUAL_LOSSES, "For mir:N: the loss of the virtual step, the plain one or the learner's own."
    )
    scoring: str = choice("train", SCORING, "For mir:N: how BatchNorm behaves while candidates are scored.")


class Hyper(Mapping[str, Any]):
    """Hyper-parameters by name: a mapping that does not change, so that it can be hashed."""

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._items.items())))

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class LearnerSettings(Section):
    """The loss."""

    name: str = word(
        "er-ace",
        "Learner: er, er-ace, der, der++, der++-ace, refresh, ocm, none (no replay) or joint (all at once).",
        "NAME",
        "learner",
    )
    hyper: Mapping[str, Any] = field(
        default_factory=Hyper,
        metadata={
            "setting": Setting(
                Mapping, "Its hyper-parameters, such as alpha=0.3,beta=0.5.", "NAME=VALUE,...", "", unset="its own"
            )
        },
    )
    passes: str = choice(
        "separate", PASSES, "Incoming and replay batches through the network one at a time, or as one."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.hyper, Mapping):
            raise TypeError(f"hyper must be a mapping of names to values, got {self.hyper!r}")
        object.__setattr__(self, "hyper", Hyper(self.hyper))


@dataclass(frozen=True)
class NetworkSettings(Section):
    """The network."""

    name: str = word("resnet18", "Network: resnet18, efficientnet_lite0 to 2, or any of timm's.", "NAME", "backbone")
    width: int = whole(64, "Channels of resnet18's first layer; the others follow.", "W")
    head: str = choice("cosine", HEADS, "The network's last layer.")
    pretrained: bool = flag("Begin with published weights.")
    bn_momentum: float | None = real(
        None,
        "BatchNorm's momentum: how far a batch moves the running statistics that tests use, from 0 to 1.",
        "M",
        least=0,
        most=1,
        unset="the network's",
    )


@dataclass(frozen=True)
class DescentSettings(Section):
    """How weights are moved."""

    optimizer: str | None = choice(None, OPTIMIZERS, "Optimiser.", "the learner's")
    lr: float | None = real(None, "Learning rate.", "RATE", least=0, unset="the learner's")
    momentum: float | None = real(None, "Momentum of sgd.", "M", least=0, unset="the learner's")
    weight_decay: float | None = real(None, "Weight decay.", "RATE", least=0, unset="the learner's")
    precision: str = choice("fp32", PRECISIONS, "Arithmetic of the network's passes.")


@dataclass(frozen=True)
class ReadoutSettings(Section):
    """What is tested beside the live network."""

    ema: int = whole(
        1024,
        "Examples that the averaged read-out looks back over: a step of n examples moves it by n / ema.",
        "EXAMPLES",
    )


@dataclass(frozen=True)
class EvaluationSettings(Section):
    """When the read-outs are tested, beside task boundaries."""

    every: int = whole(
        0, "Test also every so many steps, not at task boundaries alone; 0 for never.", "STEPS", least=0,
        option="evaluate_every",
    )  # fmt: skip
