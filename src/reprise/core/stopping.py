"""Signals that stop a process, by an exception that is raised where that is safe."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from types import FrameType

_LATER = 0.05  # seconds after which a signal that came during an import is sent again
_IMPORT = "<frozen importlib._bootstrap>"


class Raising:
    """A signal handler that raises this exception, but not during an import: only after that.

    Importing torch or NumPy runs C++ and Cython code that calls Python. An exception that it does not expect aborts the
    process, or is lost. If the signal comes once more it is raised at once, for a module of anybody's may take long. An
    import that was under way when the handler was made does not count.
    """

    def __init__(self, stop: type[BaseException]) -> None:
        self._stop = stop
        self._begun = _imports(sys._getframe())
        self._waits = self._sent = False  # whether a signal waits, and whether the next one is this one again

    def __call__(self, number: int, frame: FrameType | None) -> None:
        once_more, self._sent = self._waits and not self._sent, False
        self._waits = not once_more and _imports(frame) > self._begun
        if not self._waits:
            raise self._stop
        # Not threading.Thread: to start one takes a lock, and the interrupted code may hold it.
        _thread.start_new_thread(self._send_again, (number,))

    def _send_again(self, number: int) -> None:
        time.sleep(_LATER)
        if not self._waits:
            return
        self._sent = True
        main = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main is not None:
            signal.pthread_kill(main, number)  # to the main thread itself, so that a call it waits in is interrupted
        else:
            signal.raise_signal(number)


def _imports(frame: FrameType | None) -> int:
    """How many frames of imports are under way where this frame is."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename == _IMPORT
        frame = frame.f_back
    return found
