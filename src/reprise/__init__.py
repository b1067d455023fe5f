"""Reprise decides when a stored class returns.

memory = reprise.Memory(capacity=5120, storage="reservoir", retrieval="rpr", seed=0)
stream = reprise.streams.label_stream("cifar100-lt10", seed=0)
tape = reprise.plan(stream, memory, replay=8)
report = reprise.audit.measure(tape)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprise import audit, streams
from reprise.memory import Draw, Memory
from reprise.tape import Tape, plan

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reprise.buffer import ReplayBuffer as ReplayBuffer

# ReplayBuffer is not among them, so that `from reprise import *` works where torch is not installed.
__all__ = ["Draw", "Memory", "Tape", "__version__", "audit", "plan", "streams"]


def __getattr__(name: str) -> Any:
    """Find `ReplayBuffer` on first use: it needs torch, which nothing else here does."""
    if name != "ReplayBuffer":
        raise AttributeError(f"module 'reprise' has no attribute {name!r}")
    try:
        from reprise.buffer import ReplayBuffer
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "reprise.ReplayBuffer needs torch, which is not installed: pip install 'reprise-cl[train]'", name="torch"
        ) from None
    globals()[name] = ReplayBuffer
    return ReplayBuffer


def __dir__() -> list[str]:
    return sorted({*globals(), "ReplayBuffer"})
