"""`gap-opportunity` and `trajectory`: what a schedule adds to a pretrained ViT, where gaps are long and short."""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import difference, interaction
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import glyphs, stream
from reprise.studies.paper import table

_VIT: dict[str, Any] = {
    "learner": "er-ace",
    "backbone": "vit_base_patch16_224.augreg2_in21k_ft_in1k",
    "pretrained": True,
    "size": 224,
    "precision": "bf16",
}
_DATASETS = ("cifar100", "imagenet-r")
_POINTS = (("balanced", 32, 500), ("balanced", 16, 500), ("balanced", 8, 500), ("lt10", 32, 500), ("lt10", 8, 500))
_TABLE = table("gap_opportunity")
_OPEN = (
    "The paper names neither learner, head, optimiser nor what of the network is trained; here ER-ACE with a cosine "
    "head trains all of it by SGD at 0.03, as in its primary setting. Its table has not been reproduced: neither the "
    "weights nor ImageNet-R come with this library.",
    "The small form trains a narrow ResNet from scratch on glyphs: it shows the way, not the regime.",
)


def _vit(dataset: str, tail: str, replay: int, buffer: int) -> Cell:
    return stream(dataset, tail, {**_VIT, "replay": replay, "buffer": buffer}, b=str(replay), buffer=str(buffer))


def _glyphs(replay: int, buffer: int) -> Cell:
    return glyphs("lt10", {"replay": replay, "buffer": buffer}, b=str(replay), buffer=str(buffer))


GAP_OPPORTUNITY = Study(
    name="gap-opportunity",
    table="the table of gaps and gains of a pretrained ViT-B/16",
    about=(
        "A ViT-B/16 trained on ImageNet learns at 224 pixels, with replay batches of 8 to 32 and memories of 500 and "
        "5,120. The p99 of iid says how long classes wait; the contrast, what bounding that wait adds."
    ),
    cells=tuple(_vit(name, *point) for name in _DATASETS for point in (*_POINTS, ("lt10", 8, 5120))),
    small=(_glyphs(16, 200), _glyphs(4, 200), _glyphs(4, 500)),
    arms=("iid", "fixed", "rpr"),
    columns=(Column("ema.final"), Column("p99", arms=("iid",), paper=Printed(_TABLE, "iid_gap_p99"))),
    contrasts=(
        difference("rpr", "iid", paper=[PrintedContrast(_TABLE)], main=True),
        difference("rpr", "fixed"),
        interaction(
            "rpr",
            "iid",
            paper=[
                PrintedContrast(
                    table("inline"), {"key": "vit_b_interaction"}, {"mean": "value", "low": "lo", "high": "hi"}
                )
            ],
            only={"stream": "lt10", "buffer": "500"},
            b=("32", "8"),
        ),
        *(
            difference(
                "rpr",
                "iid",
                key=f"ema.{part}",
                name=f"rpr − iid, {part}",
                paper=[PrintedContrast(table("groups"), {"block": "pretrained", "quantity": part})],
                only={"stream": "balanced", "b": "32"},
            )
            for part in ("head", "mid", "tail", "macro", "forgetting")
        ),
    ),
    notes=_OPEN,
)

TRAJECTORY = Study(
    name="trajectory",
    table="the table of task-boundary accuracy along the stream, ViT-B/16",
    about=(
        "The same runs on LT10 streams, judged all the way: the mean over the ten task boundaries of the average "
        "accuracy on the tasks seen so far."
    ),
    cells=tuple(_vit(name, "lt10", replay, 500) for name in _DATASETS for replay in (8, 32)),
    small=(_glyphs(4, 200), _glyphs(16, 200)),
    arms=("iid", "fixed", "rpr"),
    columns=(Column("ema.boundary_mean"), Column("ema.final")),
    contrasts=tuple(
        difference(
            "rpr",
            other,
            key="ema.boundary_mean",
            paper=[PrintedContrast(table("trajectory"), {"comparator": other})],
            main=True,
        )
        for other in ("iid", "fixed")
    ),
    notes=("The paper does not print the buffer of this table; 500 is that of the runs it takes it from.", *_OPEN),
)
