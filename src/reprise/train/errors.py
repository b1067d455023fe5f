"""How training ends badly."""

from __future__ import annotations


class TrainingFailed(RuntimeError):
    """A run that was begun could not be ended; the message says why, and what was kept."""


def diverged(what: str, lr: float | None = None) -> TrainingFailed:
    """What to say where a loss, a weight or a score is not finite."""
    than = "" if lr is None else f" than {lr:g}"
    return TrainingFailed(f"{what}: training has diverged; a smaller learning rate{than} may help")
