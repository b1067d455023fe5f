"""`boundaries`: whether a schedule is better along the whole stream, or at its end alone, in the runs of `seams`."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16
from reprise.studies.seams import STUDY as SEAMS

_KEYS = {
    "ema.boundary_mean": "boundaries",
    "live.boundary_mean": "boundaries, live",
}

STUDY = Study(
    name="boundaries",
    table="a study of ours: accuracy along the stream in the runs of the primary table",
    about=(
        "The runs of seams, tested after each of the ten tasks on all classes seen so far. Compared is the mean of the "
        "ten accuracies, which is what the paper's table of trajectories has of a pretrained ViT."
    ),
    cells=SEAMS.cells,
    small=SEAMS.small,
    arms=SEAMS.arms,
    columns=(*(Column(key) for key in _KEYS), Column("ema.final")),
    contrasts=tuple(
        difference(
            "rpr", other, key=key, name=f"rpr − {other}, {name}", family=f"rpr − {other}, {name}, {{storage}}",
            main=key == "ema.boundary_mean",
        )
        for other in ("iid", "fixed")
        for key, name in _KEYS.items()
    ),
    notes=(
        "These are the runs of seams: none is made for this study once that one is there.",
        "The paper prints such means of a pretrained ViT-B/16 alone (study trajectory), so none stands beside them.",
        BF16,
    ),
)  # fmt: skip
