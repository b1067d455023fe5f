"""Processes that work for this one: they take one task after the other, and end when it ends, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from reprise.core.stopping import Raising

Item = TypeVar("Item")
Tell = Callable[[Any], None]
Make = Callable[[int], Callable[[Any, Tell], Any]]

GRACE = 0.8  # seconds that a process which is stopped has to clear away what it was writing
_PATIENCE = 10.0  # seconds that one which has nothing left to do has to end by itself
_STOPPED, _UNGUARDED = 143, 79  # exit statuses: it was told to end; it came upon the call that began it
_READY, _BEGUN, _TOLD, _DONE = range(4)  # words of a process
_NAME = "reprise worker"
_PR_SET_PDEATHSIG = 1
# Signals that reach all processes at once, from a terminal or from a scheduler such as Slurm. They are the parent's to
# hear, which stops its workers.
_OF_THE_PARENT = {getattr(signal, name) for name in ("SIGINT", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)}
_GUARD = (
    "this script begins processes while it is read, and each of them reads it again: put what it does under "
    '`if __name__ == "__main__":`'
)


class WorkerLost(RuntimeError):
    """A process ended before its task did, or none could begin."""


class NoMainGuard(RuntimeError):
    """A script begins processes when it is read, so that each of them would begin others."""


def check_main_guard() -> None:
    """End this process, silently, if it is a worker that still reads the script of its parent, which will say why."""
    process = multiprocessing.current_process()
    if process.name == _NAME and getattr(process, "_inheriting", False):
        raise SystemExit(_UNGUARDED)


class Pool(Generic[Item]):
    """Processes that do one task after the other, each for itself.

    In process number n, `make(n)` gives the function that does its tasks. That is called with a task, and with a
    function by which it can tell how far it is. A process that is lost takes only its own task with it. Leaving the
    context ends the processes: at once, if by an error. If this process is killed, they end as well. Tasks may be
    submitted by one thread while another asks for news.
    """

    def __init__(self, make: Make, jobs: int) -> None:
        check_main_guard()
        self._make = make
        self._waiting: deque[Item] = deque()
        self._source: Iterator[Item] = iter(())  # of tasks that are asked for when a process is free
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []
        self._closing = False
        self._why: Exception | None = None  # of the last process that did not come as far as to begin
        try:
            for number in range(jobs):
                self._hire(number)
        except BaseException:
            self._end(stop=True)
            raise

    def __enter__(self) -> Pool[Item]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end(stop=error is not None)

    def submit(self, item: Item) -> None:
        """Have a task done, after those that wait already, while `poll` is called."""
        self._waiting.append(item)

    def results(self, items: Iterable[Item], told: Callable[[Any], None] | None = None) -> Iterator[tuple[Item, Any]]:
        """Have these tasks done, the last ones: each with its result, or the exception in its way, as it ends.

        A task is asked for when a process is about to be free for it, and not before.
        """
        for ended in self.rounds(items, told):
            yield from ended

    def rounds(
        self, items: Iterable[Item], told: Callable[[Any], None] | None = None
    ) -> Iterator[list[tuple[Item, Any]]]:
        """As `results`, but whenever there is news: what has ended, which may be nothing where only words were told."""
        self._source = iter(items)
        while True:
            self._closing = not self._more()
            if self._closing and not any(worker.busy for worker in self._workers):
                return
            yield self.poll(told=told)

    def _more(self) -> bool:
        """Whether a task waits; the next one is asked for only now, so that tasks can be decided on late."""
        if not self._waiting:
            with contextlib.suppress(StopIteration):
                self._waiting.append(next(self._source))
        return bool(self._waiting)

    def poll(self, timeout: float | None = None, told: Callable[[Any], None] | None = None) -> list[tuple[Item, Any]]:
        """Tasks that have ended, each with its result or the exception in its way; waits for news, at most so long."""
        ended: list[tuple[Item, Any]] = []
        self._hand_out()
        if not self._workers and not self._waiting and timeout is not None:
            time.sleep(timeout)  # nobody is left who could have news
        heard = wait([worker.pipe for worker in self._workers], timeout) if self._workers else []
        for worker in [worker for worker in self._workers if worker.pipe in heard]:
            kind, word = worker.receive()
            if kind == _READY:
                worker.send(self._make)
            elif kind == _TOLD and told is not None:
                told(word)
            elif kind == _BEGUN and isinstance(word, Exception):
                self._lose(worker, word)
            elif kind == _BEGUN:
                worker.begun = True
            elif kind == _DONE:
                ended.append((worker.item, word))
                worker.busy = False
            elif kind is None:
                if worker.busy:
                    ended.append((worker.item, word))
                self._lose(worker, word)
        self._hand_out()  # before whoever asked does anything with what has ended
        if not self._workers and self._waiting:
            ended += [(item, WorkerLost(f"no process could begin: {self._why}")) for item in self._waiting]
            self._waiting.clear()
        return ended

    def _hire(self, number: int) -> None:
        self._workers.append(_Worker(number))
        self._workers[-1].start()

    def _hand_out(self) -> None:
        for worker in [worker for worker in self._workers if worker.begun and not worker.busy]:
            if self._more():
                worker.item, worker.busy = self._waiting.popleft(), True
                worker.send(worker.item)
            elif self._closing:
                self._dismiss(worker)

    def _dismiss(self, worker: _Worker) -> None:
        worker.pipe.close()
        self._workers.remove(worker)
        self._leaving.append(worker)

    def _lose(self, worker: _Worker, why: Exception) -> None:
        self._dismiss(worker)
        if worker.process.exitcode == _UNGUARDED:
            raise NoMainGuard(_GUARD)
        if not worker.begun:
            self._why = why
        elif self._waiting or not self._closing:
            self._hire(worker.number)

    def _end(self, *, stop: bool) -> None:
        for worker in self._workers:
            if stop or not worker.begun:
                worker.stop()
        for worker in [*self._workers]:
            self._dismiss(worker)
        until = time.monotonic() + (GRACE if stop else _PATIENCE)
        for worker in self._leaving:
            worker.join(until)
        self._leaving.clear()


class _Worker:
    """A process, and what is known of it."""

    def __init__(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.number = number
        self.begun = self.busy = False
        self.item: Any = None
        self.pipe, self.theirs = context.Pipe()
        # The kernel ends a process when the thread that began it ends, so this is for the main thread alone.
        tied = threading.current_thread() is threading.main_thread()
        self.process = context.Process(target=_work, args=(self.theirs, number, tied), name=_NAME, daemon=True)

    def start(self) -> None:
        with _undisturbed(), self.theirs:
            self.process.start()

    def send(self, word: Any) -> None:
        with contextlib.suppress(OSError):  # it is gone already, which will be heard
            self.pipe.send(word)

    def receive(self) -> tuple[int | None, Any]:
        """What kind of word comes next, and the word; no kind if the process is gone, and how it ended."""
        try:
            kind, word = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            status = self.process.exitcode
            killed = ": killed, perhaps for want of memory; fewer jobs need less" if status == -9 else ""
            before = "before it was done" if self.busy else "before it could begin; what it printed may say why"
            return None, WorkerLost(f"its process ended with status {status} {before}{killed}")
        return kind, word

    def stop(self) -> None:
        if self.process.pid is not None:
            self.process.terminate()

    def join(self, until: float) -> None:
        """Wait for the process to end, and have it end if it has not by then."""
        if self.process.pid is None:
            return
        self.process.join(max(0.0, until - time.monotonic()))
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Within it an interrupt waits, and a process that is begun will not hear of one: it has no say in it yet."""
    held: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, lambda caught, _: held.append(caught))
    mask = None
    try:
        if hasattr(signal, "pthread_sigmask"):
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()  # which would undo the mask if it were begun later
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_PARENT)
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for known, handler in before.items():
            signal.signal(known, handler)
    for caught in held:
        signal.raise_signal(caught)


