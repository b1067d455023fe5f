"""`buffer-gaps`: what a smaller memory does to departures and to gaps."""

from __future__ import annotations

from reprise.lab.study import Cell, Column, Study


def _buffer(size: int, dataset: str) -> Cell:
    return Cell(f"buffer={size}", {"dataset": dataset, "imbalance": 10, "buffer": size})


STUDY = Study(
    name="buffer-gaps",
    table="the label-only columns of the buffer table: deactivations and gaps",
    about=(
        "CIFAR-100 LT10 through reservoirs of 200 to 5,120 examples. Both arms hold the same memory at every step, "
        "so deactivations are one figure for both and stand in the row of iid."
    ),
    cells=tuple(_buffer(size, "cifar100") for size in (200, 500, 1000, 2000, 5120)),
    small=tuple(_buffer(size, "glyphs") for size in (100, 500)),
    arms=("iid", "rpr"),
    columns=(Column("deactivations", arms=("iid",)), Column("p99"), Column("max")),
)
