"""What a process of a pool does that was told which modules to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reprise.core.plugins import load_modules
from reprise.train import TrainRun, train


def make_trainer(modules: Sequence[str], number: int) -> Callable[[dict[str, Any], Any], Any]:
    """Trains runs whose learner, storage and data set are those of the modules."""
    load_modules(modules)
    return lambda settings, tell: train(TrainRun(**settings))
