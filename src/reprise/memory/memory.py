"""The replay memory: a storage, a retrieval, and the index between them. It holds labels and slots, never data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_array, as_int, as_ints
from reprise.core.rng import Random, check_seed
from reprise.memory.index import Index
from reprise.memory.plain import original, plain
from reprise.memory.protocols import Retrieval, Schedule, Score, Storage, fresh
from reprise.memory.resolve import as_retrieval, as_storage, is_scored, spec_of


class Draw:
    """What a draw returned: `slots` and their `labels`, int64 arrays of one length. Falsy when empty."""

    __slots__ = ("labels", "slots")

    def __init__(self, slots: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
        self.slots = slots
        self.labels = labels

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        return f"Draw(slots={self.slots.tolist()}, labels={self.labels.tolist()})"


class Memory:
    """At most `capacity` labelled slots, a rule for who is kept and a rule for who returns.

    Draw first, train, then store what came in: an example is never replayed in the step that brings it.

    >>> memory = Memory(capacity=4, storage="reservoir", retrieval="rpr", seed=0)
    >>> memory.store([0, 1, 1, 2]).tolist()
    [0, 1, 2, 3]
    >>> sorted(memory.draw(3).labels.tolist())
    [0, 1, 2]

    Every random decision has a stream of its own, named after its purpose and derived from the seed. Two
    memories of the same seed that differ in retrieval hold the same examples at every step.

    `draws` is the number of draws a step takes, each with a schedule of its own: `draw(n, channel=1)` is the
    second.

    A memory may be copied and pickled. The copy goes on as this one would have, and neither disturbs the other.
    """

    def __init__(
        self,
        capacity: int,
        storage: str | Storage = "reservoir",
        retrieval: str | Retrieval | Schedule = "rpr",
        seed: int = 0,
        draws: int = 1,
    ) -> None:
        self.capacity = as_int(capacity, "capacity", 1)
        self.seed = check_seed(seed)
        self.storage = as_storage(storage)
        self.retrieval = as_retrieval(retrieval)
        self.draws = as_int(draws, "draws", 1)
        self.steps = 0
        self._randoms: dict[str, Random] = {}
        self._unscored = getattr(self.retrieval, "scored", None) is False
        self._index = Index(self.capacity)
        self._store = fresh(self.storage, Storage)
        self._store.start(self._random)
        self._keeps_by_score = is_scored(self.storage)
        self._kept = tuple(self._randoms)  # the storage's own streams
        self._channels = [self._channel(number) for number in range(self.draws)]

    def _random(self, name: str) -> Random:
        return self._randoms.setdefault(name, Random(self.seed, name))

    def _channel(self, number: int) -> Retrieval:
        channel = fresh(self.retrieval, Retrieval)
        kept = set(self._kept)

        def source(name: str) -> Random:
            if name in kept:
                raise ValueError(f"the random stream {name!r} is the storage's: a retrieval must name its own")
            return self._random(f"{name}/{number}" if number else name)

        channel.start(source, self._index)
        return channel

    def draw(self, n: int, *, channel: int = 0, score: Score | None = None) -> Draw:
        """At most n stored examples, none twice; empty when the memory is empty or n is 0."""
        if type(n) is not int or n < 0:
            n = as_int(n, "the replay size", 0)
        if (type(channel) is not int or channel) and as_int(channel, "channel", 0) >= self.draws:
            raise ValueError(f"channel must be 0 to {self.draws - 1}, got {channel!r}")
        if score is not None and self._unscored:
            raise ValueError(f"{self.retrieval_spec!r} does not choose by a score: call draw(n) without one")
        index = self._index
        slots = self._channels[channel].draw(n, index, score) if n and index.size else []
        self.steps += channel == 0
        drawn = np.array(slots, np.int64)
        return Draw(drawn, index.labels.take(drawn))

    def store(self, labels: ArrayLike, *, score: Score | None = None) -> NDArray[np.int64]:
        """Offer a batch in order; for each label, the slot it was written to, or −1 when it was not kept.

        A slot may be given twice in one batch: the later example is the one that stays. `score` is for a storage that
        goes by one: `score(slots)` tells of stored examples, `score()` of those that are offered.
        """
        given = _labels(labels)
        if (score is not None) != self._keeps_by_score:
            does, how = ("keeps", ", score=function of slots") if score is None else ("does not keep", "")
            raise ValueError(f"{self.storage_spec!r} {does} by a score: call store(labels{how})")
        if score is None:
            return np.array(self._store.assign(given, self._index), np.int64)
        if not given:
            return np.empty(0, np.int64)  # there is nobody to tell of
        before = {name: self._randoms[name].state_dict() for name in self._kept}
        assign: Callable[..., list[int]] = self._store.assign
        try:
            return np.array(assign(given, self._index, _checked(score, len(given), self._index)), np.int64)
        except BaseException:
            for name, state in before.items():
                self._randoms[name].load_state_dict(state)
            raise

    @property
    def scored(self) -> str | None:
        """The spec of the retrieval or storage that asks for a score, so that nothing can be planned; None if none."""
        if is_scored(self.retrieval):
            return self.retrieval_spec
        return self.storage_spec if is_scored(self.storage) else None

    @property
    def storage_spec(self) -> str:
        """The storage's short name."""
        return spec_of(self.storage)

    @property
    def retrieval_spec(self) -> str:
        """The retrieval's short name."""
        return spec_of(self.retrieval)

    def __len__(self) -> int:
        return self._index.size

    @property
    def labels(self) -> NDArray[np.int64]:
        """The label of slot 0, 1, …: a copy, `len(memory)` long."""
        labels: NDArray[np.int64] = self._index.labels[: self._index.size].copy()
        return labels

    @property
    def classes(self) -> NDArray[np.int64]:
        """The resident classes, sorted."""
        return np.array(sorted(self._index.residents), np.int64)

    def counts(self) -> dict[int, int]:
        """How many examples each resident class holds, by class."""
        return {label: self._index.count(label) for label in sorted(self._index.residents)}

    def __repr__(self) -> str:
        return (
            f"Memory(capacity={self.capacity}, storage={self.storage_spec!r}, retrieval={self.retrieval_spec!r}, "
            f"seed={self.seed}{f', draws={self.draws}' if self.draws > 1 else ''})"
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything, in plain numbers, strings, lists and dicts, none shared with the memory.

        JSON and `torch.save` write it, and what `json.loads` or `torch.load` then give is the same state.
        """
        return {
            "version": 1,
            "capacity": self.capacity,
            "storage": self.storage_spec,
            "retrieval": self.retrieval_spec,
            "draws": self.draws,
            "seed": self.seed,
            "steps": self.steps,
            "index": self._index.state_dict(),
            "store": plain(self._store.state_dict()),
            "channels": [plain(channel.state_dict()) for channel in self._channels],
            "random": {name: random.position for name, random in sorted(self._randoms.items())},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the memory that gave this state, seed included; on any fault, an error and no change."""
        if not isinstance(state, dict) or "capacity" not in state:
            raise ValueError(f"this is not a memory's state: {type(state).__name__} without a 'capacity'")
        mine = {"version": 1, "capacity": self.capacity, "storage": self.storage_spec, "retrieval": self.retrieval_spec}
        for name, value in {**mine, "draws": self.draws}.items():
            if state.get(name) != value:
                raise ValueError(f"the state is of a memory with {name} {state.get(name)!r}, this one has {value!r}")
        try:
            other = Memory(self.capacity, self.storage, self.retrieval, state["seed"], self.draws)
            other._load(state)
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this memory state is damaged: {type(error).__name__}: {error}") from error
        self.__dict__ = other.__dict__

    def _load(self, state: dict[str, Any]) -> None:
        self.steps = as_int(state["steps"], "the state's steps", 0)
        self._index.load_state_dict(state["index"])
        self._store.load_state_dict(original(state["store"]))
        for channel, saved in zip(self._channels, state["channels"], strict=True):
            channel.load_state_dict(original(saved))
        if set(state["random"]) != set(self._randoms):
            raise ValueError(f"the state has random streams {sorted(state['random'])}, not {sorted(self._randoms)}")
        for name, random in self._randoms.items():
            random.load_state_dict({"seed": self.seed, "name": name, "position": state["random"][name]})

    def __getstate__(self) -> tuple[Storage, Retrieval, dict[str, Any]]:
        return self.storage, self.retrieval, self.state_dict()

    def __setstate__(self, saved: tuple[Storage, Retrieval, dict[str, Any]]) -> None:
        # Made anew, so that its parts watch each other and not those of the memory that was copied.
        storage, retrieval, state = saved
        Memory.__init__(self, state["capacity"], storage, retrieval, state["seed"], state["draws"])
        self._load(state)


def _checked(score: Score, incoming: int, index: Index) -> Score:
    """The score, which tells of what was there before the batch, with its answers checked."""
    writes, stored = index.writes, index.size

    def checked(slots: ArrayLike | None = None) -> NDArray[np.float64]:
        if index.writes != writes:
            raise RuntimeError("a storage asks for scores before it writes: what a slot held may be gone already")
        given = None if slots is None else as_ints(slots, "slots", 0, stored)
        values = np.asarray(score() if given is None else score(given), np.float64)
        count = incoming if given is None else len(given)
        if values.ndim not in (1, 2) or len(values) != count or not np.isfinite(values).all():
            raise ValueError(f"the score must give finite numbers for each of {count} examples, got {values!r}")
        return values if values.ndim == 2 else values[:, None]

    return checked


def _labels(labels: ArrayLike) -> list[int]:
    array = as_array(labels, "labels")
    if array.ndim == 1 and array.dtype.kind in "iu":
        values: list[int] = array.tolist()
        if not values or (min(values) >= 0 and array.dtype.kind == "i"):
            return values
    checked: list[int] = as_ints(array, "labels").tolist()
    return checked
