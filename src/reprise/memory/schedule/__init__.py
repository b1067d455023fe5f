"""When classes return: one policy, one file."""

from reprise.memory.schedule.deadline import Deadline
from reprise.memory.schedule.fixed import FixedCycle
from reprise.memory.schedule.frozen_iid import FrozenIndependent
from reprise.memory.schedule.frozen_pass import FrozenPass
from reprise.memory.schedule.hybrid import HybridPass
from reprise.memory.schedule.iid import IndependentBalanced
from reprise.memory.schedule.reused import ReusedPass
from reprise.memory.schedule.rpr import RandomisedPass
from reprise.memory.schedule.window import WindowedPass

__all__ = [
    "Deadline",
    "FixedCycle",
    "FrozenIndependent",
    "FrozenPass",
    "HybridPass",
    "IndependentBalanced",
    "RandomisedPass",
    "ReusedPass",
    "WindowedPass",
]
