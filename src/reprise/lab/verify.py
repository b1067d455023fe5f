"""Tapes planned again: does the replay sequence that a record names follow from its settings?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.errors import reason
from reprise.core.files import Record
from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.workers import Pool
from reprise.data import find_dataset, present
from reprise.data.loading import folder_labels
from reprise.execute.one import ImageSource
from reprise.runs.images import Root, first_of_each
from reprise.runs.plan import make_stream, make_tape
from reprise.runs.run import Run
from reprise.streams import label_stream
from reprise.streams.datasets import looks_like_path


@dataclass(frozen=True)
class TapeCheck:
    """What came of planning the tape of a record again."""

    identity: str
    name: str
    recorded: str
    found: str
    """The hash of the tape now; empty if it could not be planned."""
    why: str = ""
    """Why it could not be planned."""
    scored: bool = False
    """Whether its memory asks the network, so that there is nothing to plan."""

    @property
    def same(self) -> bool:
        return bool(self.found) and self.recorded == self.found


def is_known(record: Record) -> bool:
    """Whether a record's identity is that of its settings and data, as this version makes it."""
    try:
        return bool(Run.from_dict(record["run"]).identity(record["data"]) == record["identity"])
    except (ValueError, TypeError, ImportError):
        return True  # of a policy or a network that is not known here: nothing can be said


def verify_tapes(records: Sequence[Record], data: Root = None, jobs: int = 1) -> Iterator[TapeCheck]:
    """Plan the tape of every record again, in `jobs` processes, and compare hashes; in no promised order.

    Labels are read from the data sets in the folder `data`; those of others are taken to lie class by class, as many of
    each as the catalogue says. Of a folder of images the files are listed, where it lay when the run was made.
    """
    tasks = [(record["identity"], record["name"], record["run"], record["tape"]) for record in records]
    begin = partial(_Planner, data, loaded_modules())
    if jobs == 1 or len(tasks) < 2:
        planner = begin(0)
        yield from (planner(task) for task in tasks)
        return
    with Pool[_Task](begin, min(jobs, len(tasks))) as pool:
        for task, found in pool.results(tasks):
            yield found if isinstance(found, TapeCheck) else TapeCheck(task[0], task[1], task[3] or "", "", str(found))


_Task = tuple[str, str, dict[str, Any], "str | None"]


class _Planner:
    """In a process: plans one tape after the other."""

    def __init__(self, data: Root, modules: Sequence[str], number: int) -> None:
        load_modules(modules)
        self.data, self.images = data, ImageSource(None, data)

    def __call__(self, task: _Task, tell: Callable[[Any], None] | None = None) -> TapeCheck:
        identity, name, description, recorded = task
        try:
            run = Run.from_dict(description)
            if run.scored:
                return TapeCheck(identity, name, recorded or "", "", "a memory that asks the network", scored=True)
            tape = make_tape(run, make_stream(run, self._labels(run)))
        except Exception as error:  # a policy or a data set of somebody's own may raise anything
            return TapeCheck(identity, name, recorded or "", "", reason(error))
        assert tape is not None
        return TapeCheck(identity, name, recorded or "", tape.hash)

    def _labels(self, run: Run) -> NDArray[np.int64] | None:
        """The labels of a run's training images; None if it needs none."""
        if run.data is None or not run.trains:
            return None
        if looks_like_path(run.data.name):
            labels = folder_labels(run.data.name, run.data.holdout)
        elif self._is_read(run.data.name):
            return self.images(run).train.labels
        else:
            labels = label_stream(run.stream_path, tasks=1).labels
        return labels[first_of_each(labels, run.data.per_class)]

    def _is_read(self, name: str) -> bool:
        """Whether a data set tells its labels itself: one of somebody's own does, ours where they are in the folder."""
        source = find_dataset(name)
        there = self.data is not None and bool(source.url) and present(source, self.data)
        return source.load is not None or there
