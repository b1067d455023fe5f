"""The ways in which a command ends badly, each with a sentence for the person who typed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reprise.core.errors import reason
from reprise.core.extras import NotInstalled


class WrongRequest(Exception):
    """What was asked cannot be done; nothing was begun. Exit status 2."""


class RunFailed(Exception):
    """What was asked was begun and failed. Exit status 1."""


class Terminated(KeyboardInterrupt):
    """The system asked this process to end (SIGTERM), which it does as for an interrupt from the keyboard."""


@contextmanager
def request() -> Iterator[None]:
    """Within it, a bad value is a wrong request."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise WrongRequest(str(error)) from error


@contextmanager
def work() -> Iterator[None]:
    """Within it, whatever goes wrong is a failed run, but for a package that is missing."""
    try:
        yield
    except (RunFailed, NotInstalled):
        raise
    except MemoryError as error:
        raise RunFailed("a run failed: this machine's memory does not suffice; try a smaller buffer") from error
    except Exception as error:
        raise RunFailed(f"a run failed: {reason(error)}") from error
