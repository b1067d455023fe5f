"""What each step is fed: the batches of a planned tape, or batches drawn live where the network is asked."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise.learners import Batch, Step
from reprise.memory import is_scored
from reprise.runs.augmentation import PAD
from reprise.runs.errors import diverged
from reprise.runs.plan import RunPlan
from reprise.streams import LabelStream
from reprise.tape import Tape
from reprise.train.pixels import Pixels
from reprise.train.ranks import Ranks

Ids = NDArray[np.int64]
Score = Callable[[Step, Batch], Tensor]
Describe = Callable[[Batch], Tensor]


class Feed(ABC):
    """The steps of a run in order; in data-parallel training, this process's part of every batch.

    Crops and flips are planned for every example of every batch.
    """

    def __init__(self, plan: RunPlan, incoming: Ids, pixels: Pixels, classes: int, ranks: Ranks) -> None:
        assert plan.crops is not None
        assert plan.replay_crops is not None
        self.pixels = pixels
        self.ranks = ranks
        self.arrivals = np.count_nonzero(incoming >= 0, axis=1).tolist()
        self.incoming = torch.from_numpy(incoming.copy()).to(pixels.device)
        self.crops = torch.from_numpy(plan.crops).to(pixels.device)
        self.replay_crops = torch.from_numpy(plan.replay_crops).to(pixels.device)
        self.classes = classes
        self.seen = torch.zeros(classes, dtype=torch.bool, device=pixels.device)

    @abstractmethod
    def step(self, number: int) -> Step:
        """What this step trains on. Steps are asked for in order, each once."""

    @abstractmethod
    def close(self, step: Step) -> None:
        """The network has learned this step: store what came in."""

    @abstractmethod
    def tape(self) -> Tape:
        """The whole replay sequence, once the last step is closed."""

    @abstractmethod
    def stored(self, number: int) -> Ids:
        """The ids of what is stored, in order of slots, once this many steps are closed and no more."""

    @abstractmethod
    def moved(self, number: int) -> tuple[Ids, Ids, Ids]:
        """Of a step that is closed: what came in, what was replayed, and the slots written; −1 is padding."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]: ...

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def seek(self, number: int) -> None:
        """Go on from this step: recall what had been seen before it."""
        self.seen.zero_()
        earlier = self.incoming[:number]
        self.seen[self.pixels.labels[earlier[earlier >= 0]]] = True

    def _arrived(self, number: int) -> Step:
        """The step without its replay."""
        ids = self.incoming[number, : self.arrivals[number]]
        present = torch.zeros_like(self.seen).index_fill_(0, self.pixels.labels[ids], True)
        self.seen |= present
        incoming = self._batch(ids, self.crops[number])
        return Step(number, incoming, (), present, self.seen.clone(), ids)

    def _batch(self, ids: Tensor, crops: Tensor) -> Batch:
        mine, weight = self.ranks.part(len(ids), ids.device)
        ids, crops = ids[mine], crops[: len(ids)][mine]
        return Batch(
            x=self.pixels.augmented(ids, crops),
            y=self.pixels.labels[ids],
            ids=ids,
            weight=weight,
        )


class TapeFeed(Feed):
    """Plays a planned tape: the host decides nothing any more."""

    def __init__(self, plan: RunPlan, pixels: Pixels, classes: int, ranks: Ranks) -> None:
        tape = plan.tape
        assert tape is not None
        super().__init__(plan, tape.incoming, pixels, classes, ranks)
        self._tape = tape
        self.replayed = np.count_nonzero(tape.replay >= 0, axis=2).tolist()
        self.replay = torch.from_numpy(tape.replay.copy()).to(pixels.device)

    def step(self, number: int) -> Step:
        draws = [
            self._batch(self.replay[number, draw, :count], self.replay_crops[number, draw])
            for draw, count in enumerate(self.replayed[number])
            if count
        ]
        return replace(self._arrived(number), replay=tuple(draws))

    def close(self, step: Step) -> None:
        pass  # the tape knows already who was kept

    def tape(self) -> Tape:
        return self._tape

    def stored(self, number: int) -> Ids:
        tape, holder = self._tape, np.full(self._tape.capacity, -1, np.int64)
        slots, ids = tape.written[:number].ravel(), tape.incoming[:number].ravel()
        holder[slots[slots >= 0]] = ids[slots >= 0]  # of several in one slot, the last
        return holder[holder >= 0]

    def moved(self, number: int) -> tuple[Ids, Ids, Ids]:
        return self._tape.incoming[number], self._tape.replay[number], self._tape.written[number]

    def state_dict(self) -> dict[str, Any]:
        return {"tape": self._tape.hash}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("tape") != self._tape.hash:
            raise ValueError("its replay sequence is another one: the data set or the library has changed since")