# In a worker.


def _work(pipe: Connection, number: int, tied: bool) -> None:
    """Do the tasks that come, until none comes any more."""
    atexit.register(gc.freeze)  # or Python looks through all of torch for cycles on its way out, and others wait
    for heard in _OF_THE_PARENT:
        signal.signal(heard, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_PARENT)
    _exit_with_parent(tied)
    multiprocessing.current_process().daemon = False  # or it could have no workers of its own, which end with it

    def tell(word: Any) -> None:
        pipe.send((_TOLD, word))

    with contextlib.suppress(EOFError, OSError):  # the parent is gone, or has nothing left to do
        pipe.send((_READY, None))
        try:
            task = pipe.recv()(number)
        except Exception as error:
            pipe.send((_BEGUN, portable(error)))
            return
        try:
            if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:  # or the parent ignores it, and so do its processes
                signal.signal(signal.SIGTERM, Raising(_Stop))
            pipe.send((_BEGUN, None))
            while True:
                item = pipe.recv()
                try:
                    word = task(item, tell)
                    pickle.dumps(word)
                except Exception as error:
                    word = portable(error)
                pipe.send((_DONE, word))
        except _Stop:
            os._exit(_STOPPED)


class _Stop(BaseException):
    """This process is to end, as soon as what it was writing is cleared away."""


def _exit_with_parent(tied: bool) -> None:
    """Have this process not outlive its parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is a process that multiprocessing began"
    if tied and sys.platform == "linux":  # this needs no turn of the interpreter, which a long call may hold
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent.pid:  # it went before this was asked for
            os._exit(1)

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def portable(error: Exception) -> Exception:
    """The error, or one with its words if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
