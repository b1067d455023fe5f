"""Reprise decides when a stored class returns.

memory = reprise.Memory(capacity=5120, storage="reservoir", retrieval="rpr", seed=0)
stream = reprise.streams.label_stream("cifar100-lt10", seed=0)
tape = reprise.plan(stream, memory, replay=8)
report = reprise.audit.measure(tape)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reprise import audit, streams
from reprise.core.extras import not_installed
from reprise.memory import Draw, Memory
from reprise.recorded import RecordedMemory
from reprise.tape import Tape, plan
from reprise.tape_step import TapeStep

__version__ = "0.1.0"
"""The version of the package."""

if TYPE_CHECKING:
    from reprise.buffer import ReplayBuffer as ReplayBuffer
    from reprise.loader import TapeBatch as TapeBatch
    from reprise.loader import TapeBatchSampler as TapeBatchSampler
    from reprise.loader import TapeDataset as TapeDataset
    from reprise.loader import split_batch as split_batch

# What needs torch is not among them, so that `from reprise import *` works where torch is not installed.
__all__ = ["Draw", "Memory", "RecordedMemory", "Tape", "TapeStep", "__version__", "audit", "plan", "streams"]


_ROOMS = ("checks", "data", "learners", "loader", "nets", "train")  # imported on first use: most need torch or Pillow
_LAZY = {
    "ReplayBuffer": "buffer",
    "TapeBatch": "loader",
    "TapeBatchSampler": "loader",
    "TapeDataset": "loader",
    "split_batch": "loader",
}  # each with its room


def __getattr__(name: str) -> Any:
    """Find what is not imported with the package: `ReplayBuffer`, `TapeDataset`, and rooms such as `reprise.train`."""
    if name in _ROOMS:
        return _needing_torch(lambda: importlib.import_module(f"reprise.{name}"), f"reprise.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'reprise' has no attribute {name!r}")

    def find() -> Any:
        return getattr(importlib.import_module(f"reprise.{_LAZY[name]}"), name)

    globals()[name] = found = _needing_torch(find, f"reprise.{name}")
    return found


def _needing_torch(find: Callable[[], Any], name: str) -> Any:
    try:
        return find()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(not_installed(f"{name} needs torch", "train"), name="torch") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_ROOMS})
