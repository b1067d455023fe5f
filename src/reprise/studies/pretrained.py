"""`pretrained-gaps`: what a schedule adds to a pretrained EfficientNet-lite, where gaps are long and short.

`pretrained-rates` compares learning rates for it, on images held out of training; `pretrained-again` asks with other
seeds whether a gain that it found is there.
"""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import FINAL, Contrast, Term, difference, interaction
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream
from reprise.studies.vit import GAP_OPPORTUNITY

_USUAL, _PUBLISHED = 0.1, None  # BatchNorm's momentum: torch's, as in the ResNet; the network's own, 0.01
LEARNING_RATES = {_USUAL: 0.03, _PUBLISHED: 0.03}
_TRIED = {_USUAL: (0.01, 0.03, 0.1, 0.3), _PUBLISHED: (0.003, 0.01, 0.03, 0.1)}
_LITE: dict[str, Any] = {
    **PRIMARY,
    "backbone": "efficientnet_lite0",
    "pretrained": True,
    "size": 96,
    "head": "cosine",
}
_POINTS = ((32, 500), (16, 500), (8, 500), (8, 5120))


def _cell(tail: str, momentum: float | None, replay: int, buffer: int) -> Cell:
    settings = {**_LITE, "lr": LEARNING_RATES[momentum], "bn_momentum": momentum, "replay": replay, "buffer": buffer}
    return stream("cifar100", tail, settings, bn=_momentum(momentum), b=str(replay), buffer=str(buffer))


def _momentum(momentum: float | None) -> str:
    return "0.01" if momentum is _PUBLISHED else str(momentum)


STUDY = Study(
    name="pretrained-gaps",
    table="a study of ours: gaps and gains of a pretrained EfficientNet-lite0",
    about=(
        "An EfficientNet-lite0 trained on ImageNet learns CIFAR-100 at 96 pixels, with replay batches of 8 to 32 and "
        "memories of 500 and 5,120. The p99 of iid says how long classes wait; the contrasts, what bounding that wait "
        "adds, and whether it adds more where the batch is small."
    ),
    cells=tuple(
        _cell(tail, momentum, *point)
        for tail, momentum in (("balanced", _USUAL), ("lt10", _USUAL), ("lt10", _PUBLISHED))
        for point in _POINTS
    ),
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
        "on a package index, 19 MB. None of the paper's figures is made by it, and none stands beside it on this page; "
        "the findings compare the two.",
        f"All weights are trained by SGD at {LEARNING_RATES[_USUAL]}, without momentum and weight decay, as in the "
        f"primary setting. With a momentum of BatchNorm of {_USUAL} this is the rate that pretrained-rates found best "
        "under iid on validation images. Fine-tuning commonly takes 0.001 to 0.01 with a momentum of 0.9, which moves "
        "weights about as far as ten times that rate does without.",
        f"BatchNorm's momentum is {_USUAL}, torch's usual one, as in the ResNet; in the cells bn=0.01 it is the "
        "network's own, with which running statistics, which tests use, follow over about a hundred batches, two of "
        "which pass in a step. Those cells were made first, on a CPU, at a rate set after a trial on validation "
        "images, one seed and one short task long, of which no record is kept; half of their runs were made before "
        "pretrained-rates. After their test accuracies had been seen, whose standard deviations between seeds are up "
        "to 5 points, the momentum was changed for all arms. The balanced stream had no test run before; the first "
        "plan had it with the network's own momentum, too: these cells were then taken out, and never run.",
        "Images are enlarged from 32 pixels once, by bicubic interpolation; crops shift them by up to 4 of the 96. "
        "They are normalised by CIFAR-100's own mean and deviation, about twice as wide as in the network's first "
        "training. While it trains, BatchNorm takes nearly all of that away; its running statistics follow.",
        "Drop-connect and dropout, which the network's first training had, are left out.",
        "The small form is that of gap-opportunity, and has its runs: a narrow ResNet from scratch, on glyphs.",
        BF16,
    ),
)

RATES = Study(
    name="pretrained-rates",
    table="a study of ours: learning rates for the pretrained EfficientNet-lite0",
    about=(
        "The network and streams of pretrained-gaps at several learning rates, under iid alone, 8 replayed a step. A "
        "tenth of the training images is held out and tested on: these runs choose a rate, they do not compare "
        "schedules."
    ),
    cells=tuple(
        stream(
            "cifar100",
            tail,
            {**_LITE, "lr": rate, "replay": 8, "buffer": 5120, "validation": True, "bn_momentum": momentum},
            bn=_momentum(momentum),
            lr=str(rate),
        )
        for tail in ("balanced", "lt10")
        for momentum, rates in _TRIED.items()
        for rate in rates
    ),
    small=tuple(glyphs("lt10", {"lr": rate, "validation": True}, lr=str(rate)) for rate in (0.03, 0.1)),
    arms=("iid",),
    columns=(Column("ema.final"), Column("live.final")),
    seeds=2,
    notes=(
        f"Four rates are tried with each momentum of BatchNorm. With {_USUAL} the rate with the highest mean of the "
        "averaged network over both streams is taken for pretrained-gaps, under iid, so that what is compared there "
        "has no part in it. With the network's own, 0.01, the runs of pretrained-gaps were begun at "
        f"{LEARNING_RATES[_PUBLISHED]} before.",
        "The small form trains a narrow ResNet from scratch on glyphs, at two of the rates.",
        BF16,
    ),
)


def _together(key: str = FINAL) -> Contrast:
    """rpr − iid, the mean over all cells of a seed."""
    terms = (
        Term(sign / 4, arm, {"stream": tail, "buffer": buffer})
        for tail in ("balanced", "lt10")
        for buffer in ("500", "5120")
        for sign, arm in ((1, "rpr"), (-1, "iid"))
    )
    said = "" if key == FINAL else ", live"
    return Contrast(f"rpr − iid, four cells together{said}", tuple(terms), key, main=key == FINAL)


AGAIN = Study(
    name="pretrained-again",
    table="a study of ours: the gain of pretrained-gaps at 8 a step, asked again with other seeds",
    about=(
        "In pretrained-gaps, with five seeds, the four cells with 8 images replayed a step, taken together, have rpr "
        "above iid. That was not planned there, and BatchNorm's momentum had been changed after test accuracies had "
        "been seen. Here the same four cells have ten seeds: seeds 5 to 9, which had not been run when this was "
        "written, say whether the gain is there again. The verdict above is of all ten, and is not that test."
    ),
    cells=tuple(_cell(tail, _USUAL, 8, buffer) for tail in ("lt10", "balanced") for buffer in (500, 5120)),
    small=GAP_OPPORTUNITY.small,
    arms=("iid", "rpr"),
    columns=(Column("ema.final"), Column("live.final")),
    contrasts=(
        _together(),
        _together("live.final"),
        difference("rpr", "iid"),
        difference("rpr", "iid", key="live.final", name="rpr − iid, live"),
    ),
    notes=(
        "What is to be tested was written down before any run with a seed above 4: the averaged network's mean of "
        "rpr − iid over the four cells, of seeds 5 to 9 by themselves. Contrasts on this page are of all seeds; the "
        "runs of seeds 0 to 4 are those of pretrained-gaps, and had been seen.",
        "The settings are those of pretrained-gaps with BatchNorm's momentum at 0.1. Seeds 0 to 4 were made on a GPU; "
        "each record names the device. The two runs of a pair are to be made on the same kind of device.",
        BF16,
    ),
)
