"""Fetching a data set from its home: resumed where it stopped, checked before use, unpacked with care."""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from .archive import unpack
from .errors import DataError
from .loading import find
from .sources import Source, find_source

PIECE = 1 << 18
PATIENCE = 30.0  # seconds without a byte
TRIES = 3  # in a row without a byte gained

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: not known)."""


def fetch(name: str, root: str | os.PathLike[str], *, url: str | None = None, progress: Progress | None = None) -> Path:
    """Bring a data set into the folder `root` and return its own folder there.

    A folder that is there is left as it is. An archive that already lies in `root` is used; `url` names a mirror.
    Either way the archive's checksum must be the published one. A transfer that stopped goes on where it stopped when
    fetched again.
    """
    source = find_source(name)
    if not source.url:
        raise ValueError(f"{name} is drawn when it is used: there is nothing to fetch")
    folder = Path(root).expanduser()
    if (there := find(source, folder)) is not None:
        return there
    archive = folder / source.archive
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.is_file():
            part = archive.with_name(archive.name + ".part")
            _download(source, url or source.url, part, folder, progress)
            _verify(source, part, folder, progress)
            os.replace(part, archive)
        else:
            _verify(source, archive, folder, progress)
    except OSError as error:
        raise DataError(f"cannot write {archive}: {error.strerror or error}") from error
    say = None if progress is None else lambda done, whole: progress("unpacking", done, whole)
    return unpack(archive, folder, source.folder, source.limit, say)


def _download(source: Source, url: str, part: Path, folder: Path, progress: Progress | None) -> None:
    """Bring the whole of `url` into the file `part`, going on from what it already holds."""
    failed = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _transfer(url, part, before, progress):
                return
            why = "the connection closed early"
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:  # what is here reaches past the end: begin again
                part.unlink()
                continue
            raise _unreachable(source, url, f"the server answers {error.code} {error.reason}", folder) from error
        except (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError) as error:
            why = str(getattr(error, "reason", error) or type(error).__name__)
        gained = (part.stat().st_size if part.exists() else 0) > before
        failed = 0 if gained else failed + 1
        if failed >= TRIES:
            raise _unreachable(source, url, why, folder)


def _transfer(url: str, part: Path, start: int, progress: Progress | None) -> bool:
    """One request from byte `start` on; whether the file is whole after it."""
    request = urllib.request.Request(url, headers={"User-Agent": "reprise", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        goes_on = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if answer.status == 206 and not goes_on:
            raise http.client.HTTPException("the server sent another part than was asked for")
        done = start if goes_on else 0  # a server that knows no ranges sends all of it again
        length = answer.headers.get("Content-Length")
        whole = done + int(length) if length else 0
        with open(part, "ab" if goes_on else "wb") as file:
            while piece := answer.read(PIECE):
                file.write(piece)
                done += len(piece)
                if progress is not None:
                    progress("fetching", done, whole)
    return not whole or done >= whole


def _verify(source: Source, path: Path, folder: Path, progress: Progress | None) -> None:
    """Compare the file's checksum with the published one; a fetched file with a wrong one is removed."""
    total, whole, digest = 0, path.stat().st_size, hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            total += len(piece)
            if progress is not None:
                progress("checking", total, whole)
    if digest.hexdigest() == source.md5:
        return
    fetched = path.suffix == ".part"
    if fetched:
        path.unlink()
    raise DataError(
        f"{path.name.removesuffix('.part')} is not the published file: its MD5 is {digest.hexdigest()} instead of "
        f"{source.md5}; "
        + ("it was removed, fetch it again" if fetched else f"remove it from {folder}, and get it from {source.url}")
    )


def _unreachable(source: Source, url: str, why: str, folder: Path) -> DataError:
    return DataError(
        f"{url} cannot be fetched now ({why}); run it again to go on where it stopped, or put {source.archive} "
        f"(MD5 {source.md5}) from {source.url} into {folder} by hand and run it then: it will be checked and unpacked"
    )
