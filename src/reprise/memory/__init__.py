"""What is kept, and when it returns."""

from reprise.memory.index import Index
from reprise.memory.memory import Draw, Memory
from reprise.memory.protocols import Retrieval, Schedule, Storage
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
from reprise.memory.storage import AlwaysBalanced, BalancedReservoir, ClassBalancedReservoir, Fifo, Reservoir

__all__ = [
    "AlwaysBalanced",
    "BalancedReservoir",
    "ClassBalancedReservoir",
    "Deadline",
    "Draw",
    "Fifo",
    "FixedCycle",
    "FrozenIndependent",
    "FrozenPass",
    "HybridPass",
    "IndependentBalanced",
    "Index",
    "MaximallyInterfered",
    "Memory",
    "RandomisedPass",
    "Reservoir",
    "Retrieval",
    "ReusedPass",
    "Schedule",
    "Scheduled",
    "Storage",
    "Uniform",
    "WindowedPass",
    "as_retrieval",
    "as_storage",
    "is_scored",
]
