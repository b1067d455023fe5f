"""How a study is declared: cells × arms × seeds, the table it fills, and what it compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reprise.runs.run import Run


@dataclass(frozen=True)
class Cell:
    """What the arms of a comparison share: a name, and settings of a run under their names on the command line.

    A cell of a study that trains names its learner; without one its runs are audits.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def run(self, arm: str, seed: int) -> Run:
        """The run of one arm, which is a retrieval spec, with one seed."""
        return Run.of(**{"learner": None, **self.settings, "retrieval": arm, "seed": seed})


@dataclass(frozen=True)
class Column:
    """A figure that is compared with the paper's: a key of a run's figures, and for which arms."""

    key: str
    """What `figure_of` reads: `max` of the audit, `ema.final` of a read-out."""
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
    cells: tuple[Cell, ...]
    small: tuple[Cell, ...]
    """The cells of the laptop form, whose figures are not the paper's."""
    arms: tuple[str, ...]
    columns: tuple[Column, ...]
    beside: tuple[TheoryFigure, ...] = ()
    paper_runs: int = 10
    """How many runs stand behind a figure of the paper."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know besides."""

    @property
    def trains(self) -> bool:
        """Whether its runs train."""
        return any(cell.settings.get("learner") is not None for cell in self.cells)

    def count(self, seeds: int, *, small: bool = False) -> int:
        """How many runs it has with so many seeds."""
        return seeds * len(self.arms) * len(self.small if small else self.cells)

    def runs(self, seeds: int, *, small: bool = False) -> list[Run]:
        """Every run with seeds 0 … seeds − 1; all cells and arms of a seed come before the next seed."""
        cells = self.small if small else self.cells
        return [cell.run(arm, seed) for seed in range(seeds) for cell in cells for arm in self.arms]


def figure_of(record: Mapping[str, Any], key: str) -> float | None:
    """A figure of a record: one of the audit by its name; a metric of a read-out in per cent, as `ema.final`.

    Any other is named by its way through the record, as `diagnostics.bias_displacement.1-4.mean`.
    """
    first, dot, rest = key.partition(".")
    if not dot:
        found: float | None = record["audit"].get(key)
        return found
    if first in record.get("metrics", {}):
        share = record["metrics"][first][rest]
        return None if share is None else 100 * float(share)
    value: Any = record
    for name in key.split("."):
        value = value[name]
    return None if value is None else float(value)
