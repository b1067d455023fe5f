"""Processes that work for another one: they leave interrupts to it, and do not outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable


def serve(last: Callable[[], object] = lambda: None) -> None:
    """Make this process a worker of its parent; it does one last thing if the parent is gone before it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard's interrupt reaches the parent, which stops its workers
    follow(last)


def follow(last: Callable[[], object] = lambda: None) -> None:
    """Have this process not outlive its parent; it does one last thing when the parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is a process that multiprocessing began"

    def wait() -> None:
        parent.join()
        last()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
