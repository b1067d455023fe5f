"""What cells of several studies share, so that runs with the same settings are the same run."""

from __future__ import annotations

from typing import Any

from reprise.lab.study import Cell

TAILS = {"balanced": 1.0, "lt10": 10.0, "lt100": 100.0}
PRIMARY: dict[str, Any] = {"learner": "er-ace", "precision": "bf16"}
"""The primary setting: ResNet-18, cosine head, 5,120 images kept, 8 replayed a step, 32 arriving."""
LINEAR: dict[str, Any] = {**PRIMARY, "head": "linear"}
"""The setting of the paper's diagnostics: a linear layer with bias in place of the cosine head."""
SMALL: dict[str, Any] = {
    "learner": "er-ace",
    "width": 8,
    "test_per_class": 5,
    "batch": 10,
    "buffer": 500,
    "replay": 4,  # of 100 classes: few come back in a step, so that it matters which
    "augment": "none",  # every glyph is drawn in a place and shape of its own already
}
"""The setting of small forms that train: runs of seconds, on images drawn here."""
BF16 = (
    "The paper names neither the precision of its arithmetic nor its machines; products here are in bf16, sums in "
    "single precision."
)


def stream(dataset: str, tail: str, settings: dict[str, Any], **facts: str) -> Cell:
    """A cell of a data set with a tail; other facts are part of its name.

    >>> stream("cifar100", "lt10", {"replay": 32}, storage="brs", b="32").name
    'cifar100-lt10 brs b=32'
    """
    words = [value if name in _BARE else f"{name}={value}" for name, value in facts.items()]
    return Cell(
        " ".join([f"{dataset}-{tail}", *words]),
        {"dataset": dataset, "imbalance": TAILS[tail], **settings},
        {"dataset": dataset, "stream": tail, **facts},
    )


_BARE = ("storage", "host")  # facts whose value says enough


def glyphs(tail: str, settings: dict[str, Any] | None = None, **facts: str) -> Cell:
    """A cell of a small form that trains, some four hundred steps long."""
    per_class = 40 if tail == "balanced" else 100
    return stream("glyphs", tail, {**SMALL, "per_class": per_class, **(settings or {})}, **facts)


def glyph_labels(tail: str, settings: dict[str, Any] | None = None, **facts: str) -> Cell:
    """A cell of a small form that audits."""
    return stream("glyphs", tail, {"buffer": 512, **(settings or {})}, **facts)
