"""Unpacking an archive that is not trusted: plain files below one folder, within a limit, all of them or none."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import DataError

PIECE = 1 << 20
MOST_FILES = 500_000
ENCRYPTED = 0x1 | 0x40  # flags of an entry of a zip: with a password, or strongly


def unpack(
    archive: Path, into: Path, folder: str, limit: int, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Unpack `archive`, which holds one folder called `folder`, to `into/folder`, and return that.

    The folder appears when everything is unpacked. An archive with an absolute path, a way out of the folder, a link or
    a device is refused, and so is one of more than `limit` bytes; nothing is left of it then.
    """
    target = into / folder
    scratch = into / f".{folder}.{os.getpid()}.part"
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            left = limit
            for number, (name, file, whole) in enumerate(_entries(archive)):
                place = scratch.joinpath(*_parts(archive, name, folder))
                if number >= MOST_FILES:
                    raise DataError(f"{archive} is refused: it holds more than {MOST_FILES:,} files")
                if file is None:
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with file, open(place, "xb") as copy:
                    while piece := _piece(archive, file):
                        left -= len(piece)
                        if left < 0:
                            raise DataError(f"{archive} is refused: it unpacks to more than {limit:,} bytes")
                        copy.write(piece)
                if progress is not None:
                    progress(number + 1, whole)
            if not (scratch / folder).is_dir():
                raise DataError(f"{archive} does not hold the folder {folder}")
            os.replace(scratch / folder, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except FileExistsError as error:
        twice = os.path.relpath(error.filename, scratch)
        raise DataError(f"{archive} is refused: it holds {twice} twice") from error
    except OSError as error:
        raise DataError(f"cannot unpack {archive} into {into}: {error.strerror or error}") from error
    return target


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Makes a sentence of what goes wrong while an archive is read: a damaged one can fail in any way at all."""
    try:
        yield
    except DataError:
        raise
    except NotImplementedError as error:  # by zipfile, of a method of packing; not every Python has all of them
        raise DataError(f"{archive} cannot be unpacked by this Python: {_sentence(error)}") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault
            raise
        raise DataError(f"{archive} is damaged: {_sentence(error)}") from error


def _piece(archive: Path, file: IO[bytes]) -> bytes:
    with _reading(archive):
        return file.read(PIECE)


def _entries(archive: Path) -> Iterator[tuple[str, IO[bytes] | None, int]]:
    """Of each entry: its name, its content (None: a folder), and how many entries there are (0: not known)."""
    with _reading(archive):
        yield from _zip_entries(archive) if zipfile.is_zipfile(archive) else _tar_entries(archive)


def _zip_entries(archive: Path) -> Iterator[tuple[str, IO[bytes] | None, int]]:
    with zipfile.ZipFile(archive) as packed:
        entries = packed.infolist()
        for entry in entries:
            kind = entry.external_attr >> 16 & 0o170000  # the Unix file type, 0 when it was not written down
            if kind not in (0, 0o100000, 0o040000):
                raise _refused(archive, entry.filename)
            if entry.flag_bits & ENCRYPTED:
                raise DataError(f"{archive} is refused: its entry {entry.filename!r} is encrypted")
            # The original name: ZipFile itself would mend or cut some names, and they must be refused.
            yield entry.orig_filename, None if entry.is_dir() else packed.open(entry), len(entries)


def _tar_entries(archive: Path) -> Iterator[tuple[str, IO[bytes] | None, int]]:
    with tarfile.open(archive) as tape:
        for member in tape:
            if member.isdir():
                yield member.name, None, 0
            elif member.isreg() and not member.issparse():
                yield member.name, tape.extractfile(member), 0
            else:
                raise _refused(archive, member.name)


def _parts(archive: Path, name: str, folder: str) -> list[str]:
    parts = name.rstrip("/").split("/")
    if parts[0] == ".":  # as in ./cifar-10-batches-py
        parts = parts[1:]
    if not parts:
        return []
    unsafe = name.startswith("/") or any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\0]", name)
    if unsafe or parts[0] != folder:
        raise DataError(f"{archive} is refused: its entry {name!r} would lie outside the folder {folder}")
    return parts


def _refused(archive: Path, name: str) -> DataError:
    return DataError(f"{archive} is refused: its entry {name!r} is a link or a device, not a file")


def _sentence(error: Exception) -> str:
    said = str(error).rstrip(".")
    return said[:1].lower() + said[1:] if said else type(error).__name__
