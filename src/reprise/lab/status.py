"""How far a campaign has come, read from its store by any process, while others work on it or afterwards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reprise.lab.campaign_file import CampaignFile
from reprise.lab.study import Key
from reprise.runs.store import Store

WINDOW = 600.0
"""Seconds that the rate looks back over."""


@dataclass(frozen=True)
class ArmStatus:
    """The runs of an arm in a cell."""

    cell: str
    arm: str
    total: int
    done: int
    under_way: int
    failed: int


@dataclass(frozen=True)
class CampaignStatus:
    """How far a campaign has come."""

    file: CampaignFile
    arms: tuple[ArmStatus, ...]
    failures: tuple[tuple[Key, str], ...]
    """Runs that failed when they were last tried, and why."""
    workers: tuple[str, ...]
    """The processes that hold runs of it now."""
    rate: float | None
    """Runs that end in a minute; None before the first has."""
    busy: bool = False
    """Whether anybody makes runs of this store now, of this campaign or of another."""

    @property
    def total(self) -> int:
        return sum(arm.total for arm in self.arms)

    @property
    def done(self) -> int:
        return sum(arm.done for arm in self.arms)

    @property
    def under_way(self) -> int:
        return sum(arm.under_way for arm in self.arms)

    @property
    def failed(self) -> int:
        return sum(arm.failed for arm in self.arms)

    @property
    def left(self) -> float | None:
        """Seconds until all have ended, at this rate; None if nothing is under way, or nothing has ended yet."""
        if self.rate is None or not self.under_way:
            return None
        return 60 * (self.total - self.done - self.failed) / self.rate

    @property
    def state(self) -> str:
        """In a word or two: done, under way, or what it waits for."""
        if self.done == self.total:
            return "done"
        if self.under_way or self.done + self.failed == self.total:
            return "under way" if self.under_way else "failed"
        return "waiting" if self.busy else "stopped"


def status(store: Store, file: CampaignFile, now: float | None = None) -> CampaignStatus:
    """How far a campaign has come; `now` is the time as `time.time` tells it."""
    now = time.time() if now is None else now
    ended, claimed = store.ended(), store.claimed()
    total, done, busy, failed = (Counter[tuple[str, str]]() for _ in range(4))
    failures: list[tuple[Key, str]] = []
    workers: dict[str, None] = {}
    times: dict[str, float] = {}
    for (cell, arm, seed), identity in file.runs:
        total[cell, arm] += 1
        if identity in ended:
            done[cell, arm] += 1
            times[identity] = ended[identity]
        elif identity in claimed:
            busy[cell, arm] += 1
            workers[claimed[identity]] = None
        elif (why := _failure(store, identity)) is not None:
            failed[cell, arm] += 1
            failures.append(((cell, arm, seed), why))
    arms = tuple(
        ArmStatus(*key, total=total[key], done=done[key], under_way=busy[key], failed=failed[key]) for key in total
    )
    return CampaignStatus(file, arms, tuple(failures), tuple(workers), _rate(times, file, now), bool(claimed))


def _failure(store: Store, identity: str) -> str | None:
    return store.failure(identity) if identity else "its data could not be read"


def _rate(times: Mapping[str, float], file: CampaignFile, now: float) -> float | None:
    """Runs a minute, since the campaign was last begun, or over the last minutes if that is longer ago."""
    try:
        began = datetime.fromisoformat(file.began).timestamp()
    except ValueError:
        return None
    last = max(times.values(), default=began)
    until = now if now - last < WINDOW else last  # one that has ended keeps the rate it had
    since = max(began, until - WINDOW)
    ended = sum(since <= when <= until for when in times.values())
    return 60 * ended / max(until - since, 1.0) if ended else None
