"""How training ends badly."""

from __future__ import annotations


class TrainingFailed(RuntimeError):
    """A run that was begun could not be ended; the message says why, and what was kept."""
