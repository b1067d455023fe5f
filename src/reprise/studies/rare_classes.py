"""`rare-classes`: how much a table of a long tail depends on which classes happen to be rare."""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream
from reprise.studies.paper import table

_RANKS: dict[str, dict[str, Any]] = {
    "varied": {},
    **{f"fixed-{seed}": {"imbalance_seed": seed} for seed in (101, 102, 103)},
}
_ROW = {"storage": "reservoir"}


def _cell(ranks: str) -> Cell:
    return stream("cifar100", "lt10", {**PRIMARY, **_RANKS[ranks]}, ranks=ranks)


STUDY = Study(
    name="rare-classes",
    table="a study of ours: the LT10 rows of the primary table, with other classes rare",
    about=(
        "Which classes of a task are rare is drawn from a seed. Either it is the run's own, so that other classes are "
        "rare in every run, or one for all runs: three such draws."
    ),
    cells=tuple(_cell(ranks) for ranks in _RANKS),
    small=(glyphs("lt10", ranks="varied"), glyphs("lt10", _RANKS["fixed-101"], ranks="fixed-101")),
    arms=("uniform", "iid", "fixed", "rpr"),
    small_arms=("iid", "rpr"),
    columns=(Column("ema.final", paper=Printed(table("seams"), "acc_mean", _ROW)),),
    contrasts=tuple(
        difference(
            "rpr",
            other,
            paper=[PrintedContrast(table("contrasts"), {"contrast": f"rpr_minus_{other}", **_ROW})],
            main=other == "iid",
        )
        for other in ("iid", "fixed")
    ),
    notes=(
        "The paper seeds the ranks of a task's classes with an imbalance seed and does not say whether that changed "
        "from run to run; its figures stand beside all four.",
        BF16,
    ),
)
