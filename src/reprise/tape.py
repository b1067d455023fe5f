"""A whole replay sequence, planned before training: audited, hashed, saved, and played on any device."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_int, as_ints
from reprise.core.files import write_atomic
from reprise.memory import Memory, Score
from reprise.streams import in_order
from reprise.tape_step import TapeStep, TapeSteps, check_excluded, check_moved, front

Ids = NDArray[np.int64]
_ARRAYS = ("incoming", "replay", "slots", "written", "labels", "boundaries", "initial")
_SPARSE = ("moved", "excluded")  # what only a live memory does: not in file and hash where there is none
_FORMAT = "reprise tape 1"


def _no_rows(width: int) -> Ids:
    return np.empty((0, width), np.int64)


class Stream(Protocol):
    """Batches of example ids, and the label of every id; also a `title` or `name`, and `boundaries`, if it has them."""

    @property
    def labels(self) -> Ids: ...

    def __iter__(self) -> Iterator[Ids]: ...


@dataclass(frozen=True, eq=False)
class Tape:
    """Per step the incoming examples, the replayed examples, and the slots written; T steps.

    Within a step the draws come first, then the incoming examples are written in order. The arrays are padded;
    `tape[t]`, slices and `for step in tape` give steps without padding.

    `moved` and `excluded` are empty by default. They have rows only on the tape of a live memory from which examples
    were removed, or that was told who may return.
    """

    incoming: Ids
    """T×A: ids of the examples that arrive, −1 as padding."""
    replay: Ids
    """T×D×b: ids of the examples that return, −1 as padding; D draws a step."""
    slots: Ids
    """T×D×b: the slots they came from, −1 as padding."""
    written: Ids
    """T×A: the slot that each incoming example was written to, −1 where it was not kept."""
    labels: Ids
    """The label of each example id."""
    boundaries: Ids
    """The first step after each task."""
    initial: Ids
    """For each slot, the id of the example that the memory held before step 0."""
    stream: str
    storage: str
    retrieval: str
    capacity: int
    replay_size: int
    seed: int
    moved: Ids = field(default_factory=lambda: _no_rows(4))
    """Examples that were removed or moved, in order: step, after how many of its incoming examples, slot, source.

    The slot now holds what `source` held, which is empty now; where `source` is −1, the slot itself is.
    """
    excluded: Ids = field(default_factory=lambda: _no_rows(3))
    """Stored classes that a draw was told not to return, sorted: step, draw, label."""

    def __post_init__(self) -> None:
        for name in (*_ARRAYS, *_SPARSE):
            array = np.asarray(getattr(self, name)).view()  # read-only here, as it was for whoever made it
            if array.dtype != np.int64:
                raise TypeError(f"a tape's {name} must be int64, got {array.dtype}")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        steps, draws = self.incoming.shape[0], self.replay.shape[1:]
        if self.written.shape != self.incoming.shape or self.slots.shape != self.replay.shape:
            raise ValueError("a tape's incoming and written, replay and slots must agree in shape")
        if self.replay.shape != (steps, *draws) or len(draws) != 2 or self.incoming.ndim != 2:
            raise ValueError(f"a tape's replay must be {steps} × draws × size, got {self.replay.shape}")
        for name, least, limit in [
            ("incoming", -1, len(self.labels)),
            ("replay", -1, len(self.labels)),
            ("initial", 0, len(self.labels)),
            ("slots", -1, self.capacity),
            ("written", -1, self.capacity),
            ("labels", 0, 2**63),
        ]:
            array = getattr(self, name)
            if array.size and not (least <= array.min() and array.max() < limit):
                raise ValueError(
                    f"a tape's {name} must lie in {least} … {limit - 1}, got {array.min()} … {array.max()}"
                )
        if self.sparse:
            check_moved(self.moved, np.count_nonzero(self.incoming >= 0, axis=1), self.capacity)
            check_excluded(self.excluded, steps, draws[0])

    @property
    def sparse(self) -> tuple[str, ...]:
        """Which of `moved` and `excluded` have rows; none does on a planned tape."""
        return tuple(name for name in _SPARSE if getattr(self, name).size)

    @property
    def _held(self) -> tuple[str, ...]:
        return _ARRAYS + self.sparse

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"moved": _no_rows(4), "excluded": _no_rows(3), **state})
        self.__post_init__()  # a copied array can be written to, and a tape's must not

    def __len__(self) -> int:
        return len(self.incoming)

    @overload
    def __getitem__(self, place: SupportsIndex) -> TapeStep: ...
    @overload
    def __getitem__(self, place: slice) -> TapeSteps: ...
    def __getitem__(self, place: SupportsIndex | slice) -> TapeStep | TapeSteps:
        return TapeSteps(self._step, range(len(self)))[place]

    def __iter__(self) -> Iterator[TapeStep]:
        return map(self._step, range(len(self)))

    def _step(self, number: int) -> TapeStep:
        incoming, replay, slots = self.incoming[number], self.replay[number], self.slots[number]
        arrived, drawn = front(incoming), [front(row) for row in replay]
        ids = incoming[arrived]
        replayed = tuple(row[places] for row, places in zip(replay, drawn, strict=True))
        return TapeStep(
            number=number,
            incoming=ids,
            replay=replayed,
            slots=tuple(row[places] for row, places in zip(slots, drawn, strict=True)),
            written=self.written[number][arrived],
            labels=self.labels[ids],
            replay_labels=tuple(self.labels[row] for row in replayed),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tape) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.replay.shape[1:]))
        return (
            f"Tape({self.stream!r}, {self.storage!r}, {self.retrieval!r}, capacity={self.capacity}, seed={self.seed}: "
            f"{len(self)} steps, {self.incoming.shape[1]} incoming, {shape} replayed, {self.hash[:12]})"
        )

    @property
    def facts(self) -> dict[str, str | int]:
        """What the tape is of: stream, specs, sizes and seed."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*_ARRAYS, *_SPARSE)}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all the tape says, the same on every machine and version of Python and NumPy."""
        digest = hashlib.sha256(json.dumps([_FORMAT, self.facts], sort_keys=True).encode())
        for name in self._held:
            array = getattr(self, name)
            digest.update(f"{name}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array, "<i8").data)
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tape as one safetensors file, whole or not at all."""

        def fill(file: IO[bytes]) -> None:
            header = self._header()
            file.write(len(header).to_bytes(8, "little") + header)
            for name in self._held:
                file.write(np.ascontiguousarray(getattr(self, name), "<i8").data)

        try:
            write_atomic(path, fill)
        except OSError as error:  # in its own words it names a scratch file
            folder = Path(path).parent
            why = f"there is no folder {folder}" if not folder.is_dir() else error.strerror or error
            raise OSError(error.errno, f"the tape cannot be written: {why}", os.fspath(path)) from error

    def _header(self) -> bytes:
        about = {"format": _FORMAT, "hash": self.hash, **{name: json.dumps(fact) for name, fact in self.facts.items()}}
        entries: dict[str, Any] = {"__metadata__": about}
        offset = 0
        for name in self._held:
            array = getattr(self, name)
            entries[name] = {
                "dtype": "I64",
                "shape": list(array.shape),
                "data_offsets": [offset, offset + array.nbytes],
            }
            offset += array.nbytes
        text = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
        return text + b" " * (-len(text) % 8)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tape:
        """Read a tape back; a file that is not exactly what `save` wrote is an error."""
        try:
            tape, digest, header = cls._read(Path(path).read_bytes())
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)} is not a tape, or is damaged: {error}") from error
        if tape.hash != digest or tape._header() != header:
            raise ValueError(f"{os.fspath(path)} is damaged: its content does not match its hash {digest[:12]}…")
        return tape

    @classmethod
    def _read(cls, data: bytes) -> tuple[Tape, str, bytes]:
        length = int.from_bytes(data[:8], "little")
        if length > len(data) - 8:
            raise ValueError("the header is cut off")
        header, body = data[8 : 8 + length], data[8 + length :]
        entries = json.loads(header)
        about = entries["__metadata__"]
        if about["format"] != _FORMAT:
            raise ValueError(f"the format is {about['format']!r}, not {_FORMAT!r}")
        arrays, end = {}, 0
        for name in (*_ARRAYS, *(name for name in _SPARSE if name in entries)):
            start, end = entries[name]["data_offsets"]
            piece = np.frombuffer(body[start:end], "<i8").astype(np.int64)
            arrays[name] = piece.reshape(entries[name]["shape"])
        if end != len(body):
            raise ValueError(f"the file has {len(body)} bytes of arrays where {end} are due")
        facts = {f.name: json.loads(about[f.name]) for f in fields(cls) if f.name not in (*_ARRAYS, *_SPARSE)}
        return cls(**arrays, **facts), str(about["hash"]), header


def plan(
    stream: Stream | Iterable[Hashable] | ArrayLike,
    memory: Memory,
    replay: int = 8,
    *,
    batch: int | None = None,
    boundaries: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tape:
    """Run the memory over a whole stream of labels and record what it does. The memory is advanced.

    In place of a stream there may be labels, one per example in order of arrival: whole numbers, strings, anything
    that can be a key of a dict. Then an example's id is its place, and `batch`, 32 unless given, and `boundaries` are
    those of `reprise.streams.in_order`.

    >>> plan(["cat", "cat", "dog", "cat"], Memory(2, seed=0), replay=1, batch=2)[1].incoming.tolist()
    [2, 3]

    The memory may hold examples already. Their ids are `initial`, one per filled slot, if they are of this
    stream's data set; otherwise they get ids of their own, after the stream's. `progress` is called with the
    number of steps done.
    """
    if not isinstance(memory, Memory):
        raise TypeError(
            f"plan takes a stream, then a memory; got {type(stream).__name__}, then {type(memory).__name__}"
        )
    if memory.storage_spec == "external":
        raise ValueError("'external' storage is the caller's own, so what it keeps cannot be planned ahead")
    source = _as_stream(stream, batch, boundaries)
    if len(memory) and initial is None and getattr(source, "renumbered", False):
        raise ValueError(
            f"this memory holds classes {memory.classes.tolist()[:5]} by number, and the stream's labels were numbered "
            "anew; reprise.streams.in_order(labels, classes=…) is told which number stands for which label"
        )
    size = as_int(replay, "the replay size", 0)
    if memory.scored is not None:
        raise ValueError(f"{memory.scored!r} chooses by a score of the model, so it cannot be planned ahead")
    return run_memory(source, memory, size, initial=initial, progress=progress)


def run_memory(
    source: Stream,
    memory: Memory,
    size: int,
    *,
    score: Score | None = None,
    initial: ArrayLike | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tape:
    """What `plan` does with arguments that it has checked; `score` is for a retrieval that asks for one."""
    labels = as_ints(source.labels, "a stream's labels", 0, 2**63)
    batches = [as_ints(row, f"batch {step} of a stream", 0, len(labels)) for step, row in enumerate(source)]
    held = _held(memory, labels, initial)
    known = np.concatenate([labels, memory.labels]) if initial is None else labels.copy()
    ids = np.full(memory.capacity, -1, np.int64)
    ids[: len(held)] = held
    written: list[Ids] = []
    drawn: list[Ids] = []
    replayed: list[Ids] = []
    channels = range(memory.draws)
    for step, arrived in enumerate(batches):
        for channel in channels:
            slots = memory.draw(size, channel=channel, score=score).slots
            drawn.append(slots)
            replayed.append(ids[slots])
        slots = memory.store(labels[arrived])
        kept = slots >= 0
        ids[slots[kept]] = arrived[kept]
        written.append(slots)
        if progress is not None:
            progress(step + 1)
    steps = len(batches)
    width = max(map(len, batches), default=0)
    return Tape(
        incoming=_padded(batches, width),
        replay=_padded(replayed, size).reshape(steps, memory.draws, size),
        slots=_padded(drawn, size).reshape(steps, memory.draws, size),
        written=_padded(written, width),
        labels=known,
        boundaries=np.array(getattr(source, "boundaries", [steps]), np.int64),
        initial=held,
        stream=str(getattr(source, "title", getattr(source, "name", "custom"))),
        storage=memory.storage_spec,
        retrieval=memory.retrieval_spec,
        capacity=memory.capacity,
        replay_size=size,
        seed=memory.seed,
    )


def _as_stream(given: Any, batch: int | None, boundaries: ArrayLike | None) -> Stream:
    """The stream that was given, or the one of the labels that were."""
    if isinstance(given, Tape):
        raise TypeError("plan takes a stream, and this is a tape: it has been planned already")
    iterable = hasattr(given, "__iter__") or hasattr(given, "__getitem__")
    if hasattr(given, "labels") or not iterable:
        if not hasattr(given, "labels") or not hasattr(given, "__iter__"):
            raise TypeError(
                f"a stream iterates over batches of example ids and has their labels, got {type(given).__name__}; "
                "reprise.streams.in_order and from_labels make one of labels"
            )
        if batch is not None or boundaries is not None:
            raise TypeError("batch and boundaries cut plain labels into steps; a stream has its steps already")
        stream: Stream = given
        return stream
    return in_order(given, 32 if batch is None else batch, boundaries)


def _held(memory: Memory, labels: Ids, initial: ArrayLike | None) -> Ids:
    """The example ids of what the memory holds already."""
    if initial is None:
        return np.arange(len(labels), len(labels) + len(memory), dtype=np.int64)
    held = as_ints(initial, "initial", 0, len(labels))
    if len(held) != len(memory):
        raise ValueError(f"initial must name {len(memory)} examples, one per filled slot, got {len(held)}")
    wrong = np.flatnonzero(labels[held] != memory.labels)
    if len(wrong):
        slot = int(wrong[0])
        raise ValueError(
            f"initial names example {held[slot]} of label {labels[held[slot]]} for slot {slot}, which holds label "
            f"{memory.labels[slot]}"
        )
    return held


def _padded(rows: list[Ids], width: int) -> Ids:
    table = np.full((len(rows), width), -1, np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
