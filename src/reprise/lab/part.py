"""A part of a study: some of its cells and arms, chosen by what tells cells apart."""

from __future__ import annotations

from dataclasses import replace

from reprise.core.registry import unknown
from reprise.lab.contrast import resolve
from reprise.lab.study import Study

ARM = "retrieval"
"""What arms are chosen by; all other names are facts of cells."""


def part_of(study: Study, only: str, *, small: bool = False) -> Study:
    """The study with those cells and arms alone that `only` names, as `dataset=cifar100,retrieval=iid,retrieval=rpr`.

    A name that is given several times may have any of these values. Contrasts that need what is left out are left out,
    too. `small` says of which form the part is; the other form stays whole.
    """
    if not only:
        return study
    cells, arms = study.form_cells(small=small), study.form_arms(small=small)
    facts = dict.fromkeys(name for cell in cells for name in cell.facts)
    for name, values in _parsed(only).items():
        if name == ARM:
            known = dict.fromkeys(study.form_arms(small=small))
            arms = tuple(arm for arm in arms if arm in values)
        elif name in facts:
            known = dict.fromkeys(cell.facts[name] for cell in study.form_cells(small=small) if name in cell.facts)
            cells = tuple(cell for cell in cells if cell.facts.get(name) in values)
        else:
            raise ValueError(f"study {study.name!r}: {unknown('name', name, [*facts, ARM])}")
        for value in values:
            if value not in known:
                raise ValueError(f"study {study.name!r}: {unknown(name, value, known)}")
    if not cells:
        raise ValueError(f"study {study.name!r} has no cell that is all of {only!r}")
    there = {cell.name: cell.facts for cell in cells}
    return replace(
        study,
        **({"small": cells} if small else {"cells": cells, "arms": arms}),
        small_arms=arms if small else study.form_arms(small=True),
        contrasts=tuple(one for one in study.contrasts if resolve([one], there, arms)),
        beside=tuple(one for one in study.beside if {*one.arm.split("/")} <= {*arms}),
    )


def _parsed(only: str) -> dict[str, list[str]]:
    """
    >>> _parsed("dataset=cifar100,storage=brs,storage=cbrs")
    {'dataset': ['cifar100'], 'storage': ['brs', 'cbrs']}
    """
    found: dict[str, list[str]] = {}
    for piece in only.split(","):
        name, equals, value = (one.strip() for one in piece.partition("="))
        if not (name and equals and value):
            raise ValueError(f"a part of a study is named as dataset=cifar100,storage=brs, got {only!r}")
        found.setdefault(name, []).append(value)
    return found
