"""A run's values for Weights & Biases, offline."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from reprise.core.extras import NotInstalled, not_installed
from reprise.core.files import Record
from reprise.core.registry import register
from reprise.track.tracker import RunFacts, Tracker, Values


@register("tracker", "wandb")
class WandbTracker(Tracker):
    """`wandb:PROJECT` writes into the run's folder, and sends nothing unless WANDB_MODE says so; `wandb sync` does."""

    _run: Any = None

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(argument)
        if find_spec("wandb") is None:
            raise NotInstalled(not_installed("the tracker 'wandb' needs wandb", "track"))

    def begin(self, facts: RunFacts) -> None:
        chosen = os.environ.get("WANDB_MODE")
        if chosen is None:
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at import: reports of errors are sent, too
        wandb: Any = import_module("wandb")
        facts.folder.mkdir(parents=True, exist_ok=True)
        for earlier in facts.folder.glob(f"wandb/offline-run-*-{facts.identity}"):
            shutil.rmtree(earlier)
        quiet = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True)
        self._run = wandb.init(
            project=self.argument or "reprise",
            id=facts.identity,
            name=facts.run.name,
            config=facts.run.to_dict(),
            dir=str(facts.folder),
            mode="offline" if chosen is None else None,  # None: as that variable says
            resume=None if chosen is None else "allow",
            reinit="create_new",  # beside one of the user's own
            settings=quiet,
        )

    def log(self, step: int, values: Values) -> None:
        if step >= self._run.step:  # a run that is resumed online has the earlier ones
            self._run.log(dict(values), step=step)

    def end(self, record: Record | None, error: BaseException | None) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if error is None else 1)
