"""Which stored examples return: uniform, by a schedule, or by a score."""

from reprise.memory.retrieval.mir import MaximallyInterfered
from reprise.memory.retrieval.scheduled import Scheduled
from reprise.memory.retrieval.uniform import Uniform

__all__ = ["MaximallyInterfered", "Scheduled", "Uniform"]
