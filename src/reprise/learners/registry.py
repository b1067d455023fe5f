"""Learners by name, and their hyper-parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from reprise.core.registry import Registered, find
from reprise.learners.learner import Learner, LearnerContext
from reprise.nets import Network

LEARNERS: Mapping[str, type[Learner]] = Registered("learner")
"""All learners by name: those of the library, and whatever else has been registered."""

_KINDS = {int: "a whole number", float: "a number", str: "a word"}


def find_learner(name: str) -> type[Learner]:
    """The learner of this name; an unknown one is an error that names the nearest."""
    learner: type[Learner] = find("learner", name)
    if not (isinstance(learner, type) and issubclass(learner, Learner)):
        raise TypeError(f"learner {name!r} must be a class derived from reprise.learners.Learner, got {learner!r}")
    return learner


def hyperparameters(name: str, given: Mapping[str, Any] | None = None) -> dict[str, float | int | str]:
    """All hyper-parameters of a learner: those given, and its defaults for the others."""
    parameters = inspect.signature(find_learner(name).__init__).parameters.values()
    known = {one.name: one.default for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    for key, value in (given or {}).items():
        if key not in known:
            has = f"has {', '.join(known)}" if known else "has none"
            raise ValueError(f"learner {name!r} has no hyper-parameter {key!r}: it {has}")
        if type(value) is not type(known[key]) and not (isinstance(known[key], float) and type(value) is int):
            kind = _KINDS.get(type(known[key]), f"a {type(known[key]).__name__}")
            raise TypeError(f"the {key} of learner {name!r} must be {kind} such as {known[key]!r}, got {value!r}")
    return {key: type(default)((given or {}).get(key, default)) for key, default in known.items()}


def make_learner(name: str, net: Network, setting: LearnerContext, **given: Any) -> Learner:
    """A learner of this name around a network; further arguments are its hyper-parameters."""
    return find_learner(name)(net, setting, **hyperparameters(name, given))
