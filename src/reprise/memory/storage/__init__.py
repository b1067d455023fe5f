"""Who is kept: one policy, one file."""

from reprise.memory.storage.always_balanced import AlwaysBalanced
from reprise.memory.storage.balanced import BalancedReservoir
from reprise.memory.storage.class_balanced import ClassBalancedReservoir
from reprise.memory.storage.external import External
from reprise.memory.storage.fifo import Fifo
from reprise.memory.storage.reservoir import Reservoir

__all__ = ["AlwaysBalanced", "BalancedReservoir", "ClassBalancedReservoir", "External", "Fifo", "Reservoir"]
