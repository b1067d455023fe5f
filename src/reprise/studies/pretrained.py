"""`pretrained-gaps`: what a schedule adds to a pretrained EfficientNet-lite, where gaps are long and short.

`pretrained-rates` compares learning rates for it, on images held out of training.
"""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import difference, interaction
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream
from reprise.studies.vit import GAP_OPPORTUNITY

LEARNING_RATE = 0.03
_RATES = (0.003, 0.01, 0.03, 0.1)
_LITE: dict[str, Any] = {
    **PRIMARY,
    "backbone": "efficientnet_lite0",
    "pretrained": True,
    "size": 96,
    "head": "cosine",
    "lr": LEARNING_RATE,
}
_POINTS = ((32, 500), (16, 500), (8, 500), (8, 5120))


def _cell(tail: str, replay: int, buffer: int) -> Cell:
    return stream("cifar100", tail, {**_LITE, "replay": replay, "buffer": buffer}, b=str(replay), buffer=str(buffer))


STUDY = Study(
    name="pretrained-gaps",
    table="a study of ours: gaps and gains of a pretrained EfficientNet-lite0",
    about=(
        "An EfficientNet-lite0 trained on ImageNet learns CIFAR-100 at 96 pixels, with replay batches of 8 to 32 and "
        "memories of 500 and 5,120. The p99 of iid says how long classes wait; the contrasts, what bounding that wait "
        "adds, and whether it adds more where the batch is small."
    ),
    cells=tuple(_cell(tail, *point) for tail in ("balanced", "lt10") for point in _POINTS),
    small=GAP_OPPORTUNITY.small,
    arms=("iid", "fixed", "rpr"),
    columns=(Column("ema.final"), Column("live.final"), Column("p99", arms=("iid",))),
    contrasts=(
        difference("rpr", "iid", main=True),
        difference("rpr", "fixed"),
        interaction("rpr", "iid", only={"buffer": "500"}, b=("8", "32")),
    ),
    seeds=5,
    notes=(
        "The paper's table of gaps and gains is of a pretrained ViT-B/16 at 224 pixels, whose weights do not come with "
        "this library (study gap-opportunity). Here the same question is put to a network whose ImageNet weights are "
        "on a package index, 19 MB. None of the paper's figures is made by it, and none stands beside it.",
        f"All weights are trained by SGD at {LEARNING_RATE}, without momentum and weight decay, as in the primary "
        "setting. Fine-tuning commonly takes 0.001 to 0.01 with a momentum of 0.9, which moves weights about as far "
        "as ten times that rate does without. In a trial on validation images, one seed and one short task long, of "
        "which no record is kept, 0.003 and 0.01 learnt too slowly for a single pass, and at 0.1 BatchNorm's running "
        "statistics lagged behind the weights. The study pretrained-rates compares them over whole streams.",
        "Images are enlarged from 32 pixels once, by bicubic interpolation; crops shift them by up to 4 of the 96. "
        "They are normalised by CIFAR-100's own mean and deviation, about twice as wide as in the network's first "
        "training. While it trains, BatchNorm takes nearly all of that away; its running statistics follow within a "
        "few hundred batches, two of which pass in a step.",
        "Drop-connect and dropout, which the network's first training had, are left out.",
        "The small form is that of gap-opportunity, and has its runs: a narrow ResNet from scratch, on glyphs.",
        BF16,
    ),
)

RATES = Study(
    name="pretrained-rates",
    table="a study of ours: learning rates for the pretrained EfficientNet-lite0",
    about=(
        "The network and streams of pretrained-gaps at four learning rates, under iid alone, 8 replayed a step. A "
        "tenth of the training images is held out and tested on: these runs choose a rate, they do not compare "
        "schedules."
    ),
    cells=tuple(
        stream(
            "cifar100",
            tail,
            {**_LITE, "lr": rate, "replay": 8, "buffer": 5120, "validation": True},
            lr=str(rate),
        )
        for tail in ("balanced", "lt10")
        for rate in _RATES
    ),
    small=tuple(glyphs("lt10", {"lr": rate, "validation": True}, lr=str(rate)) for rate in _RATES[-2:]),
    arms=("iid",),
    columns=(Column("ema.final"), Column("live.final")),
    seeds=2,
    notes=(
        "The rate with the highest mean of the averaged network over both streams was to be taken for pretrained-gaps, "
        f"under iid, so that what is compared there has no part in it. Its runs were begun at {LEARNING_RATE} before.",
        "The small form trains a narrow ResNet from scratch on glyphs, at two of the rates.",
        BF16,
    ),
)
