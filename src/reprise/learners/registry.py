"""Learners by name, and their hyper-parameters."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

from reprise.learners.der import DER
from reprise.learners.derpp import DERpp
from reprise.learners.derpp_ace import DERppACE
from reprise.learners.er import ER
from reprise.learners.er_ace import ERACE
from reprise.learners.joint import Joint
from reprise.learners.learner import Learner, LearnerContext
from reprise.learners.none import NoReplay
from reprise.learners.ocm import OCM
from reprise.learners.refresh import Refresh
from reprise.nets import Network

LEARNERS: dict[str, type[Learner]] = {
    "er": ER,
    "er-ace": ERACE,
    "der": DER,
    "der++": DERpp,
    "der++-ace": DERppACE,
    "refresh": Refresh,
    "ocm": OCM,
    "none": NoReplay,
    "joint": Joint,
}


def find_learner(name: str) -> type[Learner]:
    """The learner of this name; an unknown one is an error that names the nearest."""
    if name not in LEARNERS:
        near = difflib.get_close_matches(str(name).lower(), LEARNERS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown learner {name!r}: did you mean {near!r}? Known: {', '.join(LEARNERS)}")
    return LEARNERS[name]


def hyperparameters(name: str, given: Mapping[str, Any] | None = None) -> dict[str, float | int | str]:
    """All hyper-parameters of a learner: those given, and its defaults for the others."""
    parameters = inspect.signature(find_learner(name).__init__).parameters.values()
    known = {one.name: one.default for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    for key, value in (given or {}).items():
        if key not in known:
            has = f"has {', '.join(known)}" if known else "has none"
            raise ValueError(f"learner {name!r} has no hyper-parameter {key!r}: it {has}")
        if type(value) is not type(known[key]) and not (isinstance(known[key], float) and type(value) is int):
            kind = type(known[key]).__name__
            raise TypeError(f"the {key} of learner {name!r} must be a {kind} such as {known[key]!r}, got {value!r}")
    return {key: type(default)((given or {}).get(key, default)) for key, default in known.items()}


def make_learner(name: str, net: Network, setting: LearnerContext, **given: Any) -> Learner:
    """A learner of this name around a network; further arguments are its hyper-parameters."""
    return find_learner(name)(net, setting, **hyperparameters(name, given))
