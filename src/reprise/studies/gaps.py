"""`gaps`: how long classes wait in a balanced memory that stands still."""

from __future__ import annotations

from math import log

from reprise.audit import theory
from reprise.lab.printed_tables import Printed
from reprise.lab.study import Cell, Column, Study, TheoryFigure
from reprise.runs.run import PER_CLASS
from reprise.runs.settings import StillSettings
from reprise.studies.paper import table


def _still(classes: int, replay: int, steps: int = 3000) -> Cell:
    facts = {"n_classes": str(classes), "b": str(replay)}
    facts["setting"] = f"static balanced memory; C={classes}; b={replay}"  # as the paper's text has it
    return Cell(f"C={classes} b={replay}", {"classes": classes, "steps": steps, "replay": replay}, facts)


def _sizes(cell: Cell) -> tuple[int, int, int]:
    run = cell.run("iid", 0)
    assert isinstance(run.stream, StillSettings)
    return run.stream.classes, run.memory.replay, run.stream.steps


def _bound(cell: Cell) -> int:
    classes, replay, _ = _sizes(cell)
    return theory.fixed_set_bound(classes, replay)


def _scale(cell: Cell) -> float:
    return theory.extreme_value_scale(*_sizes(cell))


def _uniform_scale(cell: Cell) -> float:
    classes, replay, steps = _sizes(cell)
    visited = theory.uniform_inclusion(classes, PER_CLASS, replay)
    return log(steps * classes * visited) / log(1 / (1 - visited))


def _spread(cell: Cell) -> float:
    classes, replay, _ = _sizes(cell)
    return theory.sd_ratio(classes, replay)


_TABLE = table("gaps")
_RATIO = Printed(table("inline"), "value", {"key": "static_std_ratio"})

STUDY = Study(
    name="gaps",
    table="the table of rehearsal gaps on a fixed balanced memory",
    about=(
        f"A memory of {PER_CLASS} examples of each class stands still for 3,000 steps. "
        "Gaps are the steps between two successive replays of a class."
    ),
    cells=(_still(100, 8), _still(100, 32), _still(200, 8), _still(200, 32)),
    small=(_still(20, 4, steps=400),),
    arms=("uniform", "iid", "rpr"),
    columns=(
        *(Column(key, paper=Printed(_TABLE, key)) for key in ("mean", "p50", "p95", "p99")),
        Column("max", arms=("rpr",), paper=Printed(_TABLE, "max"), bound=_bound),
    ),
    beside=(
        TheoryFigure("max", "uniform", _uniform_scale, "extreme-value scale", Printed(_TABLE, "max")),
        TheoryFigure("max", "iid", _scale, "extreme-value scale", Printed(_TABLE, "max")),
        TheoryFigure("gap_sd", "iid/rpr", _spread, "in an endless run", _RATIO),
    ),
    paper_runs=1,
    notes=(
        "The paper's figures look like those of one run each and are taken as such; it does not say how many examples "
        f"of a class its memory held, {PER_CLASS} is our choice and moves uniform retrieval only.",
        "A run's longest gap under independent draws grows with the logarithm of the number of gaps and scatters "
        "widely, so it stands beside the extreme-value scale and is not judged.",
        "Waits that the last of 3,000 steps cuts off are not counted, and long ones are cut off most; so independent "
        "draws show a mean below C/b, and a spread over that of rpr below the ratio of an endless run.",
    ),
)
