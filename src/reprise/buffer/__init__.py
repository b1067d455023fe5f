"""The replay memory with its examples on a device, for a training loop of one's own."""

from __future__ import annotations

from reprise.buffer.buffer import ReplayBuffer
from reprise.buffer.columns import Replay

__all__ = ["Replay", "ReplayBuffer"]
