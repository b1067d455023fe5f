"""A run's values for TensorBoard."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from reprise.core.extras import NotInstalled, not_installed
from reprise.core.files import Record
from reprise.core.registry import register
from reprise.track.tracker import RunFacts, Tracker, Values


@register("tracker", "tensorboard")
class TensorBoardTracker(Tracker):
    """`tensorboard:DIR` writes event files into DIR/<identity>; `tensorboard --logdir DIR` shows all runs there."""

    _writer: Any = None

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(argument)
        if find_spec("tensorboard") is None:
            raise NotInstalled(not_installed("the tracker 'tensorboard' needs tensorboard", "track"))

    def begin(self, facts: RunFacts) -> None:
        writer: Any = import_module("torch.utils.tensorboard")
        folder = self.folder(facts)
        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()
        self._writer = writer.SummaryWriter(str(folder))
        described = json.dumps(facts.run.to_dict(), indent=1).replace("\n", "\n    ")
        self._writer.add_text("run", f"{facts.run.name}\n\n    {described}")

    def log(self, step: int, values: Values) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def end(self, record: Record | None, error: BaseException | None) -> None:
        if self._writer is not None:
            self._writer.close()
