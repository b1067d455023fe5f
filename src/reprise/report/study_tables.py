"""The cells of a study's tables as text: figures, contrasts, and how they stand beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator

from reprise.lab.figure import LIMIT, ContrastFigure, Figure
from reprise.lab.outcome import StudyOutcome
from reprise.lab.sample_size import seeds_needed
from reprise.lab.spread import Spread
from reprise.lab.verdict import unit_of
from reprise.report.study_words import HALF_WIDTH, ROUNDING, head

__all__ = [
    "BESIDE_HEADS",
    "CONTRAST_HEADS",
    "NOTHING",
    "SPREAD_HEADS",
    "agreement",
    "beside_row",
    "contrast_digits",
    "contrast_row",
    "difference",
    "head",
    "interval",
    "more_seeds",
    "number",
    "ours",
    "p_value",
    "paper_interval",
    "plus",
    "rows",
    "spread_row",
    "statistics",
]

NOTHING = "–"


def rows(outcome: StudyOutcome) -> Iterator[tuple[str, str, dict[str, Figure]]]:
    """Cell, arm and figures by key, in the order of the study."""
    found: dict[tuple[str, str], dict[str, Figure]] = {}
    for figure in outcome.figures:
        found.setdefault((figure.cell, figure.arm), {})[figure.key] = figure
    for (cell, arm), figures in found.items():
        yield cell, arm, figures


def number(value: float | None, digits: int, *, sign: bool = False) -> str:
    """A number with a true minus sign, and a dash where there is none.

    >>> number(-1.5, 2), number(None, 2), number(0.2, 1, sign=True)
    ('−1.50', '–', '+0.2')
    """
    if value is None:
        return NOTHING
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.replace("-", "−")


def ours(figure: Figure) -> str:
    """Our figure, one digit finer than the paper's."""
    return number(figure.ours, figure.digits)


def interval(low: float | None, high: float | None, digits: int, *, sign: bool = False) -> str:
    """The ends of an interval."""
    if low is None or high is None:
        return NOTHING
    return f"{number(low, digits, sign=sign)} to {number(high, digits, sign=sign)}"


def difference(figure: Figure) -> str:
    """The difference in standard errors, with a mark where rounding explains it or where nothing does."""
    if figure.paper is None:
        return ""
    if figure.difference is None:
        return NOTHING if figure.within is not False else "outside"
    text = number(figure.difference, 1, sign=True).replace("−0.0", "0.0").replace("+0.0", "0.0")
    if figure.within is False:
        return f"{text} outside"
    return f"{text} {ROUNDING}" if abs(figure.difference) > LIMIT and figure.within else text


def agreement(figure: Figure | ContrastFigure | Spread) -> str:
    """Whether a figure agrees with the paper's, in a word; empty where it is not judged."""
    return {None: "", True: "agrees", False: "outside"}[figure.within]


def p_value(p: float | None) -> str:
    """
    >>> p_value(0.0321), p_value(1.5e-7), p_value(None)
    ('0.032', '1.5e−07', '–')
    """
    if p is None:
        return NOTHING
    return f"{p:.2g}".replace("e-", "e−") if p < 0.001 else f"{p:.3f}"


def more_seeds(figure: ContrastFigure, half_width: float = HALF_WIDTH) -> str:
    """Seeds beside those at hand for an interval of ± half_width points; empty for what is not in points."""
    found = figure.found
    if found is None or not unit_of(figure.contrast.key):
        return ""
    return f"{seeds_needed(found.sd, half_width, n=found.n).more:,}"


def contrast_digits(figure: ContrastFigure) -> int:
    """Digits that show a contrast: as many as the paper's, and more where it is small."""
    found = figure.found
    size = 0.0 if found is None else max(abs(found.mean), abs(found.high - found.low) / 4)
    return max(figure.digits, 2 if size >= 0.05 or not size else 4)


def paper_interval(figure: ContrastFigure) -> str:
    """The interval that the paper prints, with true minus signs."""
    low, high = figure.contrast.paper.get("low"), figure.contrast.paper.get("high")
    return f"{plus(low)} to {plus(high)}" if low and high else ""


def plus(printed: str | None) -> str:
    """A printed number with its sign.

    >>> plus("1.86"), plus("-0.44"), plus(None)
    ('+1.86', '−0.44', '')
    """
    if not printed:
        return ""
    return printed.replace("-", "−") if printed[0] in "-+" else f"+{printed}"


CONTRAST_HEADS = (
    *("contrast", "cell", "ours", "the paper's", "agreement", "95% interval", "the paper's interval", "relative"),
    *("t", "p", "Holm p", "k of n", "material"),
)


def contrast_row(figure: ContrastFigure) -> list[str]:
    """The cells of a contrast under `CONTRAST_HEADS`."""
    asked, found = figure.contrast, figure.found
    names = [asked.name, asked.label]
    if found is None:
        return [*names, NOTHING, plus(figure.paper), "", NOTHING, paper_interval(figure), *[NOTHING] * 6]
    digits, part = contrast_digits(figure), found.relative if asked.plain else None
    return [
        *names,
        number(found.mean, digits, sign=True),
        plus(figure.paper),
        agreement(figure),
        interval(found.low, found.high, digits, sign=True),
        paper_interval(figure),
        NOTHING if part is None else f"{number(100 * part, 1, sign=True)}%",
        number(found.t, 2),
        p_value(found.p),
        p_value(figure.holm),
        f"{found.positive} of {found.n}",
        NOTHING if part is None else "yes" if found.material else "no",
    ]


SPREAD_HEADS = ("cell", "arm or contrast", "figure", "ours", "95% interval", "the paper's", "agreement")


def spread_row(spread: Spread) -> list[str]:
    """The cells of a standard deviation under `SPREAD_HEADS`."""
    digits = 1 + len(spread.paper.partition(".")[2])
    return [
        *(spread.cell, spread.arm, head(spread.key)),
        number(spread.ours, digits),
        interval(spread.low, spread.high, digits),
        spread.paper,
        agreement(spread),
    ]


_STATISTICS = {"relative": "relative", "t": "t", "p": "p", "holm": "Holm p", "positive": "k of n"}


def statistics(outcome: StudyOutcome) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of what else the paper prints of contrasts: ours (the paper's)."""
    told = [one for one in outcome.contrasts if one.found is not None and one.contrast.paper.keys() & _STATISTICS]
    names = [name for name in _STATISTICS if any(name in one.contrast.paper for one in told)]
    rows = []
    for one in told:
        mine = dict(zip(CONTRAST_HEADS, contrast_row(one), strict=True))
        row = [one.contrast.name, one.contrast.label]
        for name in names:
            ours, theirs = mine[_STATISTICS[name]], one.contrast.paper.get(name)
            row.append(ours if theirs is None else f"{ours} ({_as_printed(name, theirs)})")
        rows.append(row)
    return ["contrast", "cell", *(_STATISTICS[name] for name in names)], rows if names else []


def _as_printed(name: str, printed: str) -> str:
    return f"{plus(printed)}%" if name == "relative" else printed.replace("-", "−")


BESIDE_HEADS = ("cell", "arm", "figure", "ours", "range of runs", "the paper's", "theory", "what the theory is")


def beside_row(figure: Figure) -> list[str]:
    """The cells of a row beside the theory, under `BESIDE_HEADS`."""
    digits = 0 if figure.key == "max" else 3
    return [
        figure.cell,
        figure.arm,
        head(figure.key),
        ours(figure),
        interval(figure.lowest, figure.highest, digits),
        figure.paper or NOTHING,
        number(figure.theory, figure.digits),
        figure.theory_name,
    ]
