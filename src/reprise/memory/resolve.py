"""From a spec or an object to a policy a memory can use."""

from __future__ import annotations

import reprise.memory.retrieval
import reprise.memory.schedule
import reprise.memory.storage  # noqa: F401  (importing them registers their policies)
from reprise.memory.protocols import Retrieval, Schedule, Storage
from reprise.memory.retrieval.scheduled import Scheduled
from reprise.specs import parse


def as_storage(policy: str | Storage) -> Storage:
    """The storage that a spec names, or the object itself."""
    if isinstance(policy, str):
        made, _ = parse(policy, "storage")
        policy = made  # type: ignore[assignment]
    if isinstance(policy, type) or not isinstance(policy, Storage):
        raise TypeError(f"a storage is a spec or an object with the methods of reprise.memory.Storage, got {policy!r}")
    return policy


def as_retrieval(policy: str | Retrieval | Schedule) -> Retrieval:
    """The retrieval that a spec names, or the object itself; a schedule is wrapped."""
    example_pass = False
    if isinstance(policy, str):
        made, example_pass = parse(policy, "schedule", "retrieval")
        policy = made  # type: ignore[assignment]
    if isinstance(policy, Schedule) and not isinstance(policy, type):
        return Scheduled(policy, example_pass)
    if isinstance(policy, type) or not isinstance(policy, Retrieval):
        raise TypeError(
            f"a retrieval is a spec or has the methods of reprise.memory.Retrieval or Schedule, got {policy!r}"
        )
    return policy


def spec_of(policy: object) -> str:
    """The short name of a policy, or its repr if it has none."""
    return str(getattr(policy, "spec", repr(policy)))
