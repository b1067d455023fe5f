"""The command line: `reprise audit`, `train`, `study`, `data`, `demo`, `bench`.

Each command is a frozen dataclass in a module of its own, and its `run` gives the exit status: 0 done, 1 a run failed,
2 the request was wrong. What a command works with is imported when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from reprise import __version__
from reprise.cli.errors import RunFailed, WrongRequest

__all__ = ["RunFailed", "WrongRequest", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors are sentences on standard error."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"reprise {__version__}")
        return 0
    _let_any_text_out()
    from reprise.cli.tree import parse

    try:
        command = parse(arguments)
        status = 0 if command is None else command.run()
        sys.stdout.flush()
        return status
    except (WrongRequest, ValueError) as error:
        return _say(error, 2)
    except (RunFailed, RuntimeError) as error:
        return _say(error, 1)
    except KeyboardInterrupt:
        return _say("stopped before it was done", 130)
    except BrokenPipeError:
        # Whoever read the output has left, as `head` does. Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("REPRISE_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _say(f"this went wrong, unforeseen: {what} (REPRISE_DEBUG=1 shows where)", 1)


def _say(sentence: object, status: int) -> int:
    print(f"reprise: {sentence}", file=sys.stderr)
    return status


def _let_any_text_out() -> None:
    """Where the terminal's encoding lacks a sign, print another in its place rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
