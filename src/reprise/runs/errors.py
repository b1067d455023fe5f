"""How a run ends badly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TrainingFailed(RuntimeError):
    """A run that was begun could not be ended; the message says why, and what was kept."""


def diverged(what: str, lr: float | None = None) -> TrainingFailed:
    """What to say where a loss, a weight or a score is not finite."""
    than = "" if lr is None else f" than {lr:g}"
    return TrainingFailed(f"{what}: training has diverged; a smaller learning rate{than} may help")


def check_losses(losses: NDArray[np.float32] | Sequence[float], steps: int, lr: float | None) -> None:
    """A loss that is not a number poisons every weight, so no step after it is worth taking."""
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        first = int(wrong[0])
        raise diverged(f"the loss of step {first + 1} of {steps} is {float(losses[first])}", lr)


def weights_diverged(name: str, step: int, steps: int, lr: float | None) -> TrainingFailed:
    """What to say of weights that are not finite: a step of finite loss can still overflow them."""
    return diverged(f"after step {step} of {steps} {name} not finite", lr)
