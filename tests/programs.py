"""Programs that people are shown, each in a process of its own, forked from one that has imported torch.

Importing torch and what its optimisers import takes two seconds of processor time, which is more than most of these
programs take. The process that forks has imported nothing else: a program's own imports are made when it runs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

SECONDS = 300.0


class Programs:
    """Runs Python files, one at a time, with every warning an error."""

    def __init__(self) -> None:
        self.environment = {
            **os.environ,
            "MPLBACKEND": "agg",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONWARNINGS": "error",
        }
        self._server: subprocess.Popen[bytes] | None = None

    def run(self, file: Path, cwd: Path) -> str:
        """What the program printed, once it has ended well."""
        status, printed, errors = self._forked(file, cwd) if sys.platform == "linux" else self._plain(file, cwd)
        assert status == 0, f"{printed}{errors}{file} ended with status {status}"
        return printed

    def close(self) -> None:
        if self._server is not None:
            with self._server:
                assert self._server.stdin is not None
                self._server.stdin.close()
            self._server = None

    def _plain(self, file: Path, cwd: Path) -> tuple[int, str, str]:
        command = [sys.executable, str(file)]
        done = subprocess.run(
            command, cwd=cwd, env=self.environment, capture_output=True, encoding="utf-8", timeout=SECONDS
        )
        return done.returncode, done.stdout, done.stderr

    def _forked(self, file: Path, cwd: Path) -> tuple[int, str, str]:
        if self._server is None:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            command = [sys.executable, __file__]
            self._server = subprocess.Popen(command, env=self.environment, start_new_session=True, **pipes)
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"file": str(file), "cwd": str(cwd), "out": str(out), "err": str(err)}
            out.touch()
            err.touch()
            server.stdin.write(json.dumps(asked).encode() + b"\n")
            server.stdin.flush()
            if not select.select([server.stdout], [], [], SECONDS)[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)
            status = int(server.stdout.readline() or -signal.SIGKILL)
            if status == -signal.SIGKILL:  # of the program, perhaps of the other as well
                self.close()
            return status, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


def _serve() -> str | None:
    """Fork for every program that is asked for; in the process that is to run one, the program's file."""
    with contextlib.suppress(ModuleNotFoundError):
        import torch._dynamo  # noqa: F401  # which any optimiser imports
    gc.freeze()  # what is here now is shared by all

    for line in sys.stdin.buffer:
        asked = json.loads(line)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, of a process that has threads
            number = os.fork()
        if number == 0:
            for descriptor, name in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
                opened = os.open(name, os.O_RDWR)
                os.dup2(opened, descriptor)
                os.close(opened)
            os.chdir(asked["cwd"])
            sys.argv = [asked["file"]]
            sys.path[0] = str(Path(asked["file"]).parent)
            return str(asked["file"])
        status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        os.write(1, f"{status}\n".encode())
    return None


def _run(file: str) -> None:
    """Run a program to its end, but leave modules in place: taking all of torch apart takes as long as importing it."""
    status = 1
    try:
        runpy.run_path(file, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        print(*([end.code] if isinstance(end.code, str) else []), file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__" and (_file := _serve()) is not None:
    _run(_file)
