"""How a study is declared: cells × arms × seeds, the table it fills, and what it compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import fullmatch
from typing import Any, Literal

from reprise.lab.contrast import Contrast, Form, SeedContrast, check, resolve
from reprise.lab.figure_key import check_keys
from reprise.lab.printed_tables import Printed
from reprise.runs.run import Run

Key = tuple[str, str, int]
"""A run of a study: the names of its cell and of its arm, and its seed."""


@dataclass(frozen=True)
class Cell:
    """What the arms of a comparison share: a name, and settings of a run under their names on the command line.

    A cell of a study that trains names its learner; without one its runs are audits. `facts` are what tells it from
    other cells, in words: by them cells are set against each other and found in the paper's tables.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    facts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def run(self, arm: str, seed: int) -> Run:
        """The run of one arm, which is a retrieval spec, with one seed."""
        return Run.of(**{"learner": None, **self.settings, "retrieval": arm, "seed": seed})


@dataclass(frozen=True)
class Column:
    """A figure that the study's table shows: a key of a run's figures, and for which arms."""

    key: str
    """What `figure_of` reads: `max` of the audit, `ema.final` of a read-out."""
    arms: tuple[str, ...] | None = None
    """The arms shown; None means all."""
    paper: Printed | None = None
    """Where the paper prints it."""
    spread: Printed | None = None
    """Where the paper prints the standard deviation between its runs."""
    zero: bool = False
    """Whether a 0 in the paper must be exactly 0 in every run of ours."""
    bound: Callable[[Cell], int] | None = None
    """A proven limit: then no run may go above it, and the longest must reach it."""
    open: bool = False
    """Whether a run may be without it, as without gaps of 33 steps; the others are averaged."""

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
    paper: Printed | None = None


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
    contrasts: tuple[Contrast, ...] = ()
    beside: tuple[TheoryFigure, ...] = ()
    small_arms: tuple[str, ...] = ()
    """The arms of the laptop form, if they are others."""
    paper_runs: int = 10
    """How many runs stand behind a figure of the paper."""
    seeds: int = 10
    """Seeds that figures are means over, unless told."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know besides: choices that the paper leaves open, and why they were made."""

    def __post_init__(self) -> None:
        if not fullmatch(r"[\w][\w.+-]*", self.name):
            raise ValueError(
                f"the name of a study is also that of its files: letters, digits, - and _, got {self.name!r}"
            )
        for what, names in (("cells", [cell.name for cell in self.cells]), ("arms", list(self.arms))):
            if len({*names}) < len(names) or not names:
                raise ValueError(f"the {what} of a study must be some, each of a name of its own, got {names}")
        check(self.contrasts, [self._form(small=small) for small in (False, True)])
        keys = [column.key for column in self.columns]
        keys += [term.key or one.key for one in self.contrasts for term in one.terms]
        check_keys(dict.fromkeys(keys), trains=self.trains)
        splits = {cell.settings.get("validation", False) for cell in (*self.cells, *self.small)}
        if len(splits) > 1:
            raise ValueError(f"study {self.name!r} mixes runs tested on validation images with others: make it two")

    @property
    def trains(self) -> bool:
        """Whether its runs train."""
        return any(cell.settings.get("learner") is not None for cell in self.cells)

    @property
    def split(self) -> Literal["test", "validation"]:
        """The images that its runs are tested on."""
        return "validation" if self.cells[0].settings.get("validation") else "test"

    def form_cells(self, *, small: bool) -> tuple[Cell, ...]:
        """The cells of its full form, or of its small one."""
        return self.small if small else self.cells

    def form_arms(self, *, small: bool) -> tuple[str, ...]:
        """The arms of its full form, or of its small one."""
        return self.small_arms or self.arms if small else self.arms

    def form_contrasts(self, *, small: bool) -> list[SeedContrast]:
        """What is compared, cell by cell, in its full form or in its small one."""
        return resolve(self.contrasts, *self._form(small=small))

    def _form(self, *, small: bool) -> Form:
        return {cell.name: cell.facts for cell in self.form_cells(small=small)}, self.form_arms(small=small)

    def count(self, seeds: int, *, small: bool = False) -> int:
        """How many runs it has with so many seeds."""
        return seeds * len(self.form_arms(small=small)) * len(self.form_cells(small=small))

    def keys(self, seeds: int, *, small: bool = False) -> list[Key]:
        """Every run with seeds 0 … seeds − 1 by its cell, arm and seed; a seed is complete before the next begins."""
        cells, arms = self.form_cells(small=small), self.form_arms(small=small)
        return [(cell.name, arm, seed) for seed in range(seeds) for cell in cells for arm in arms]

    def runs(self, seeds: int, *, small: bool = False) -> list[Run]:
        """Every run with seeds 0 … seeds − 1, in the order of `keys`."""
        cells = {cell.name: cell for cell in self.form_cells(small=small)}
        return [cells[cell].run(arm, seed) for cell, arm, seed in self.keys(seeds, small=small)]


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
