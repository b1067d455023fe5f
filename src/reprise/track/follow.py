"""Telling trackers of a run: while it goes on, or all at once when it has ended."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from reprise.core.files import Record
from reprise.runs.images import Fingerprints
from reprise.runs.plan import RunPlan
from reprise.runs.result import RunResult
from reprise.track.tracker import RunFacts, Tracker, Tracking
from reprise.track.values import RunValues, Source

Warn = Callable[[str], object]


class Follower:
    """Tells trackers of one run; as a context it tells them of the run's end as well.

    A tracker that fails is left out from then on, with a warning: a run is worth more than its log.
    """

    def __init__(
        self,
        plan: RunPlan,
        data: Fingerprints,
        source: Source,
        tracking: Tracking,
        trackers: list[Tracker],
        done: int = 0,
        warn: Warn = warnings.warn,
    ) -> None:
        self.trackers, self.warn = trackers, warn
        self.record: Record | None = None
        if not trackers:
            return
        identity = plan.run.identity(data)
        self.values = RunValues(plan, source, tracking.every)
        facts = RunFacts(plan.run, identity, plan.steps, done, self.values.names, tracking.folder / identity)
        self._tell("begin", facts)
        self.advance(done)

    def advance(self, steps: int) -> None:
        """Tell of all steps up to this many that they have not been told of."""
        while self.trackers and self.values.waits.steps < steps:
            if (values := self.values.step()) is not None:
                self._tell("log", self.values.waits.steps, values)

    def _tell(self, method: str, *arguments: object) -> None:
        for tracker in [*self.trackers]:
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:
                self.trackers.remove(tracker)
                if method != "end":
                    with suppress(Exception):
                        tracker.end(None, error)
                self.warn(
                    f"The tracker {type(tracker).__name__} failed in {method}() and is left out: "
                    f"{type(error).__name__}: {error}. The run goes on."
                )

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell("end", self.record, error)


def log_result(result: RunResult, record: Record, tracking: Tracking, warn: Warn = warnings.warn) -> None:
    """Tell trackers of a run that has ended, from its first step to its last: the values are those of a run followed.

    For runs on lanes, which leave the host alone while they train.
    """
    try:
        trackers = tracking.make()
    except Exception as error:  # now the run is worth more than what is wrong with the request
        warn(f"The run is not logged: {error}")
        return
    with Follower(result.plan, result.data, Source.of(result), tracking, trackers, warn=warn) as follower:
        follower.advance(result.plan.steps)
        follower.record = record
