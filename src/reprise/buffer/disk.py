"""Tables in files of a folder, mapped into memory."""

from __future__ import annotations

import json
import math
import os
import secrets
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reprise.core.files import Lock, write_atomic

_FORMAT = "reprise columns 1"
_LIST = "columns.json"


class DiskRoom:
    """Tables that are files: one for each, with its rows as they are in memory, and a list of them.

    The folder belongs to one buffer of one process at a time. The system writes to the disk when it likes, at the
    latest when the process ends, however it ends.
    """

    device = torch.device("cpu")

    def __init__(self, path: str | os.PathLike[str], capacity: int) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"path must be a folder, and {str(path)!r} is a file")
        self.path.mkdir(parents=True, exist_ok=True)
        self._process = os.getpid()
        # At the latest when this is gone.
        self._release = weakref.finalize(self, _release, Lock(self.path / "lock"), self._process)
        try:
            self._list: dict[str, Any] = self._read(capacity)
        except BaseException:
            self._release()
            raise
        self.old = bool(self._list["tables"])  # whether it had any when it was opened

    def _read(self, capacity: int) -> dict[str, Any]:
        where = f"the folder {str(self.path)!r}"
        if not (self.path / _LIST).exists():
            names = (entry.name for entry in self.path.iterdir())
            others = sorted(name for name in names if name != "lock" and not name.startswith(f".{_LIST}."))
            if others:
                raise ValueError(f"{where} must be empty or a buffer's, and holds {others[0]!r}")
            return {"format": _FORMAT, "capacity": capacity, "tables": {}}
        try:
            found: dict[str, Any] = json.loads((self.path / _LIST).read_text(encoding="utf-8"))
            if found["format"] != _FORMAT:
                raise ValueError(f"{where} has the format {found['format']!r}, known is {_FORMAT!r}")
            held = found["capacity"]
            found["tables"].values()
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{where} has a damaged list of its tables, {_LIST}") from None
        if found["tables"] and held != capacity:
            raise ValueError(f"{where} has room for {held} examples, and this buffer for {capacity}")
        return {**found, "capacity": capacity}

    def check_ours(self) -> None:
        """Raise an error in a copy of the process that opened the folder, and after `close`."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"the folder {str(self.path)!r} belongs to the process that opened it: a worker of a DataLoader, or "
                "any other copy of that process, cannot change what is in it"
            )
        self.check_open()

    def check_open(self) -> None:
        """Raise an error after `close`."""
        if not self._release.alive:
            raise RuntimeError(f"this buffer was closed: the folder {str(self.path)!r} may be another's")

    def _save(self) -> None:
        text = json.dumps(self._list, indent=1).encode()
        write_atomic(self.path / _LIST, lambda file: file.write(text))

    def resize(self, capacity: int) -> None:
        """Say how many examples there is room for; the tables are resized by themselves."""
        self._list["capacity"] = capacity
        self._save()

    def table(self, name: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        known = self._list["tables"]
        taken = {about["file"] for about in known.values()}
        free = next(file for number in range(len(taken) + 1) if (file := f"{number:03}.bin") not in taken)
        file = known[name]["file"] if name in known else free
        known[name] = {"file": file, "rows": rows, "shape": list(shape), "dtype": str(dtype).removeprefix("torch.")}
        (self.path / file).unlink(missing_ok=True)  # whoever still has the old one mapped keeps it
        self._save()
        return self._mapped(name)

    def opened(self, name: str) -> Tensor:
        """The table that the folder has under this name."""
        if name not in self._list["tables"]:
            raise ValueError(f"the folder {str(self.path)!r} has no table {name!r}")
        about = self._list["tables"][name]
        file = self.path / about["file"]
        held, due = file.stat().st_size if file.exists() else 0, _bytes(about)
        if held < due:
            raise ValueError(f"the file {str(file)!r} has {held} bytes where {due} are due")
        return self._mapped(name)

    def keep(self, names: Iterable[str]) -> None:
        """Have no tables but these."""
        for name in self._list["tables"].keys() - set(names):
            (self.path / self._list["tables"].pop(name)["file"]).unlink(missing_ok=True)
        self._save()

    def _mapped(self, name: str) -> Tensor:
        about = self._list["tables"][name]
        shape = (about["rows"], *about["shape"])
        dtype = getattr(torch, about["dtype"])
        count = math.prod(shape)
        with torch.inference_mode(False):
            if not count:
                return torch.empty(shape, dtype=dtype)
            file = self.path / about["file"]
            with file.open("ab") as stream:
                stream.truncate(_bytes(about))  # with holes: what was never written takes no place
            return torch.from_file(str(file), shared=True, size=count, dtype=dtype).view(shape)

    def resized(self, name: str, table: Tensor, rows: int) -> Tensor:
        about = self._list["tables"][name]
        longer = rows > about["rows"]
        about["rows"] = rows
        if longer:  # a file is never shorter than the list says
            self._mapped(name)
        self._save()
        return self._mapped(name)

    def close(self) -> None:
        """Let others have the folder."""
        self._release()


def _bytes(about: dict[str, Any]) -> int:
    """How many bytes the rows of a table take."""
    size: int = math.prod((about["rows"], *about["shape"])) * getattr(torch, about["dtype"]).itemsize
    return size


def _release(lock: Lock, process: int) -> None:
    if os.getpid() == process:  # a copy of the process has a copy of the lock, and it is not its own
        lock.release()


class Tokens:
    """A number for every row on disk that no other row ever had: so a state knows whether the row is still the same.

    It is taken away before a row is written and given when that is done. A row that was being written when the process
    ended has none.
    """

    def __init__(self, room: DiskRoom, capacity: int, old: bool = False) -> None:
        self.room = room
        self.table = room.opened("_token") if old else room.table("_token", capacity, (), torch.int64)
        if not old:
            self.table.zero_()
        self._next = secrets.randbits(61) + 1

    def take(self, slots: Tensor) -> Tensor:
        """Take the tokens of these slots away, and return them."""
        tokens = self.table[slots]
        self.table[slots] = 0
        return tokens

    def give(self, slots: Tensor, tokens: Tensor | None = None) -> None:
        """Give these slots tokens: new ones, or those of the rows that were moved there."""
        if tokens is None:
            tokens = torch.arange(self._next, self._next + len(slots))
            self._next += len(slots)
        self.table[slots] = tokens
