"""Fetching a data set from its home: resumed where it stopped, checked before use, unpacked with care."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

from reprise.streams.datasets import Dataset, find_dataset

from .archive import unpack
from .errors import DataError
from .loading import data_folder, find

PIECE = 1 << 18
PATIENCE = 30.0  # seconds without a byte
TRIES = 4  # in a row without a byte gained
PAUSES = 0.5, 10.0  # seconds between two requests: the first time, and at most, when little is gained by each

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: not known)."""


def fetch(name: str, root: str | os.PathLike[str], *, url: str | None = None, progress: Progress | None = None) -> Path:
    """Bring a data set into the folder `root` and return its own folder there.

    A folder that is there is left as it is. An archive that already lies in `root` is used; `url` names a mirror.
    Either way the archive's checksum must be the published one, and no more than its published size is fetched. A
    transfer that stopped goes on where it stopped when fetched again.
    """
    source = find_dataset(name)
    if not source.url:
        raise ValueError(f"{name} needs no archive: there is nothing to fetch")
    folder = data_folder(root)
    if (there := find(source, folder)) is not None:
        return there
    archive = folder / source.archive
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if archive.is_file():
            if (found := _md5(archive, progress)) != source.md5:
                raise _other(source, archive, found, f"remove it from {folder}, and get it from {source.url}")
        else:
            part = archive.with_name(archive.name + ".part")
            _download(source, url or source.url, part, folder, progress)
            os.replace(part, archive)
    except OSError as error:
        raise DataError(f"cannot write {archive}: {error.strerror or error}") from error
    say = None if progress is None else lambda done, whole: progress("unpacking", done, whole)
    return unpack(archive, folder, source.folder, source.limit, say)


def _download(source: Dataset, url: str, part: Path, folder: Path, progress: Progress | None) -> None:
    """Bring the archive into the file `part`, going on from what it already holds, until its checksum is right.

    A part left by an earlier call may be of another file: then it is removed, and all of it is fetched.
    """
    inherited, failed, pause = part.exists(), 0, 0.0
    while True:
        before, whole, why = _bytes(part), False, "the connection closed early"
        try:
            whole = before >= source.size or _transfer(source, url, part, before, progress)
        except urllib.error.HTTPError as error:
            if error.code != 416 or not before:
                raise _unreachable(source, url, f"the server answers {error.code} {error.reason}", folder) from error
            whole = True  # nothing follows what is here
        except (urllib.error.URLError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", error) or type(error).__name__)
        gained = _bytes(part) - before
        failed = 0 if gained > 0 else failed + 1
        if whole or (before and failed == TRIES):  # without a word from the server, what is here may be all there is
            if (found := _md5(part, progress)) == source.md5:
                return
            if whole:
                problem = _other(source, part, found, "it was removed, fetch it again")
                part.unlink()
                if not inherited:
                    raise problem
                inherited, failed = False, 0
                continue
        if failed >= TRIES:
            raise _unreachable(source, url, why, folder)
        pause = min(2 * pause, PAUSES[1]) if pause and gained < PIECE else PAUSES[0]
        sleep(pause)


def _transfer(source: Dataset, url: str, part: Path, start: int, progress: Progress | None) -> bool:
    """One request from byte `start` on; whether the file is whole after it."""
    headers = {"User-Agent": "reprise", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with _ask(url, headers) as answer:
        done, whole = _extent(answer, start)
        if whole > source.size:
            raise _too_long(source, url, f"offers {whole:,}")
        if whole and whole < start:
            raise http.client.HTTPException(f"the server offers {whole:,} bytes, and {start:,} are here already")
        with open(part, "r+b" if start else "wb") as file:
            file.seek(done)  # a server that knows no ranges sends all of it again, over what is here
            while piece := _read(answer, min(PIECE, source.size + 1 - done)):
                file.write(piece)
                done += len(piece)
                if progress is not None:
                    progress("fetching", done, whole or source.size)
    if done > source.size:
        part.unlink()
        raise _too_long(source, url, "goes on after them")
    return done == (whole or source.size)


def _ask(url: str, headers: dict[str, str]) -> Any:
    try:
        with _network():
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE)
    except (http.client.InvalidURL, ValueError) as error:
        raise ValueError(f"{url!r} is not an address that can be asked for: {error}") from error


def _read(answer: Any, most: int) -> bytes:
    with _network():
        piece: bytes = answer.read1(most)  # what has come, so that nothing is lost when the connection ends
    return piece


@contextmanager
def _network() -> Iterator[None]:
    """Tells the network's errors from those of the disk."""
    try:
        yield
    except urllib.error.URLError:
        raise
    except OSError as error:
        raise urllib.error.URLError(error) from error


def _extent(answer: Any, start: int) -> tuple[int, int]:
    """The byte of the file with which an answer begins, and how many bytes the whole file has (0: not said)."""
    length, span = answer.headers.get("Content-Length", "0").strip(), answer.headers.get("Content-Range", "")
    if not re.fullmatch("[0-9]{1,18}", length):
        raise http.client.HTTPException(f"the server gives {length[:40]!r} as the length of its answer")
    if answer.status != 206:
        return 0, int(length)
    if not span.startswith(f"bytes {start}-"):
        raise http.client.HTTPException("the server sent another part than was asked for")
    total = re.search("/([0-9]{1,18})$", span)
    return start, int(total[1]) if total else start + int(length) if int(length) else 0


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _md5(path: Path, progress: Progress | None) -> str:
    total, whole, digest = 0, _bytes(path), hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            total += len(piece)
            if progress is not None:
                progress("checking", total, whole)
    return digest.hexdigest()


def _other(source: Dataset, path: Path, found: str, advice: str) -> DataError:
    size = _bytes(path)
    length = "" if size == source.size else f", and it has {size:,} bytes instead of {source.size:,}"
    return DataError(
        f"{source.archive} is not the published file: its MD5 is {found} instead of {source.md5}{length}; {advice}"
    )


def _too_long(source: Dataset, url: str, what: str) -> DataError:
    return DataError(f"{url} is not the published {source.archive} of {source.size:,} bytes: it {what}")


def _unreachable(source: Dataset, url: str, why: str, folder: Path) -> DataError:
    return DataError(
        f"{url} cannot be fetched now ({why}); run it again to go on where it stopped, or put {source.archive} "
        f"(MD5 {source.md5}) from {source.url} into {folder} by hand and run it then: it will be checked and unpacked"
    )
