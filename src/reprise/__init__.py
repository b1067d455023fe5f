"""Reprise decides when a stored class returns.

memory = reprise.Memory(capacity=5120, storage="reservoir", retrieval="rpr", seed=0)
stream = reprise.streams.label_stream("cifar100-lt10", seed=0)
tape = reprise.plan(stream, memory, replay=8)
report = reprise.audit.measure(tape)
"""

from reprise import audit, streams
from reprise.memory import Draw, Memory
from reprise.tape import Tape, plan

__version__ = "0.1.0"

__all__ = ["Draw", "Memory", "Tape", "__version__", "audit", "plan", "streams"]
