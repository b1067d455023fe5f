"""From a spec or an object to a policy a memory can use."""

from __future__ import annotations

from typing import Any

import reprise.memory.retrieval
import reprise.memory.schedule
import reprise.memory.storage  # noqa: F401  (importing them registers their policies)
from reprise.core.registry import parse
from reprise.memory.protocols import Retrieval, Schedule, Storage, checked, lacking
from reprise.memory.retrieval.scheduled import Scheduled


def as_storage(policy: str | Storage) -> Storage:
    """The storage that a spec names, or the object itself."""
    made: Any = parse(policy, "storage")[0] if isinstance(policy, str) else policy
    storage: Storage = checked(made, Storage)
    return storage


def as_retrieval(policy: str | Retrieval | Schedule) -> Retrieval:
    """The retrieval that a spec names, or the object itself; a schedule is wrapped."""
    made: Any
    made, example_pass = parse(policy, "schedule", "retrieval") if isinstance(policy, str) else (policy, False)
    # One that lacks a method is a schedule if it names classes, so that what it lacks is named.
    names_classes = any(callable(getattr(made, name, None)) for name in ("begin", "take"))
    if not lacking(made, Schedule) or (names_classes and lacking(made, Retrieval)):
        return Scheduled(made, example_pass)
    retrieval: Retrieval = checked(made, Retrieval)
    return retrieval


def is_scored(policy: object) -> bool:
    """Whether a policy asks for a score of the model, so that no tape can be planned."""
    return bool(getattr(policy, "scored", False))


def spec_of(policy: object) -> str:
    """The short name of a policy, or its repr if it has none."""
    return str(getattr(policy, "spec", repr(policy)))
