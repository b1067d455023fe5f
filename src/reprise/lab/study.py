"""How a study is declared: settings × arms × seeds, the table it fills, and what it compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reprise.lab.audits import AuditRun


@dataclass(frozen=True)
class Cell:
    """What the arms of a comparison share: a stream, or a balanced memory of `classes` that stands still."""

    name: str
    stream: str | None = None
    classes: int | None = None
    steps: int | None = None
    buffer: int = 5120
    replay: int = 8
    storage: str = "reservoir"

    def run(self, arm: str, seed: int) -> AuditRun:
        """The run of one arm, which is a retrieval spec, with one seed."""
        return AuditRun(
            retrieval=arm,
            storage=self.storage,
            stream=self.stream,
            classes=self.classes,
            steps=self.steps,
            buffer=self.buffer,
            replay=self.replay,
            seed=seed,
        )


@dataclass(frozen=True)
class Column:
    """A figure that is compared with the paper's: a key of a run's figures, and for which arms."""

    key: str
    arms: tuple[str, ...] | None = None
    """The arms compared; None means all."""
    zero: bool = False
    """Whether a 0 in the paper must be exactly 0 in every run of ours."""
    bound: Callable[[Cell], int] | None = None
    """A proven limit: then no run may go above it, and the longest must reach it."""

    def holds(self, arm: str) -> bool:
        return self.arms is None or arm in self.arms


@dataclass(frozen=True)
class TheoryFigure:
    """A figure stated beside the theory and not judged, because one run's value says little."""

    key: str
    arm: str
    """One arm, or `iid/rpr` for the ratio of two, seed by seed."""
    theory: Callable[[Cell], float]
    theory_name: str


@dataclass(frozen=True)
class Study:
    """A named grid of paired runs that fills a table."""

    name: str
    table: str
    about: str
    settings: tuple[Cell, ...]
    small: tuple[Cell, ...]
    """The settings of the laptop form, whose figures are not the paper's."""
    arms: tuple[str, ...]
    columns: tuple[Column, ...]
    beside: tuple[TheoryFigure, ...] = ()
    paper_runs: int = 10
    """How many runs stand behind a figure of the paper."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know besides."""
    needs_training: bool = False

    def runs(self, seeds: int, *, small: bool = False) -> list[AuditRun]:
        """Every run with seeds 0 … seeds − 1; all settings and arms of a seed come before the next seed."""
        settings = self.small if small else self.settings
        return [setting.run(arm, seed) for seed in range(seeds) for setting in settings for arm in self.arms]
