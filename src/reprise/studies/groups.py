"""`groups`: whom a schedule helps: frequent, middling and rare classes, and how much is forgotten."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import PrintedContrast
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream
from reprise.studies.paper import table

_PARTS = ("head", "mid", "tail", "macro", "forgetting")


def _printed(part: str) -> PrintedContrast:
    return PrintedContrast(table("groups"), {"block": "from_scratch", "quantity": part})


STUDY = Study(
    name="groups",
    table="the table of frequency groups and forgetting, networks trained from scratch",
    about=(
        "Classes are sorted by how often they came: the last third is the tail, the first the head. Forgetting is the "
        "best accuracy of a class at any task boundary less its last, averaged over classes."
    ),
    cells=tuple(
        stream(*names, PRIMARY) for names in (("cifar100", "lt10"), ("tinyimagenet", "lt10"), ("tinyimagenet", "lt100"))
    ),
    small=(glyphs("lt10"),),
    arms=("iid", "rpr"),
    columns=tuple(Column(f"ema.{part}") for part in _PARTS),
    contrasts=tuple(
        difference(
            "rpr", "iid", key=f"ema.{part}", paper=[_printed(part)], name=f"rpr − iid, {part}", main=part == "macro"
        )
        for part in _PARTS
    ),
    notes=(
        "The paper does not name the storage; its class means are those of the reservoir rows of the primary table.",
        "The pretrained half of the table needs ViT-B/16: see the study `gap-opportunity`.",
        BF16,
    ),
)
