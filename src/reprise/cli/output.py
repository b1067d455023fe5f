"""Where a command's files go: tried before the work begins, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from reprise.cli.errors import RunFailed, WrongRequest
from reprise.core.files import scratch_name, write_atomic


def check_output(path: str, option: str) -> None:
    """Make sure that a file can be written there, and leave no trace."""
    target = Path(path)
    if not path:
        raise WrongRequest(f"{option} needs the name of a file, got ''")
    if target.is_dir():
        raise WrongRequest(f"{option}: {path!r} is a folder; name a file")
    if not target.parent.is_dir():
        raise WrongRequest(f"{option}: there is no folder {str(target.parent)!r} to write {target.name!r} into")
    try:
        if target.exists() and not target.is_file():
            return  # a pipe or a device
        scratch = scratch_name(Path(os.path.realpath(target)))
        scratch.touch()
        scratch.unlink(missing_ok=True)  # somebody who ends a run in this folder may have cleared it away
    except OSError as error:
        raise WrongRequest(f"{option}: cannot write {path!r}: {error.strerror}") from error


def write_output(path: str, content: bytes) -> None:
    """Write a file whole or not at all."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe or a device must not be replaced by a file
            return
        write_atomic(os.path.realpath(target), lambda file: file.write(content))
    except OSError as error:
        raise RunFailed(f"cannot write {path!r}: {error.strerror}") from error
