"""What is kept, and when it returns; with all that a policy of your own needs."""

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.index import Index
from reprise.memory.memory import Draw, Memory
from reprise.memory.moves import Moves
from reprise.memory.protocols import Retrieval, Schedule, Score, Source, Storage
from reprise.memory.resolve import as_retrieval, as_storage, is_scored
from reprise.memory.retrieval import MaximallyInterfered, Scheduled, Uniform
from reprise.memory.schedule import (
    Deadline,
    FixedCycle,
    FrozenIndependent,
    FrozenPass,
    HybridPass,
    IndependentBalanced,
    RandomisedPass,
    ReusedPass,
    WindowedPass,
)
from reprise.memory.storage import AlwaysBalanced, BalancedReservoir, ClassBalancedReservoir, External, Fifo, Reservoir

__all__ = [
    "AlwaysBalanced",
    "BalancedReservoir",
    "ClassBalancedReservoir",
    "Deadline",
    "Draw",
    "External",
    "Fifo",
    "FixedCycle",
    "FrozenIndependent",
    "FrozenPass",
    "HybridPass",
    "IndependentBalanced",
    "Index",
    "MaximallyInterfered",
    "Memory",
    "Moves",
    "Policy",
    "Random",
    "RandomisedPass",
    "Reservoir",
    "Retrieval",
    "ReusedPass",
    "Schedule",
    "Scheduled",
    "Score",
    "Source",
    "Storage",
    "Uniform",
    "WindowedPass",
    "as_int",
    "as_retrieval",
    "as_storage",
    "is_scored",
    "register",
]
