"""A study's verdict: what was found, and how it stands beside the paper, in two sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprise.lab.figure import ContrastFigure
from reprise.lab.spread import Spread

if TYPE_CHECKING:
    from reprise.lab.figure import Figure
    from reprise.lab.outcome import StudyOutcome

NAMED = 3  # figures outside that are named


def verdict(outcome: StudyOutcome) -> str:
    """What was found, then how it stands beside the paper: two sentences."""
    return f"{found(outcome)} {beside(outcome)}"


def found(outcome: StudyOutcome) -> str:
    """What the study's main contrasts say, in a sentence; of a study without any, how many runs it has."""
    main = [one for one in outcome.contrasts if one.contrast.main and one.found is not None]
    if not main:
        figure = "a mean over seeds" if outcome.plan.seeds > 1 else "that of one seed"
        return f"{len(outcome.runs.records):,} runs were measured, and each figure is {figure}."
    names = list(dict.fromkeys(one.contrast.name for one in main))
    return "; ".join(_said(name, [one for one in main if one.contrast.name == name]) for name in names) + "."


def _said(name: str, contrasts: list[ContrastFigure]) -> str:
    means = [one.found.mean for one in contrasts if one.found is not None]
    above = sum(one.found is not None and one.found.low > 0 for one in contrasts)
    below = sum(one.found is not None and one.found.high < 0 for one in contrasts)
    unit = unit_of(contrasts[0].contrast.key)
    if len(contrasts) == 1:
        (only,) = contrasts
        assert only.found is not None
        if only.found.t is None:
            return (
                f"{name} is {signed(means[0])}{unit} in each of {only.found.n} seeds, without a spread to judge it by"
            )
        ends = only.found.low, only.found.high
        interval = f"{signed(ends[0], *ends)} to {signed(ends[1], *ends)}"
        clear = "which excludes 0" if only.found.clear else "which includes 0"
        return f"{name} is {signed(means[0], *ends)}{unit} over {only.found.n} seeds (95% interval {interval}, {clear})"
    size = f"{signed(min(means), *means)} to {signed(max(means), *means)}{unit}"
    parts = [f"above 0 in {above}"] if above or not below else []
    parts += [f"below 0 in {below}"] if below else []
    return f"{name} is {size}, with intervals {' and '.join(parts)} of {len(contrasts)} cells"


def beside(outcome: StudyOutcome) -> str:
    """How the figures stand beside the paper's, in a sentence."""
    if outcome.plan.small:
        return "This is the small form, on other data: not comparable with the paper, so nothing is judged."
    if outcome.plan.study.split == "validation":
        return "These runs were tested on validation images, to choose by: they are compared with no test figure."
    total = len(outcome.judged)
    if not total:
        return "There is no figure of the paper to stand beside it."
    said = f"{total - len(outcome.outside)} of {total} figures agree with the paper's"
    if outcome.outside:
        named = ", ".join(map(name_of, outcome.outside[:NAMED]))
        more = len(outcome.outside) - NAMED
        said += f"; outside: {named}" + (f" and {more} more" if more > 0 else "")
    return f"{said}."


def name_of(figure: Figure | ContrastFigure | Spread) -> str:
    """A figure in a few words."""
    if not isinstance(figure, ContrastFigure):
        return f"{figure.cell} {figure.arm} {'sd of ' * isinstance(figure, Spread)}{figure.key}"
    return f"{figure.contrast.label} {figure.contrast.name}"


def unit_of(key: str) -> str:
    """The unit that a difference of figures is stated in."""
    return " points" if key.partition(".")[0] in ("ema", "live") else ""


def signed(value: float, *beside: float) -> str:
    """A difference with its sign, two digits after the point; four where it and those beside it are small.

    >>> signed(1.234), signed(-0.5), signed(0.00123), signed(0.00123, 1.234), signed(0.0), signed(0.0, 0.001)
    ('+1.23', '−0.50', '+0.0012', '+0.00', '+0.00', '+0.0000')
    """
    largest = max(map(abs, (value, *beside)))
    digits = 2 if largest >= 0.05 or not largest else 4
    return f"{value:+.{digits}f}".replace("-", "−")
