"""`dissociation`: retrieval by interference (MIR) against balanced draws: another objective, other classes."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream
from reprise.studies.paper import table

_POOLS = (50, 200, 5120)
_TABLE = table("dissociation")

_CLASSES = {row["setting"]: row["value"] for row in table("inline") if row["key"] == "distinct_classes_per_batch"}
_DISTINCT = tuple(
    {"dataset": "cifar100", "retrieval": arm, "value": _CLASSES[f"er_ace; buffer=5120; b=32; {name}"]}
    for arm, name in (("uniform", "uniform"), (f"mir:{_POOLS[-1]}", "mir"))
)


def _printed(retrieval: str) -> list[PrintedContrast]:
    return [PrintedContrast(_TABLE, {"retrieval": retrieval})]


STUDY = Study(
    name="dissociation",
    table="the table of retrieval objectives: MIR, uniform, iid and rpr",
    about=(
        "Balanced streams, 5,120 images kept, 32 replayed a step. MIR replays, of N stored candidates, those whose "
        "loss a virtual step would raise most; N is 50, 200 and the whole memory."
    ),
    cells=tuple(
        stream(name, "balanced", {**PRIMARY, "replay": 32}) for name in ("cifar100", "tinyimagenet")
    ),
    small=(glyphs("balanced", {"buffer": 200}),),
    arms=("uniform", *(f"mir:{pool}" for pool in _POOLS), "iid", "rpr"),
    small_arms=("uniform", "mir:50", "mir:200", "iid", "rpr"),
    columns=(
        Column("ema.final"),
        Column("distinct_per_batch", paper=Printed(_DISTINCT, "value")),
    ),
    contrasts=(
        *(difference(f"mir:{pool}", "uniform", paper=_printed("mir") if pool == 5120 else ()) for pool in _POOLS),
        *(difference(arm, "uniform", paper=_printed(arm), main=True) for arm in ("iid", "rpr")),
    ),
    seeds=3,
    notes=(
        "The paper prints neither stream nor head nor MIR's number of candidates. Balanced streams and the cosine head "
        "give the accuracy of uniform draws that its relative effects imply, and its classes a batch.",
        "MIR's loss in the paper is not what the published pool of 50 to 200 candidates gives; it comes with the size "
        "of the pool. So its one figure stands beside the largest of three.",
        "The paper's distinct classes a batch are of an unnamed data set, and stand beside CIFAR-100.",
        BF16,
    ),
)  # fmt: skip
