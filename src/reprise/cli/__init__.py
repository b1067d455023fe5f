"""The command line: `reprise audit`, `train`, `study`, `runs`, `data`, `demo`, `bench`.

Each command is a frozen dataclass in a module of its own, and its `run` gives the exit status: 0 done, 1 a run failed,
2 the request was wrong; one that was stopped ends with 130 (SIGINT) or 143 (SIGTERM). What a command works with is
imported when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from reprise import __version__
from reprise.cli.errors import RunFailed, Terminated, WrongRequest
from reprise.core.errors import full_reason
from reprise.core.extras import NotInstalled
from reprise.core.plugins import load_modules
from reprise.core.stopping import Raising

__all__ = ["RunFailed", "WrongRequest", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors are sentences on standard error."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"reprise {__version__}")
        return 0
    if argv is None:
        atexit.register(gc.freeze)  # or Python looks through all of torch for cycles on its way out
    _let_any_text_out()
    try:
        with _signals():
            from reprise.cli.tree import parse

            command = parse(_with_imports(arguments))
            status = 0 if command is None else command.run()
            sys.stdout.flush()
            return status
    except (NotInstalled, WrongRequest, ValueError) as error:
        return _say(error, 2)
    except (RunFailed, RuntimeError) as error:
        return _say(error, 1)
    except KeyboardInterrupt as stop:
        status = _say("stopped before it was done", 143 if isinstance(stop, Terminated) else 130)
        if argv is None:
            _leave(status)
        return status
    except BrokenPipeError:
        # Whoever read the output has left, as `head` does. Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("REPRISE_DEBUG"):
            raise
        return _say(f"this went wrong, unforeseen: {full_reason(error)} (REPRISE_DEBUG=1 shows where)", 1)


def _with_imports(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--import MODULE`, which every command takes: these modules are loaded now."""
    rest, names, given = [], [], iter(arguments)
    for argument in given:
        option, equals, value = argument.partition("=")
        if option != "--import":
            rest.append(argument)
            continue
        value = value if equals else next(given, "")
        if not value or value.startswith("--"):
            raise WrongRequest("--import needs a value, the name of a module or the path of a .py file")
        names += value.split(",")
    try:
        load_modules(names)
    except ValueError as error:
        raise WrongRequest(f"--import: {error}") from error
    return rest


@contextmanager
def _signals() -> Iterator[None]:
    """Within it, SIGTERM clears away what an interrupt clears away, and neither interrupts an import.

    Programs that call `main` keep their own way with these signals.
    """
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
            before[signal.SIGINT] = signal.signal(signal.SIGINT, Raising(KeyboardInterrupt))
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, Raising(Terminated))
    try:
        yield
    finally:
        for number, default in before.items():
            signal.signal(number, default)


def _say(sentence: object, status: int) -> int:
    sys.stderr.write(f"reprise: {sentence}\n")  # in one go: several processes may write to one terminal
    sys.stderr.flush()
    return status


def _leave(status: int) -> None:
    """End this program at once: Python would take torch apart first, for a second or more, and others may wait."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _let_any_text_out() -> None:
    """Where the terminal's encoding lacks a sign, print another in its place rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
