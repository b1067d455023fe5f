"""A memory that records what happens, as a tape to audit."""

from reprise.recorded.memory import RecordedMemory
from reprise.recorded.record import Record

__all__ = ["Record", "RecordedMemory"]
