"""`law`: where class-balanced draws help: losses with and without a mask, and losses on stored logits."""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import across, difference
from reprise.lab.printed_tables import PrintedContrast
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import BF16, glyphs, stream
from reprise.studies.paper import table

_UNMASKED = {"hyper": {"mask": "none"}}
_HOSTS: dict[tuple[str, str], dict[str, Any]] = {
    ("er-ace", "on"): {"learner": "er-ace"},
    ("er-ace", "off"): {"learner": "er-ace", **_UNMASKED},
    ("der++", "off"): {"learner": "der++", "head": "linear"},
    ("der++", "on"): {"learner": "der++-ace", "head": "linear"},
    ("der", ""): {"learner": "der", "head": "linear"},
    ("refresh", "off"): {"learner": "refresh", "head": "linear"},
}
_SETTING = {"buffer": 500, "replay": 32, "precision": "bf16"}


def _facts(host: str, mask: str) -> dict[str, str]:
    return {"host": host, **({"mask": mask} if mask else {})}


def _small(names: tuple[str, str], settings: dict[str, Any]) -> Cell:
    return glyphs("balanced", {"buffer": 200, "replay": 8, **settings}, **_facts(*names))


STUDY = Study(
    name="law",
    table="the table of loss interventions: class-balanced against uniform draws",
    about=(
        "Balanced streams, 500 images kept, 32 replayed a step. ER-ACE loses its mask, DER++ gains one; DER replays "
        "logits alone. Compared is what class-balanced draws add to uniform ones."
    ),
    cells=tuple(
        stream(dataset, "balanced", {**_SETTING, **settings}, **_facts(*names))
        for dataset in ("cifar100", "tinyimagenet")
        for names, settings in _HOSTS.items()
    ),
    small=tuple(_small(names, settings) for names, settings in _HOSTS.items()),
    arms=("uniform", "iid"),
    columns=(Column("ema.final"),),
    contrasts=(
        difference("iid", "uniform", paper=[PrintedContrast(table("law"))], main=True),
        across(
            "uniform",
            "uniform",
            paper=[PrintedContrast(table("inline"), {"key": "mask_main_effect"}, {"mean": "value"})],
            only={"host": "er-ace"},
            mask=("on", "off"),
        ),
        across("uniform", "uniform", only={"host": "der++"}, mask=("on", "off")),
    ),
    notes=(
        "The paper prints neither stream, buffer, replay batch, head nor the weights of the losses. Balanced, 500, 32, "
        "a cosine head for ER-ACE and a linear one for the rest, α 0.3 for DER and α 0.1, β 0.5 for DER++ give the "
        "accuracies of uniform draws that its relative effects imply.",
        "Refresh has the settings of its learner here: α 0.1 and β 0.5 of DER++, a move of 1e-5 before each step, "
        "damping 1e-3, noise 1e-3, a Fisher information refreshed every 1,000 examples with a decay of 0.9, and a "
        "weight decay of 1e-4, which no other learner of this study has.",
        "The paper's effect of the mask is taken as that under uniform draws, and is that of ER-ACE.",
        BF16,
    ),
)
