"""What one run is: everything that decides its result, checked before it begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from reprise.core.arguments import as_int
from reprise.core.extras import NotInstalled, not_installed
from reprise.core.files import digest
from reprise.core.rng import check_seed
from reprise.memory import Memory, as_retrieval, as_storage, is_scored
from reprise.memory.resolve import spec_of
from reprise.runs.settings import (
    DESCRIPTIONS,
    DataSettings,
    DescentSettings,
    EvaluationSettings,
    LearnerSettings,
    MemorySettings,
    NetworkSettings,
    ReadoutSettings,
    Section,
    StillSettings,
    StreamSettings,
    options,
)
from reprise.streams.datasets import tail_name
from reprise.streams.options import StreamOptions

PER_CLASS = 50  # examples of a class in a balanced memory that stands still, unless a buffer is given


@dataclass(frozen=True)
class Run:
    """One run; two runs are equal when they would give the same result on the same images and machine.

    With a learner it trains, and what is left None is filled in: the network, the descent and the rest are the usual
    ones, the optimiser's settings are the learner's own. Without a learner it is an audit: it plans a replay sequence
    from labels alone and measures it.

    >>> run = Run.of(dataset="cifar100", imbalance=10, retrieval="iid", seed=3)
    >>> run.name
    'er-ace on cifar100-lt10, reservoir 5120, iid 8, seed 3'
    >>> run.replace(retrieval="rpr").memory.retrieval
    'rpr'
    >>> Run.of(learner=None, classes=100, steps=3000).name
    '100 classes that stay, reservoir 5000, rpr 8, seed 0'
    """

    seed: int = 0
    data: DataSettings | None = field(default_factory=DataSettings)
    stream: StreamSettings | StillSettings = field(default_factory=StreamSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    learner: LearnerSettings | None = None
    network: NetworkSettings | None = None
    descent: DescentSettings | None = None
    readout: ReadoutSettings | None = None
    evaluation: EvaluationSettings | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        self._set("memory", storage=_one_spelling(self.memory.storage, as_storage))
        self._set("memory", retrieval=_one_spelling(self.memory.retrieval, as_retrieval))
        if isinstance(self.stream, StreamSettings) == (self.data is None):
            raise ValueError(
                "a run is of a data set that arrives, or of a memory that stands still: give one of the two"
            )
        if self.learner is None:
            self._check_audit()
        else:
            self._fill_in(self.learner)
        if isinstance(self.stream, StreamSettings):
            self.stream_options  # noqa: B018 - checks its values
        self.make_memory()

    def _check_audit(self) -> None:
        for name in ("network", "descent", "readout", "evaluation"):
            if getattr(self, name) is not None:
                raise ValueError(f"a run without a learner trains nothing, so it has no {name}")
        for name in () if self.data is None else ("holdout", "per_class"):
            if (value := getattr(self.data, name)) is not None:
                raise ValueError(f"an audit is of all labels of its data set, got {name}={value!r}")
        self._set("memory", draws=as_int(1 if self.memory.draws is None else self.memory.draws, "draws", 1))
        if self.scored:
            raise ValueError(
                f"{self.make_memory().scored!r} asks a model, so its replay cannot be known before training; any other "
                "can be audited"
            )
        if isinstance(self.stream, StillSettings) and self.memory.buffer % self.stream.classes:
            raise ValueError(
                f"a balanced memory of {self.stream.classes} classes cannot hold {self.memory.buffer} examples evenly"
            )

    def _fill_in(self, learner: LearnerSettings) -> None:
        """Complete a run that trains, and check what only its learner can tell."""
        try:
            from reprise.learners import find_learner, hyperparameters
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise NotInstalled(not_installed("training needs torch", "train"), name="torch") from None
        if self.data is None:
            raise ValueError("a learner needs images that arrive; a memory that stands still can only be audited")
        kind = find_learner(learner.name)
        for name, section in _TRAINING.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, section())
        assert self.descent is not None
        assert self.network is not None
        self._set("learner", hyper=hyperparameters(learner.name, learner.hyper))
        own = {name: value for name, value in vars(kind.descent).items() if getattr(self.descent, name) is None}
        self._set("descent", **own)
        if self.data.augment is None:
            self._set("data", augment=_usual_augment(self.data))
        if self.memory.draws not in (None, kind.draws):
            raise ValueError(
                f"learner {learner.name!r} takes {kind.draws} replay batches a step, got {self.memory.draws}"
            )
        self._set("memory", draws=kind.draws)
        self._check_training(kind.draws)

    def _check_training(self, draws: int) -> None:
        assert self.learner is not None
        assert self.descent is not None
        assert self.network is not None
        if self.descent.optimizer == "adam" and self.descent.momentum:
            raise ValueError(f"momentum is for sgd; adam has its own, got momentum={self.descent.momentum}")
        from reprise.nets.build import takes_width

        if self.network.width != 64 and not takes_width(self.network.name):
            raise ValueError(
                f"width is for 'resnet18'; the backbone {self.network.name!r} has its own, got {self.network.width}"
            )
        _try_learner(self.learner)
        if self.description and self.description not in DESCRIPTIONS:
            raise ValueError(
                f"storage {self.memory.storage!r} says scored = {self.description!r}; a run can tell it of "
                f"{' or '.join(DESCRIPTIONS)}"
            )
        retrieval = self.memory.retrieval
        if self.chooses and draws != 1:
            raise ValueError(
                f"learner {self.learner.name!r} takes {draws} replay batches a step; {retrieval!r} chooses one, for a "
                "learner that takes one"
            )
        if self.chooses and not self.descent.lr:
            raise ValueError(f"lr must be above 0 for {retrieval!r}, which looks at a step of that size, got 0")

    def _set(self, section: str, **values: Any) -> None:
        object.__setattr__(self, section, dataclasses.replace(getattr(self, section), **values))

    @classmethod
    def of(cls, **settings: Any) -> Run:
        """The run of these settings, each under the name that the command line has for it; without others, it trains.

        `learner=None` makes it an audit, and `classes` and `steps` one of a memory that stands still.
        """
        still = {name: settings.pop(name) for name in ("classes", "steps") if settings.get(name) is not None}
        if still and not ({"classes", "steps"} <= still.keys()):
            raise ValueError(f"classes and steps go together, got {', '.join(still)} alone")
        given: dict[str, Any] = {"seed": settings.pop("seed", 0)}
        if still:
            given |= {"data": None, "stream": StillSettings(**still)}
            settings.setdefault("buffer", PER_CLASS * given["stream"].classes)
        audit = "learner" in settings and settings["learner"] is None
        sections = _by_section({name: value for name, value in settings.items() if not (audit and name == "learner")})
        if not audit:
            sections.setdefault("learner", {})
        for name, values in sections.items():
            if name in given:
                raise ValueError(f"a memory that stands still has no {name} settings, got {', '.join(values)}")
            given[name] = SECTIONS[name](**values)
        return cls(**given)

    def replace(self, **settings: Any) -> Run:
        """This run with other settings, each under its name on the command line; what follows from them is anew."""
        given: dict[str, Any] = {"seed": settings.pop("seed", self.seed)}
        changes = _by_section(settings)
        for name, values in self._follows(changes).items():
            changes[name] = {**values, **changes.get(name, {})}
        for name, values in changes.items():
            if getattr(self, name) is None:
                raise ValueError(f"this run has no {name} settings, got {', '.join(values)}")
            given[name] = dataclasses.replace(getattr(self, name), **values)
        return dataclasses.replace(self, **given)

    def _follows(self, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """What was filled in for this learner and data set, and is to be filled in again if they change."""
        found: dict[str, dict[str, Any]] = {}
        if (
            self.data is not None
            and "name" in changes.get("data", {})
            and self.data.augment == _usual_augment(self.data)
        ):
            found["data"] = {"augment": None}
        if self.learner is not None and changes.get("learner", {}).get("name", self.learner.name) != self.learner.name:
            from reprise.learners import find_learner

            own = vars(find_learner(self.learner.name).descent)
            found["descent"] = {name: None for name, value in own.items() if getattr(self.descent, name) == value}
            found |= {"learner": {"hyper": {}}, "memory": {"draws": None}}
        return found

    @property
    def trains(self) -> bool:
        """Whether it has a learner; without one it is an audit."""
        return self.learner is not None

    @property
    def scored(self) -> bool:
        """Whether the memory asks the network, so that no tape can be planned."""
        return bool(self.description) or self.chooses

    @property
    def chooses(self) -> bool:
        """Whether retrieval asks the network which examples to replay."""
        return is_scored(as_retrieval(self.memory.retrieval))

    @property
    def description(self) -> str:
        """What storage asks of the network, `features` or `gradients`; empty if it asks for nothing."""
        return str(getattr(as_storage(self.memory.storage), "scored", "") or "")

    @property
    def draws(self) -> int:
        """Replay batches a step takes."""
        assert self.memory.draws is not None
        return self.memory.draws

    @property
    def replay_size(self) -> int:
        """Examples that each replay batch brings; 0 for a learner that takes none."""
        return self.memory.replay if self.draws else 0

    @property
    def stream_options(self) -> StreamOptions:
        stream, data = self.stream, self.data
        assert isinstance(stream, StreamSettings)
        assert data is not None
        return StreamOptions(
            stream.imbalance,
            stream.batch,
            stream.tasks,
            stream.order,
            data.validation,
            stream.disjoint,
            stream.blur,
            stream.imbalance_seed,
        )

    def make_memory(self) -> Memory:
        """The replay memory at the start of the run."""
        memory = self.memory
        return Memory(memory.buffer, memory.storage, memory.retrieval, self.seed, max(self.draws, 1))

    @property
    def stream_name(self) -> str:
        """What arrives: the data set and its tail, or how many classes stay."""
        if isinstance(self.stream, StillSettings):
            return "one class that stays" if self.stream.classes == 1 else f"{self.stream.classes:,} classes that stay"
        return Path(self.stream_path).name

    @property
    def stream_path(self) -> str:
        """The stream's name as `label_stream` takes it: a folder of images is named by its path."""
        assert self.data is not None
        assert isinstance(self.stream, StreamSettings)
        return f"{self.data.name}-{tail_name(self.stream.imbalance)}"

    @property
    def name(self) -> str:
        """The run in a few words; settings that are seldom changed are not among them."""
        memory = self.memory
        learner = "" if self.learner is None else f"{self.learner.name} on "
        kept = f", {memory.storage} {memory.buffer}, {memory.retrieval} {memory.replay}" if self.draws else ""
        return f"{learner}{self.stream_name}{kept}, seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """The whole description as plain JSON values; sections that the run does not have are left out."""
        found: dict[str, Any] = {"seed": self.seed}
        for one in fields(self):
            section = getattr(self, one.name)
            if isinstance(section, Section):
                found[one.name] = section.to_dict()
        return found

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Run:
        """The run that `to_dict` described; what is not given is the default. A wrong name is an error."""
        given: dict[str, Any] = {}
        for name, values in description.items():
            if name == "seed":
                given[name] = values
                continue
            if name not in SECTIONS:
                raise ValueError(f"a run has no section {name!r}; it has seed, {', '.join(SECTIONS)}")
            if not isinstance(values, Mapping):
                raise TypeError(f"the section {name!r} must hold settings, got {values!r}")
            still = name == "stream" and {"classes", "steps"} & values.keys()
            section = StillSettings if still else SECTIONS[name]
            known = [one.name for one in fields(section)]  # type: ignore[arg-type]
            if unknown := [setting for setting in values if setting not in known]:
                raise ValueError(f"the section {name!r} has no setting {unknown[0]!r}; it has {', '.join(known)}")
            given[name] = section(**values)
            if still:
                given.setdefault("data", None)
        return cls(**given)

    def identity(self, data: Mapping[str, str]) -> str:
        """The hash of all that decides the result: this description, and the fingerprints of the data.

        A setting that is unset is no part of it: so a version that adds one knows the runs that were made before.
        """
        return digest([_without_unset(self.to_dict()), dict(data)])[:24]

    def flat(self) -> dict[str, Any]:
        """All settings side by side, each under its name on the command line."""
        found: dict[str, Any] = {"seed": self.seed}
        for one in fields(self):
            section = getattr(self, one.name)
            if isinstance(section, Section):
                found |= {option: getattr(section, setting.name) for option, setting in options(type(section))}
        return found


def _sections() -> dict[str, type[Section]]:
    found: dict[str, type[Section]] = {}
    for name, hint in get_type_hints(Run).items():
        kinds = [kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type) and issubclass(kind, Section)]
        if kinds:
            found[name] = kinds[0]
    return found


SECTIONS = _sections()
"""The sections of a run by name; that of a stream may also be `StillSettings`."""
_TRAINING: dict[str, type[Section]] = {name: SECTIONS[name] for name in ("network", "descent", "readout", "evaluation")}


def flat_names() -> dict[str, tuple[str, str]]:
    """For each name on the command line, the section and the setting that it stands for."""
    return {option: (name, one.name) for name, section in SECTIONS.items() for option, one in options(section)}


def _one_spelling(text: str, read: Callable[[str], object]) -> str:
    """A spec as its policy writes it, so that `reused:04` is `reused:4`; as given, if that could not be read again."""
    policy = read(text)
    spelt = spec_of(policy)
    try:
        return spelt if read(spelt) == policy else text
    except ValueError:
        return text


def _without_unset(description: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: _without_unset(value) if isinstance(value, dict) else value for name, value in description.items()}
    return {name: value for name, value in found.items() if value is not None}


def _usual_augment(data: DataSettings) -> str:
    return "crop" if data.name == "glyphs" else "crop+flip"  # a glyph that is turned round is another one


def _by_section(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    known = flat_names()
    found: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"a run has no setting {name!r}; it has seed, {', '.join(known)}")
        section, setting = known[name]
        found.setdefault(section, {})[setting] = value
    return found


@cache
def _try_learner(learner: LearnerSettings) -> None:
    """Make the learner around a network of no size, so that a wrong hyper-parameter is found before images are read."""
    import torch

    from reprise.learners import LearnerContext, make_learner
    from reprise.nets.resnet import ResNet18

    with torch.device("meta"):
        net = ResNet18(2, "cosine", 1)
    make_learner(learner.name, net, LearnerContext(2, 1), **learner.hyper)
