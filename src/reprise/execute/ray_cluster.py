"""The connection to a Ray cluster, and what runs on its nodes."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from reprise.core.extras import NotInstalled, not_installed
from reprise.execute.processes import cores
from reprise.execute.remote import RemoteMaker, RemoteOutcome, Task
from reprise.runs.run import Run

OPTIONS = ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness")
"""What is 0 for a cluster that is started here, unless the environment says otherwise."""
PATIENCE = 10.0
"""Seconds in which a cluster must answer."""


def load_ray() -> Any:
    """The package ray."""
    try:
        import ray
    except ModuleNotFoundError:
        raise NotInstalled(not_installed("runs on a Ray cluster need ray", "ray"), name="ray") from None
    return ray


@contextlib.contextmanager
def connected(address: str | None, jobs: int | None, runtime_env: dict[str, Any] | None) -> Iterator[None]:
    """Within it there is a connection to a cluster; one that was made for it ends with it, as does its cluster."""
    ray = load_ray()
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"runtime_env": runtime_env, "log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # An address in the environment would be taken for the one that was asked for.
        options |= {"address": "local", "num_cpus": jobs or len(cores()), "include_dashboard": False}
    else:
        _check_address(address)
        options["address"] = address
    try:
        with _as_before():
            logging.getLogger("ray").setLevel(logging.ERROR)
            try:
                ray.init(**options)
            except ConnectionError as error:
                why = str(error).partition("\n")[0]
                raise ValueError(f"no Ray cluster answers at {address or 'this machine'!r}: {why}") from None
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address at which nobody answers: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal()):
        return  # `auto`, or something that Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"no Ray cluster answers at {address!r}: {error}") from None


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Within it Ray is started; it sets a handler for SIGTERM, which is this program's, and reports its use.

    A cluster started here gives its workers the priority of this process: at Ray's own, they would wait for whatever
    else the machine does.
    """
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    unset = [name for name in OPTIONS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "0"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]
        if main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


class Mailbox:
    """An actor on the campaign's node: tasks tell it of steps and of runs that have ended, and the campaign asks."""

    def __init__(self) -> None:
        self.steps = self.told = 0
        self.ended: dict[int, tuple[int, RemoteOutcome]] = {}  # in order, until the campaign has them
        self.known: dict[int, set[Run]] = {}

    def tell(self, steps: int) -> None:
        self.steps += steps

    def add(self, share: int, back: RemoteOutcome) -> None:
        self.ended[self.told] = share, back
        self.told += 1
        self.known.setdefault(share, set()).add(back.outcome.run)

    def among(self, share: int) -> set[Run]:
        """Runs of a share that have ended: a task that is started again leaves them out."""
        return self.known.get(share, set())

    def take(self, have: int) -> tuple[int, list[tuple[int, RemoteOutcome]]]:
        """All steps made so far, and what has ended beside the first `have`, which the campaign has."""
        self.ended = {number: told for number, told in self.ended.items() if number >= have}
        return self.steps, list(self.ended.values())


def make_mailbox() -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray = load_ray()
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Mailbox).remote()


def make_share(maker: RemoteMaker, share: Sequence[Task], number: int, mailbox: Any) -> list[RemoteOutcome]:
    """On a node: make a share. A single run is returned; several are told of as they end, and what could not be, is."""
    ray = load_ray()

    def tick(steps: int) -> None:
        mailbox.tell.remote(steps)

    if len(share) == 1:
        return list(maker(share, tick))
    with contextlib.suppress(ray.exceptions.RayError):
        ended = ray.get(mailbox.among.remote(number))
        share = [(run, job) for run, job in share if run not in ended]
    late = []
    for back in maker(share, tick):
        try:
            ray.get(mailbox.add.remote(number, back))
        except ray.exceptions.RayError:
            late.append(back)
    return late