class LiveFeed(Feed):
    """Asks the memory at every step, which asks the network; the tape is recorded as it happens.

    Retrieval asks by `score`, before the step; storage by `describe`, after it. Examples are shown as they are.
    """

    def __init__(self, plan: RunPlan, pixels: Pixels, classes: int, score: Score, describe: Describe) -> None:
        stream, memory, size = plan.stream, plan.run.make_memory(), plan.run.replay_size
        assert isinstance(stream, LabelStream)
        batches = list(stream)
        incoming = np.full((len(batches), max(map(len, batches))), -1, np.int64)
        for row, batch in zip(incoming, batches, strict=True):
            row[: len(batch)] = batch
        super().__init__(plan, incoming, pixels, classes, Ranks())
        self.stream = stream
        self.memory = memory
        self.score = score if is_scored(memory.retrieval) else None
        self.describe = describe if is_scored(memory.storage) else None
        self.size = size
        self.rows = incoming
        self.holder = np.full(memory.capacity, -1, np.int64)  # the example in each slot
        self.slots = np.full((len(batches), memory.draws, size), -1, np.int64)
        self.replay = np.full_like(self.slots, -1)
        self.written = np.full_like(incoming, -1)

    @property
    def _arrivals(self) -> str:
        """A hash of what comes in, and of all labels."""
        content = [np.ascontiguousarray(array, "<i8").tobytes() for array in (self.rows, self.stream.labels)]
        return hashlib.sha256(b"".join(content)).hexdigest()

    def step(self, number: int) -> Step:
        arrived, score = self._arrived(number), self.score

        def asked(slots: Ids) -> NDArray[np.float64]:
            assert score is not None
            return self._told(number, score(arrived, self._as_they_are(self.holder[slots])))

        draws = []
        for channel in range(self.memory.draws):
            drawn = self.memory.draw(self.size, channel=channel, score=None if score is None else asked).slots
            ids = self.holder[drawn]
            self.slots[number, channel, : len(ids)], self.replay[number, channel, : len(ids)] = drawn, ids
            if len(ids):
                crops = self.replay_crops[number, channel]
                draws.append(self._batch(torch.from_numpy(ids).to(self.pixels.device), crops))
        return replace(arrived, replay=tuple(draws))

    def close(self, step: Step) -> None:
        ids, describe = self.rows[step.number, : self.arrivals[step.number]], self.describe

        def asked(slots: Ids | None = None) -> NDArray[np.float64]:
            assert describe is not None
            return self._told(step.number, describe(self._as_they_are(ids if slots is None else self.holder[slots])))

        slots = self.memory.store(self.stream.labels[ids], score=None if describe is None else asked)
        self.holder[slots[slots >= 0]] = ids[slots >= 0]
        self.written[step.number, : len(slots)] = slots

    def _as_they_are(self, ids: Ids) -> Batch:
        """These examples, neither cropped nor flipped."""
        where = self.pixels.device
        plain = torch.tensor([PAD, PAD, 0], dtype=torch.int8, device=where).expand(len(ids), 3)
        return self._batch(torch.from_numpy(ids).to(where), plain)

    def _told(self, number: int, scores: Tensor) -> NDArray[np.float64]:
        if torch.isnan(scores).any():
            raise diverged(f"in step {number + 1} of {len(self.rows)} an example's score is not a number")
        values: NDArray[np.float64] = scores.double().cpu().numpy()
        return values

    def stored(self, number: int) -> Ids:
        held: Ids = self.holder[: len(self.memory)].copy()
        return held

    def moved(self, number: int) -> tuple[Ids, Ids, Ids]:
        return self.rows[number], self.replay[number], self.written[number]

    def tape(self) -> Tape:
        memory = self.memory
        return Tape(
            incoming=self.rows,
            replay=self.replay,
            slots=self.slots,
            written=self.written,
            labels=self.stream.labels,
            boundaries=np.array(self.stream.boundaries, np.int64),
            initial=np.empty(0, np.int64),
            stream=self.stream.title,
            storage=memory.storage_spec,
            retrieval=memory.retrieval_spec,
            capacity=memory.capacity,
            replay_size=self.size,
            seed=memory.seed,
        )

    def state_dict(self) -> dict[str, Any]:
        recorded = {name: getattr(self, name).copy() for name in ("holder", "slots", "replay", "written")}
        return {"stream": self._arrivals, "memory": self.memory.state_dict(), **recorded}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("stream") != self._arrivals:
            raise ValueError("its stream is another one: the data set or the library has changed since")
        self.memory.load_state_dict(state["memory"])
        for name in ("holder", "slots", "replay", "written"):
            getattr(self, name)[...] = state[name]
