"""The store: a folder that holds runs by their identity, so that whoever needs a run that is there does not make it.

records/<identity>.json     the record of a run that has ended
files/<identity>/           its tape and weights, where they were to be kept
unfinished/<identity>/      checkpoints of a run that has not ended
failed/<identity>.json      why a run failed when it was last tried; gone once it has its record
campaigns/<name>.json       which runs a study asked for, and their identities
packed/<name>.parquet       records of many runs in a file, which is only read; see `reprise.runs.packed`
claims/<identity>           held by the process that makes a run; it lapses when that process ends, however it ends
index.md                    a table for people, written when work on the store ends
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprise.core.errors import reason
from reprise.core.files import (
    Damaged,
    FolderBusy,
    Lock,
    OtherFormat,
    Record,
    holder,
    read_json,
    write_atomic,
    write_json,
)
from reprise.core.record_file import read_record, write_record
from reprise.runs.errors import TrainingFailed
from reprise.runs.packed import FOLDER, Packed
from reprise.runs.record import BULKY, EARLIER, FORMAT

Warn = Callable[[str], None]
_PATIENCE = 10.0  # seconds


class Store:
    """Runs in a folder, which is made when something is first written there."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{str(self.folder)!r} is a file; a store is a folder")
        self._packed = Packed(self.folder / FOLDER)

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    def record_file(self, identity: str) -> Path:
        return self.folder / "records" / f"{identity}.json"

    def files(self, identity: str) -> Path:
        """The folder for a run's tape and weights."""
        return self.folder / "files" / identity

    def unfinished(self, identity: str) -> Path:
        """The folder for a run's checkpoints."""
        return self.folder / "unfinished" / identity

    @property
    def tracks(self) -> Path:
        """The folder for what trackers write, in a folder for each run."""
        return self.folder / "tracks"

    def get(self, identity: str, warn: Warn | None = None, *, without: Collection[str] = ()) -> Record | None:
        """The record of this run, if it is there; one that is damaged or of another format is as good as none.

        One in a file of its own is preferred to one that is packed, which may lack parts. Parts named in `without` are
        checked for damage like the rest, but left out.
        """
        found = self._read(self.record_file(identity), warn, without)
        return self._packed.get(identity, warn, without=without) if found is None else found

    def records(self, warn: Warn | None = None, *, without: Collection[str] = ()) -> Iterator[Record]:
        """All records that can be read, in no promised order; `warn` is told of the others.

        Parts named in `without`, such as `reprise.runs.record.BULKY`, are checked for damage like the rest, but left
        out, so that thousands of records take less time and memory.
        """
        seen = set()
        for path in sorted(self.folder.glob("records/*.json")):
            if (record := self._read(path, warn, without)) is not None:
                seen.add(record["identity"])
                yield record
        yield from self._packed.records(warn, without=without, but=seen)

    def all_records(self, warn: Warn | None = None, *, without: Collection[str] = ()) -> list[Record]:
        """As `records`, all at once: whoever keeps thousands of them has them sooner so."""
        with collection_paused():
            return list(self.records(warn, without=without))

    def _read(self, path: Path, warn: Warn | None, without: Collection[str] = ()) -> Record | None:
        try:
            record = read_record(path, FORMAT, *EARLIER, without=without)
            if record is not None and record["identity"] != path.stem:
                raise Damaged(f"it is the record of the run {record['identity']}")
            return record
        except OtherFormat as other:
            why = f"was written by another version of reprise: {other}"
        except (Damaged, KeyError) as damage:
            why = f"is damaged: {damage}"
        if warn is not None:
            packed = path.stem in self._packed.ended()
            instead = "one that is packed is" if packed else "its run is made again where it is needed"
            warn(f"The record {path} {why}. It is not used; {instead}.")
        return None

    def claim(self, identity: str) -> Claim | None:
        """Take a run for oneself; None if somebody else, another thread included, is making it."""
        self._make("claims")
        try:
            return Claim(self, identity, Lock(self.folder / "claims" / identity))
        except FolderBusy:
            return None

    def claimed(self) -> dict[str, str]:
        """The runs that are being made now, and who makes each."""
        there = {path.name: holder(path) for path in self.folder.glob("claims/*")}
        return {identity: who for identity, who in there.items() if who is not None}

    def ended(self, warn: Warn | None = None) -> dict[str, float]:
        """The runs that have a record, and when it was written, in seconds as `time.time` counts them.

        When a packed record was written is not known: that is 0. `warn` is told of packed files that cannot be read.
        """
        found = dict.fromkeys(self._packed.ended(warn), 0.0)
        with suppress(OSError), os.scandir(self.folder / "records") as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    found[entry.name.removesuffix(".json")] = entry.stat().st_mtime
        return found

    def put(self, record: Record) -> None:
        """Keep a record, whole or not at all, and clear away what only an unfinished run needs."""
        identity = record["identity"]
        self._make("records")
        try:
            write_record(self.record_file(identity), record)
        except OSError as error:
            path = self.record_file(identity)
            raise TrainingFailed(f"the record {path} cannot be written: {error.strerror}") from error
        with suppress(OSError):
            self.failure_file(identity).unlink()
        shutil.rmtree(self.unfinished(identity), ignore_errors=True)

    def failure_file(self, identity: str) -> Path:
        return self.folder / "failed" / f"{identity}.json"

    def put_failure(self, identity: str, name: str, error: Exception) -> None:
        """Note why a run failed; that this cannot be noted is no failure of its own."""
        with suppress(OSError, ValueError):
            self._make("failed")
            write_json(self.failure_file(identity), {"name": name, "error": reason(error)})

    def failure(self, identity: str) -> str | None:
        """Why a run failed when it was last tried; None if it did not."""
        try:
            content = read_json(self.failure_file(identity))
        except Damaged:
            return "the note of why is damaged"
        return str(content["error"]) if isinstance(content, dict) and "error" in content else None

    def _make(self, name: str) -> None:
        try:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{self.folder / name} cannot be made: {error.strerror}") from None

    def write_index(self) -> None:
        """Write `index.md`: every run in a line, for people."""
        until = time.monotonic() + _PATIENCE
        while (claim := self.claim("index.md")) is None:  # another process writes it, and may not know our runs yet
            if time.monotonic() > until:
                return
            time.sleep(0.05)
        try:
            records = self.records(without=BULKY)
            rows = sorted((record["name"], record["identity"], _result(record)) for record in records)
            lines = ["| run | identity | result |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
            text = "\n".join([f"{len(rows)} runs; `reprise runs list` shows more of them.", "", *lines, ""])
            write_atomic(self.folder / "index.md", lambda file: file.write(text.encode()))
        finally:
            claim.release()

    def tidy(self) -> None:
        """Remove what processes left that were killed: scratch files, lapsed claims, checkpoints of runs that ended.

        What belongs to a run that somebody makes now is left alone.
        """
        left = {path.name for path in [*self.folder.glob("claims/*"), *self.folder.glob("unfinished/*")]}
        left |= {path.parent.name for path in self.folder.glob("files/*/.*.part")}
        # Of the files beside the folders only the index is written by whoever holds a claim of its name.
        for scratch in [*self.folder.glob(".index.md.*.part"), *self.folder.glob("records/.*.part")]:
            left.add(re.sub(r"^\.(.+?)(\.json)?(\.\d+)+\.part$", r"\1", scratch.name))
        for identity in left:
            if (claim := self.claim(identity)) is not None:
                try:
                    self._tidy(identity)
                finally:
                    claim.release()

    def _tidy(self, identity: str) -> None:
        for place, name in ((self.folder, identity), (self.folder / "records", identity), (self.files(identity), "")):
            for scratch in place.glob(f".{name}*.part"):
                scratch.unlink(missing_ok=True)
        if self.get(identity) is not None:  # one that cannot be used is made again, from these checkpoints
            shutil.rmtree(self.unfinished(identity), ignore_errors=True)
        for scratch in self.unfinished(identity).glob(".*.part"):
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Within it garbage collection waits: while thousands of records are read it would only find nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Claim:
    """A run that this process makes, until it is released or this process ends."""

    def __init__(self, store: Store, identity: str, lock: Lock) -> None:
        self.store, self.identity, self._lock = store, identity, lock

    def release(self) -> None:
        """Let others have it."""
        self._lock.release()


def _result(record: Record) -> str:
    if "metrics" in record:
        found = ((name, one["final"]) for name, one in record["metrics"].items())
        return ", ".join(f"{name} {100 * final:.2f}%" for name, final in found if final is not None)
    return f"longest gap {record['audit']['max']}"
