"""The replay memory with its examples on a device or a disk, for a training loop of one's own."""

from __future__ import annotations

from reprise.buffer.buffer import ReplayBuffer
from reprise.buffer.ragged import pad
from reprise.buffer.replay import Example, Replay

__all__ = ["Example", "Replay", "ReplayBuffer", "pad"]
