"""The replay memory: a storage, a retrieval, and the index between them. It holds labels and slots, never data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_int, as_ints
from reprise.core.rng import Random, check_seed
from reprise.memory.given import checked_score, label_list, label_set
from reprise.memory.index import Index
from reprise.memory.moves import Moves, closing
from reprise.memory.plain import original, plain
from reprise.memory.protocols import Retrieval, Schedule, Score, Storage, fresh
from reprise.memory.resolve import as_retrieval, as_storage, is_scored, spec_of
from reprise.memory.storage import External

_RESIZE = "resize"  # the random stream of who goes when the capacity shrinks
NOBODY: tuple[int, ...] = ()

_array, _INT64 = np.array, np.dtype(np.int64)


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

    Examples can be removed again (`remove`, `clear`), the capacity changed (`resize`), and classes kept out of a draw
    (`draw(n, exclude=…)`). With `storage="external"` the caller keeps the examples, and `assign` says what they are.

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
        self.capacity = self._made = as_int(capacity, "capacity", 1)
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
        self._external = self._store if isinstance(self._store, External) else None
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

    def draw(
        self,
        n: int,
        *,
        channel: int = 0,
        score: Score | None = None,
        exclude: Iterable[int] | ArrayLike = NOBODY,
        only: Iterable[int] | ArrayLike | None = None,
    ) -> Draw:
        """At most n stored examples, none twice; empty when the memory is empty or n is 0.

        Labels in `exclude` do not return in this draw; with `only`, no other labels do. Labels that are not stored are
        passed over. When nothing is left, the draw is empty.
        """
        if type(n) is not int or n < 0:
            n = as_int(n, "the replay size", 0)
        if (type(channel) is not int or channel) and as_int(channel, "channel", 0) >= self.draws:
            raise ValueError(f"channel must be 0 to {self.draws - 1}, got {channel!r}")
        if score is not None and self._unscored:
            raise ValueError(f"{self.retrieval_spec!r} does not choose by a score: call draw(n) without one")
        index = self._index
        barred = None if exclude is NOBODY and only is None else self.barred(exclude, only)
        if self._external is not None and score is not None:
            score = self._external.scored_by_name(score)
        if barred or (n and not index.size):
            slots = self._draw_among(channel, n, score, barred or frozenset())
        else:
            slots = self._channels[channel].draw(n, index, score) if n else []
        self.steps += channel == 0
        drawn = _array(slots, _INT64)
        labels = index.labels[drawn]
        return Draw(drawn if self._external is None else self._external.named(slots), labels)

    def barred(
        self, exclude: Iterable[int] | ArrayLike = (), only: Iterable[int] | ArrayLike | None = None
    ) -> set[int]:
        """The stored classes that a draw with these arguments leaves out."""
        residents = self._index.residents
        barred = label_set(exclude, "exclude") & residents
        return barred if only is None else barred | (residents - label_set(only, "only"))

    def _draw_among(self, channel: int, n: int, score: Score | None, barred: Set[int]) -> list[int]:
        draw_among: Callable[..., list[int]] | None = getattr(self._channels[channel], "draw_among", None)
        if draw_among is None and barred:
            raise ValueError(f"{self.retrieval_spec!r} cannot leave classes out: it has no method 'draw_among'")
        if draw_among is None or not n or not self._index.writes:
            return []
        return draw_among(n, self._index, score, barred)  # also when the memory is empty: that all have gone is news

    def store(self, labels: ArrayLike, *, score: Score | None = None) -> NDArray[np.int64]:
        """Offer a batch in order; for each label, the slot it was written to, or −1 when it was not kept.

        A slot may be given twice in one batch: the later example is the one that stays. `score` is for a storage that
        goes by one: `score(slots)` tells of stored examples, `score()` of those that are offered.
        """
        if self._external is not None:
            raise ValueError("'external' storage is your own: say what a slot holds by assign(slots, labels)")
        given = label_list(labels)
        if (score is not None) != self._keeps_by_score:
            does, how = ("keeps", ", score=function of slots") if score is None else ("does not keep", "")
            raise ValueError(f"{self.storage_spec!r} {does} by a score: call store(labels{how})")
        if score is None:
            return _array(self._store.assign(given, self._index), _INT64)
        if not given:
            return np.empty(0, np.int64)  # there is nobody to tell of
        before = {name: self._randoms[name].state_dict() for name in self._kept}
        assign: Callable[..., Any] = self._store.assign
        try:
            return np.array(assign(given, self._index, checked_score(score, len(given), self._index)), np.int64)
        except BaseException:
            for name, state in before.items():
                self._randoms[name].load_state_dict(state)
            raise

    def assign(self, slots: ArrayLike, labels: ArrayLike) -> None:
        """For storage "external": each of your slots now holds an example of its label, or nothing where that is −1.

        Slots are numbers below the capacity in any order, and some may be empty. `draw` names your slots, and `labels`
        has one entry for each slot there is. A slot that is named twice holds what is said last.
        """
        store = self._external
        if store is None:
            raise ValueError(f"{self.storage_spec!r} decides itself what it keeps: call store(labels), not assign")
        where = as_ints(slots, "slots", 0, self.capacity)
        given = as_ints(labels, "labels", -1)
        if len(where) != len(given):
            raise ValueError(f"assign takes one label for each slot, got {len(where)} slots and {len(given)} labels")
        if not len(given) or given.min() >= 0:  # as almost always
            store.put_all(where.tolist(), given.tolist(), self._index)
            return
        for slot, label in zip(where.tolist(), given.tolist(), strict=True):
            if label >= 0:
                store.put_all((slot,), (label,), self._index)
            elif slot in store.inner:
                self._drop([store.inner[slot]])

    def remove(self, *, slots: ArrayLike | None = None, labels: Iterable[int] | ArrayLike | None = None) -> Moves:
        """Remove the examples in these slots, or all examples of these labels; labels not stored are passed over.

        The filled slots are 0 … len(memory)−1 again: the last ones move into the holes, and `Moves` says which. Storage
        fills the empty slots with what comes next. With storage "external" nothing moves: your slots are empty now.
        """
        if (slots is None) == (labels is None):
            raise ValueError("remove takes either slots=… or labels=…")
        if labels is not None:
            classes = label_set(labels, "labels") & self._index.residents
            chosen = [slot for label in classes for slot in self._index.slots(label)]
        else:
            chosen = self._filled(as_ints(() if slots is None else slots, "slots", 0, self.capacity).tolist())
        self._need("remove", "forget")
        return self._drop(sorted(chosen))

    def _filled(self, slots: list[int]) -> list[int]:
        """The slots of the index that these slots stand for, each once; all must be filled."""
        inner = range(self._index.size) if self._external is None else self._external.inner
        if empty := [slot for slot in slots if slot not in inner]:
            raise ValueError(f"slots must be filled, and slot {empty[0]} is empty")
        return list({inner[slot] for slot in slots})

    def clear(self) -> None:
        """Remove everything. Storage begins anew, as with an empty memory, and random streams go on."""
        everything = range(self._index.size)
        self._index.remove(everything, (), ())
        self._store = fresh(self.storage, Storage)
        self._store.start(self._random)
        self._external = self._store if isinstance(self._store, External) else None

    def resize(self, capacity: int) -> Moves:
        """Have room for another number of examples. `Moves` says what went and what moved, as for `remove`.

        A smaller memory gives up uniformly chosen examples, unless its storage has a rule of its own: `fifo` gives up
        the oldest, `brs`, `brs-always` and `cbrs` those of largest classes, "external" the slots that are no more. A
        larger one does not bring back what was let go: what comes next fills the new slots.
        """
        capacity = as_int(capacity, "capacity", 1)
        index, store = self._index, self._external
        self._need("resize", "forget", "resized")
        if store is not None:
            chosen = [inner for name, inner in store.inner.items() if name >= capacity]
        elif (excess := index.size - capacity) > 0:
            random = self._random(_RESIZE)
            release = getattr(self._store, "release", None)
            chosen = random.sample(index.size, excess) if release is None else release(excess, index, random)
            if len({slot for slot in chosen if 0 <= slot < index.size}) != len(chosen) or len(chosen) != excess:
                raise ValueError(f"{self.storage_spec!r} must release {excess} different filled slots, got {chosen}")
        else:
            chosen = []
        moves = self._drop(sorted(chosen))
        if capacity != self.capacity:
            index.resize(capacity)
            self.capacity = capacity
            self._store.resized(index)  # type: ignore[attr-defined]
        return moves

    def _need(self, what: str, *methods: str) -> None:
        for name in methods:
            if not callable(getattr(self._store, name, None)):
                raise ValueError(f"{self.storage_spec!r} does not know how to {what}: it has no method {name!r}")

    def _drop(self, chosen: list[int]) -> Moves:
        """Empty these slots of the index, sorted, and close the holes."""
        sources, targets = closing(chosen, self._index.size)
        removed = np.array(chosen, np.int64)
        moved = np.array([sources, targets], np.int64)
        if self._external is not None:
            removed, moved = np.sort(self._external.named(chosen)), np.empty((2, 0), np.int64)
        if chosen:
            self._store.forget(chosen, list(zip(sources, targets, strict=True)), self._index)  # type: ignore[attr-defined]
            self._index.remove(chosen, sources, targets)
        return Moves(removed, *moved)

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
        """The label of slot 0, 1, …: a copy, `len(memory)` long.

        With storage "external" it is `capacity` long, and −1 stands for an empty slot.
        """
        labels: NDArray[np.int64] = self._index.labels[: self._index.size].copy()
        if self._external is None:
            return labels
        named = np.full(self.capacity, -1, np.int64)
        named[self._external.names] = labels
        return named

    @property
    def classes(self) -> NDArray[np.int64]:
        """The resident classes, sorted."""
        return np.array(sorted(self._index.residents), np.int64)

    def counts(self) -> dict[int, int]:
        """How many examples each resident class holds, by class."""
        return {label: self._index.count(label) for label in sorted(self._index.residents)}

    def __repr__(self) -> str:
        more = f", draws={self.draws}" if self.draws > 1 else ""
        return (
            f"{type(self).__name__}(capacity={self.capacity}, storage={self.storage_spec!r}, "
            f"retrieval={self.retrieval_spec!r}, seed={self.seed}{more})"
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything, in plain numbers, strings, lists and dicts, none shared with the memory.

        JSON and `torch.save` write it, and what `json.loads` or `torch.load` then give is the same state.
        """
        return {
            "version": 1,
            "capacity": self.capacity,
            **({} if self.capacity == self._made else {"made": self._made}),
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
        """Become the memory that gave this state, seed included; on any fault, an error and no change.

        A state of a memory that was resized is taken by one of its first capacity, and by one of its last.
        """
        if not isinstance(state, dict) or "capacity" not in state:
            raise ValueError(f"this is not a memory's state: {type(state).__name__} without a 'capacity'")
        made = state.get("made", state["capacity"])
        same = state["capacity"] if made in (self._made, self.capacity) else self.capacity
        mine = {"version": 1, "capacity": same, "storage": self.storage_spec, "retrieval": self.retrieval_spec}
        for name, value in {**mine, "draws": self.draws}.items():
            if state.get(name) != value:
                raise ValueError(f"the state is of a memory with {name} {state.get(name)!r}, this one has {value!r}")
        try:
            other = type(self).__new__(type(self))
            Memory.__init__(other, state["capacity"], self.storage, self.retrieval, state["seed"], self.draws)
            other._load(state)
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this memory state is damaged: {type(error).__name__}: {error}") from error
        self.__dict__.update(other.__dict__)

    def _load(self, state: dict[str, Any]) -> None:
        self.steps = as_int(state["steps"], "the state's steps", 0)
        self._made = as_int(state.get("made", self.capacity), "the state's first capacity", 1)
        if _RESIZE in state["random"]:
            self._random(_RESIZE)
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
