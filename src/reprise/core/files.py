"""Files written whole or not at all, and small JSON records that know when they are damaged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Record = dict[str, Any]


class Damaged(Exception):
    """A file that is not what it should be; the message says why."""


class OtherFormat(Damaged):
    """A file that another version has written; the message says which format it has."""


def write_atomic(path: str | os.PathLike[str], fill: Callable[[IO[bytes]], object]) -> None:
    """Let `fill` write a file, which appears under its name once it is whole and on the disk."""
    target = Path(path)
    scratch = scratch_name(target)
    try:
        with scratch.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
        sync_folder(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def scratch_name(target: Path) -> Path:
    """The file that becomes `target`: neither two processes nor two threads of one may share it."""
    return target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")


class FolderBusy(ValueError):
    """Somebody else is at work in a folder."""


class Lock:
    """A file that one process, or one thread of it, holds; others that ask for it are refused.

    It lapses when its holder ends, however that ends; the file is removed when it is released. On a network folder it
    holds between machines as far as that folder keeps such locks (flock). Where there are none, as on Windows, nothing
    is held, and nobody is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None
        if sys.platform == "win32":
            return
        while True:
            file = _opened(path)
            try:
                if _locked(file, path):
                    self._file = file
                    return
            except BaseException:
                file.close()
                raise
            file.close()  # its holder removed it between our two calls: there is another by that name, or none

    def release(self) -> None:
        """Let others have it."""
        if self._file is not None:
            if _is_at(self._file.fileno(), self.path):
                self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(path: Path) -> str | None:
    """Who holds the lock of this file now; None if nobody does, or if that cannot be known here.

    To find out, the lock is taken for a moment together with others who look; who asks for it then is refused once.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:
        return None
    return None


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{str(path.parent)!r} cannot be written to: {error.strerror}") from None


def _locked(file: IO[str], path: Path) -> bool:
    """Lock an open file, unless another has taken its place meanwhile."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        who = file.read().strip() or "another process"
        where = str(path.parent)
        raise FolderBusy(f"{who} is at work in {where!r}: wait until it ends, or name another folder") from None
    except OSError:
        return True  # there is no such lock here
    if not _is_at(file.fileno(), path):
        return False
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Have a folder's list of names reach the disk, too, where the system knows such a thing."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write a value as JSON, whole or not at all."""
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def read_json(path: str | os.PathLike[str]) -> object:
    """What the JSON file at `path` says, or None if there is no file."""
    content = read_bytes(path)
    return None if content is None else parse_json(content)


def read_bytes(path: str | os.PathLike[str]) -> bytes | None:
    """What the file at `path` holds, or None if there is no file."""
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Damaged(f"it cannot be read: {error.strerror}") from None


def parse_json(content: bytes) -> object:
    """What JSON says."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON: {error}") from None


def digest(value: object) -> str:
    """SHA-256 of a value's plain JSON."""
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def sealed(record: Record) -> Record:
    """The record with a checksum of all it says."""
    return {**record, "checksum": digest(record)}


def unsealed(record: object, form: str) -> Record:
    """The record, if it is whole and of this format; otherwise say what is wrong with it."""
    found = check_format(record, form)
    content = {key: value for key, value in found.items() if key != "checksum"}
    if found.get("checksum") != digest(content):
        raise Damaged("its content does not match its checksum")
    return found


def check_format(record: object, form: str, *earlier: str) -> Record:
    """The record, if it is of this format, or of an earlier one that can be read; otherwise say which it has."""
    if not isinstance(record, dict):
        raise Damaged("it is not a JSON object")
    if (found := record.get("format")) not in (form, *earlier):
        (kind, _, number), (ours, _, current) = str(found).rpartition("/"), form.rpartition("/")
        if kind == ours and number.isdecimal():
            age = "older" if int(number) < int(current) else "newer"
            raise OtherFormat(f"its format is {found!r}, {age} than {form!r}")
        raise Damaged(f"its format is {found!r}, not {form!r}")
    return record
