"""What a study compares, seed by seed: two arms in a cell, an arm in two cells, differences of differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reprise.core.registry import did_you_mean
from reprise.lab.printed_tables import PrintedContrast

FINAL = "ema.final"


@dataclass(frozen=True)
class Term:
    """An arm with a weight: in every cell, or in those that have these facts."""

    weight: float
    arm: str
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    key: str = ""
    """The figure, if it is another than the contrast's."""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of figures, taken seed by seed in every cell, or over cells that differ in the named facts only.

    `difference`, `across` and `interaction` make the usual ones.
    """

    name: str
    terms: tuple[Term, ...]
    key: str = FINAL
    """The figure, as `figure_of` reads it."""
    family: str = ""
    """Contrasts of one family share Holm's correction; it may name facts, as `rpr − iid, {storage}`. Empty for none."""
    paper: tuple[PrintedContrast, ...] = ()
    """Where the paper prints it; what a later table has counts more."""
    main: bool = False
    """Whether the study's verdict is about it."""
    only: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The cells it is taken in, by their facts; all unless told."""


@dataclass(frozen=True)
class CellTerm:
    """A term of a contrast in one cell."""

    weight: float
    cell: str
    arm: str
    key: str


@dataclass(frozen=True)
class SeedContrast:
    """A contrast in one cell, or over one set of cells."""

    name: str
    label: str
    """Which cell, or what its cells have in common."""
    key: str
    terms: tuple[CellTerm, ...]
    family: str
    paper: Mapping[str, str] = field(hash=False)
    """What the paper prints of it, under the names that `PrintedContrast.find` gives."""
    main: bool

    @property
    def plain(self) -> bool:
        """Whether it is the difference of two arms, so that it can be stated relative to the second."""
        return [term.weight for term in self.terms] == [1.0, -1.0]


def difference(
    a: str,
    b: str,
    /,
    *,
    key: str = FINAL,
    family: str = "",
    paper: Sequence[PrintedContrast] = (),
    main: bool = False,
    name: str = "",
    only: Mapping[str, str] | None = None,
) -> Contrast:
    """Arm a less arm b, in every cell.

    >>> difference("rpr", "iid").name
    'rpr − iid'
    """
    terms = (Term(1, a), Term(-1, b))
    return Contrast(name or f"{a} − {b}", terms, key, family, tuple(paper), main, only or {})


def across(
    a: str,
    b: str,
    /,
    *,
    key: str = FINAL,
    family: str = "",
    paper: Sequence[PrintedContrast] = (),
    main: bool = False,
    only: Mapping[str, str] | None = None,
    **facts: tuple[str, str],
) -> Contrast:
    """Arm a where facts have their first value less arm b where they have their second.

    >>> across("uniform", "uniform", storage=("brs", "reservoir")).name
    'uniform, brs − uniform, reservoir'
    """
    first, second = ({name: pair[side] for name, pair in facts.items()} for side in (0, 1))
    name = " − ".join(f"{arm}, {', '.join(where.values())}" for arm, where in ((a, first), (b, second)))
    return Contrast(name, (Term(1, a, first), Term(-1, b, second)), key, family, tuple(paper), main, only or {})


def interaction(
    a: str,
    b: str,
    /,
    *,
    key: str = FINAL,
    family: str = "",
    paper: Sequence[PrintedContrast] = (),
    main: bool = False,
    only: Mapping[str, str] | None = None,
    **fact: tuple[str, str],
) -> Contrast:
    """How much more a − b is where a fact has its first value than where it has its second.

    >>> interaction("rpr", "iid", mask=("on", "off")).name
    '(rpr − iid), mask on − mask off'
    """
    ((name, (first, second)),) = fact.items()
    terms = tuple(
        Term(sign * side, arm, {name: value})
        for side, value in ((1, first), (-1, second))
        for sign, arm in ((1, a), (-1, b))
    )
    said = f"({a} − {b}), {name} {first} − {name} {second}"
    return Contrast(said, terms, key, family, tuple(paper), main, only or {})


def resolve(
    contrasts: Iterable[Contrast], cells: Mapping[str, Mapping[str, str]], arms: Sequence[str]
) -> list[SeedContrast]:
    """Each contrast in each cell, or set of cells, where all its terms are; `cells` are facts by name.

    A contrast that finds none is left out, for a small form may lack what it needs.
    """
    there = [one for one in contrasts if all(term.arm in arms for term in one.terms)]
    return [found for one in there for found in _in_cells(one, cells)]


Form = tuple[Mapping[str, Mapping[str, str]], Sequence[str]]
"""The cells of a form of a study, as facts by name, and its arms."""


def check(contrasts: Iterable[Contrast], forms: Sequence[Form]) -> None:
    """Refuse contrasts of arms that no form has, and those that find no cells in any."""
    arms = list(dict.fromkeys(arm for _, some in forms for arm in some))
    for contrast in contrasts:
        for term in contrast.terms:
            if term.arm not in arms:
                near = did_you_mean(term.arm, arms)
                raise ValueError(
                    f"the contrast {contrast.name!r} names an arm {term.arm!r} that the study does not have"
                    + (f": did you mean {near!r}?" if near else f"; it has {', '.join(arms)}")
                )
        if not any(resolve([contrast], *form) for form in forms):
            raise ValueError(f"the contrast {contrast.name!r} finds no cells to compare")


def _in_cells(contrast: Contrast, cells: Mapping[str, Mapping[str, str]]) -> Iterable[SeedContrast]:
    apart = {name for term in contrast.terms for name in term.where}
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for cell, facts in cells.items():
        if all(facts.get(name) == value for name, value in contrast.only.items()):
            shared = tuple((name, value) for name, value in facts.items() if name not in apart)
            groups.setdefault(shared if apart else (*shared, ("", cell)), []).append(cell)
    for shared, members in groups.items():
        terms = [_in_cell(term, contrast.key, members, cells) for term in contrast.terms]
        if any(term is None for term in terms):
            continue
        facts = {name: value for name, value in shared if name}
        label = (" ".join(facts.values()) or "across cells") if apart else members[0]
        paper: dict[str, str] = {}
        for printed in contrast.paper:
            paper |= printed.find(facts)
        try:
            family = contrast.family.format(**facts)
        except (KeyError, IndexError, ValueError):
            raise ValueError(
                f"the family {contrast.family!r} of the contrast {contrast.name!r} names a fact that its cells do not "
                f"have; they have {', '.join(facts) or 'none'}"
            ) from None
        some = tuple(term for term in terms if term is not None)
        yield SeedContrast(contrast.name, label, contrast.key, some, family, paper, contrast.main)


def _in_cell(term: Term, key: str, members: Sequence[str], cells: Mapping[str, Mapping[str, str]]) -> CellTerm | None:
    fit = [cell for cell in members if all(cells[cell].get(name) == value for name, value in term.where.items())]
    if len(fit) > 1:
        raise ValueError(f"the facts of cells {', '.join(fit)} do not tell which of them a contrast is about")
    return CellTerm(term.weight, fit[0], term.arm, term.key or key) if fit else None
