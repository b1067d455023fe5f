"""`isolation`: is it the gap law or who meets whom? Both laws, with co-occurrence frozen and renewed."""

from __future__ import annotations

from reprise.lab.contrast import Contrast, Term, difference
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, LINEAR, PRIMARY, glyphs, stream

_READOUTS = {"ema.final": "", "live.final": ", live"}


def _effects(key: str, said: str) -> tuple[Contrast, ...]:
    halves = (("rpr", 0.5), ("frozen-pass", 0.5), ("iid", -0.5), ("frozen-iid", -0.5))
    renewed = (("rpr", 0.5), ("iid", 0.5), ("frozen-pass", -0.5), ("frozen-iid", -0.5))
    both = (("rpr", 1), ("iid", -1), ("frozen-pass", -1), ("frozen-iid", 1))
    named = {"gap law": halves, "co-occurrence": renewed, "interaction": both}
    main = key == "ema.final"
    effects = (
        Contrast(f"{name}{said}", tuple(Term(weight, arm) for arm, weight in terms), key, main=main)
        for name, terms in named.items()
    )
    pairs = (("rpr", "iid"), ("deadline:2", "iid"), ("window:0.25", "iid"), ("rpr", "window:0.25"))
    return (*effects, *(difference(a, b, key=key, name=f"{a} − {b}{said}") for a, b in pairs))


STUDY = Study(
    name="isolation",
    table="a study of ours: gap law and co-occurrence, apart",
    about=(
        "A randomised pass changes two things: how long classes wait, and that blocks of classes are mixed anew. Two "
        "gap laws (independent, by pass) are crossed with co-occurrence frozen or renewed; deadline:2 cuts the tail of "
        "independent draws alone, window:0.25 keeps gaps near their floor and renews slowly."
    ),
    cells=(
        *(
            stream("cifar100", tail, {**PRIMARY, "replay": replay}, b=str(replay), head="cosine")
            for tail in ("balanced", "lt10")
            for replay in (10, 8)
        ),
        *(stream("cifar100", "lt10", {**LINEAR, "replay": replay}, b=str(replay), head="linear") for replay in (10, 8)),
    ),
    small=(glyphs("balanced", {"replay": 5}, b="5", head="cosine"),),
    arms=("iid", "frozen-iid", "frozen-pass", "rpr", "deadline:2", "window:0.25"),
    columns=(Column("ema.final"), Column("live.final"), Column("p99"), Column("max"), Column("pair_entropy")),
    contrasts=tuple(one for key, said in _READOUTS.items() for one in _effects(key, said)),
    seeds=20,
    notes=(
        "The contrasts were written down before the runs. Gap law: the mean of rpr and frozen-pass less that of iid "
        "and frozen-iid. Co-occurrence: the mean of rpr and iid less that of frozen-pass and frozen-iid. Interaction: "
        "rpr less iid, less the same with frozen blocks.",
        "At b = 10 blocks divide the classes of every task evenly and the laws are exact; b = 8 is the paper's.",
        BF16,
    ),
)
