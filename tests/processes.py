"""Commands in processes of their own, and what the process table says of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

needs_table = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc to look at")
PYTHON: dict[str, str] = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}


@contextlib.contextmanager
def started(*command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A Python command as the leader of a group of processes, none of which is left behind."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    environment = {**os.environ, **PYTHON, **more}
    with subprocess.Popen([sys.executable, *command], env=environment, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def group(leader: int) -> dict[int, str]:
    """Every process of the leader's group but itself, with its command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(number) == leader != int(folder.name) and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


def workers(leader: int) -> set[int]:
    """The processes that multiprocessing began, its own helper apart."""
    return {number for number, line in group(leader).items() if "spawn_main" in line}


def wait_until(true: Callable[[], object], seconds: float = 120.0) -> float:
    """Wait for something to be so; gives the seconds it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not come about"
        time.sleep(0.01)
    return time.monotonic() - began


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Within it, every core has something else to do."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        for loop in loops:
            os.setpriority(os.PRIO_PROCESS, loop.pid, 5)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# What a worker can be asked to do.


def make_echo(number: int) -> Callable[[Any, Callable[[Any], None]], Any]:
    """Gives back what comes, with the process that does it; words make it tell, fail, or end itself."""

    def task(item: Any, tell: Callable[[Any], None]) -> Any:
        if item == "tell":
            tell("half")
        if item == "fail":
            raise Stubborn(1, 2)
        if item == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "sleep":
            time.sleep(600)
        return item, number, os.getpid()

    return task


WITHIN_TORCH = """
import os, signal, sys

def sends(frame, event, argument):
    if event == "c_call" and getattr(argument, "__name__", "") == "_c10d_init":
        sys.setprofile(kills)

def kills(frame, event, argument):
    sys.setprofile(None)
    print("sent", flush=True)
    os.kill(os.getpid(), signal.SIGNAL)

sys.setprofile(sends)
"""
"""Has this process send itself a signal from within C++ code, called as torch is imported, that expects no error."""


def make_stopped_importers(number: int) -> Callable[[Any, Any], Any]:
    """Tasks that import torch, and are sent a signal while they do."""

    def task(item: Any, tell: Any) -> Any:
        exec(WITHIN_TORCH.replace("SIGNAL", item), {})
        import torch

        time.sleep(60)
        return torch.__version__

    return task


def make_nothing(number: int) -> Any:
    raise ValueError(f"process {number} has no tools")


class Stubborn(Exception):
    """An error that no other process can make again from its words."""

    def __init__(self, one: object, other: object) -> None:
        super().__init__(f"{one} and {other}")


def make_locks(number: int) -> Callable[[Any, Any], Any]:
    """Tasks whose results cannot be sent to another process."""
    return lambda item, tell: threading.Lock()


def make_pool(number: int) -> Callable[[Any, Any], Any]:
    """Tasks that are lists, whose items other processes echo."""
    from reprise.core.workers import Pool

    def task(items: list[Any], tell: Any) -> list[Any]:
        with Pool[Any](make_echo, 1) as pool:
            return [result[0] for _, result in pool.results(items)]

    return task


FATAL = """
import multiprocessing, os, signal

from reprise.core.registry import register
from reprise.memory.retrieval.uniform import Uniform


@register("retrieval", "fatal")
class Fatal(Uniform):
    def start(self, source, index):
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        super().start(source, index)


@register("retrieval", "broken")
class Broken(Uniform):
    def draw(self, n, index, score):
        return [1 // 0]
"""
"""A module of policies: one that ends a worker of somebody's, and one that raises what nobody expects."""
