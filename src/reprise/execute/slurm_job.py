"""What a job of a cluster does: it makes a share of runs, and leaves each outcome in a folder as the run ends.

Outcomes are pickled, as all is that submitit sends to jobs and back, and lie in the same folder. Only the campaign that
submitted the job reads them; what is to stay is a record in a store.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import pickle
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reprise.core.files import write_atomic
from reprise.execute.executor import Executor
from reprise.execute.one import ImageSource
from reprise.execute.remote import RemoteMaker, Task


def on_cores(images: ImageSource, jobs: int) -> Executor:
    """The executor of a job with several cores: a process for each."""
    from reprise.execute.processes import Processes

    return Processes(jobs, images)


def on_gpus(images: ImageSource, gpus: int, lanes: int | None) -> Executor:
    """The executor of a job with GPUs: a fleet on each."""
    from reprise.execute.gpus import GPUs

    return GPUs([f"cuda:{number}" for number in range(gpus)] if gpus > 1 else ["cuda"], images, lanes=lanes)


class ShareJob:
    """Makes a share of runs in a job. What has ended when the job is requeued is not made again."""

    def __init__(self, maker: RemoteMaker, share: Sequence[Task], spool: Path) -> None:
        self.maker, self.spool = maker, spool
        self.left = dict(enumerate(share))
        self.command = sys.argv  # of the campaign, which records name

    def __call__(self) -> None:
        from submitit.core.utils import UncompletedJobError

        atexit.register(gc.freeze)  # or Python looks through all of torch for cycles on its way out
        sys.argv = self.command
        for ended in outcome_files(self.spool):  # before the job was begun again
            self.left.pop(ended, None)
        numbers = {run: number for number, (run, _) in self.left.items()}
        with _signals_heard_here():
            for end in self.maker(list(self.left.values()), lambda _: None):
                if isinstance(end.outcome.error, UncompletedJobError):  # of the job: its time is over
                    raise end.outcome.error
                number = numbers[end.outcome.run]
                write_atomic(self.spool / f"{number}.outcome", partial(pickle.dump, end))
                del self.left[number]

    def checkpoint(self) -> Any:
        """What submitit is to submit again when the job is preempted or its time is over: what is left of it.

        Runs go on from the checkpoints that they have written on the way, so there is nothing to write now.
        """
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def outcome_files(spool: Path) -> dict[int, Path]:
    """The outcomes that lie there, by their number in the share; an empty file is one that has been read."""
    return {int(path.stem): path for path in sorted(spool.glob("[!.]*.outcome"))}


@contextlib.contextmanager
def _signals_heard_here() -> Iterator[None]:
    """Within it, SIGTERM is ignored by the processes that this one begins, too.

    A scheduler sends it to all processes of a job some time before it ends the job; submitit waits for another signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
