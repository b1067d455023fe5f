"""Our figures beside printed ones: a mean of runs, a contrast of arms, and whether they agree with the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import sqrt
from typing import Literal

from reprise.lab.contrast import SeedContrast
from reprise.lab.distributions import t_factor
from reprise.lab.printed import half_unit
from reprise.lab.statistics import Contrast as Statistics

LIMIT = 3  # standard errors
_TINY = 1e-9  # so that a difference of exactly half a digit is not lost to binary fractions

Rule = Literal["", "errors", "zero", "bound", "overlap", "inside"]
"""How a figure is judged, if it is."""


def standard_error(sd: float, ours: int, theirs: int) -> float:
    """The standard error of the difference of two means, over `ours` runs and over `theirs`.

    >>> round(standard_error(2.0, 10, 10), 4)
    0.8944
    """
    return sd * sqrt(1 / ours + 1 / theirs)


def agrees(ours: float, paper: str, error: float) -> bool:
    """Whether two means differ by at most three standard errors and the rounding of the printed one.

    >>> agrees(10.2, "9.9", 0.1), agrees(10.3, "9.9", 0.1)
    (True, False)
    """
    return abs(ours - float(paper)) <= LIMIT * error + half_unit(paper) + _TINY


@dataclass(frozen=True)
class Figure:
    """One cell of a study's table: our figure, and the paper's beside it."""

    cell: str
    arm: str
    key: str
    ours: float | None
    """Mean over the first seeds; None where no run has it."""
    sd: float | None
    """Standard deviation between runs; None with fewer than two."""
    lowest: float
    highest: float
    """The extremes over all runs."""
    n: int
    """Runs that the mean is of."""
    low: float | None
    """The 95% interval of the mean; None with fewer than two runs."""
    high: float | None
    paper: str | None = None
    """As the paper prints it; None where it prints nothing, or where nothing can be compared."""
    error: float | None = None
    """The standard error of the difference."""
    rule: Rule = ""
    """How it is judged: `errors`, `zero` or `bound`; empty where it is not."""
    within: bool | None = None
    """Whether it agrees with the paper's; None where it is not judged."""
    theory: float | None = None
    theory_name: str = ""
    spread_n: int = 0
    """Runs that the standard deviation is of."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in standard errors; None where runs do not differ or the paper has no figure."""
        if self.paper is None or not self.error or self.ours is None:
            return None
        return (self.ours - float(self.paper)) / self.error

    @property
    def digits(self) -> int:
        """Digits after the point that show our figure one digit finer than the paper's."""
        if self.paper is None:
            size = abs(self.ours or 0.0)
            return 2 if size >= 10 else 3 if size >= 0.1 or not size else 5
        return 0 if self.rule == "zero" else 1 - int(Decimal(self.paper).as_tuple().exponent)


@dataclass(frozen=True)
class ContrastFigure:
    """A contrast of a study: our statistics, and what the paper prints of it."""

    contrast: SeedContrast
    found: Statistics | None
    """Our statistics; None with fewer than two seeds."""
    why: str = ""
    """Why there are none, in a sentence."""
    holm: float | None = None
    """The p-value after Holm's correction within its family."""
    rule: Rule = ""
    """`overlap` where the paper prints an interval, `inside` where it prints a mean alone; empty where not judged."""
    within: bool | None = None

    @property
    def paper(self) -> str | None:
        """The paper's mean, as printed."""
        return self.contrast.paper.get("mean")

    @property
    def digits(self) -> int:
        """Digits after the point that show it: the paper's, or two."""
        return 2 if self.paper is None else max(0, -int(Decimal(self.paper).as_tuple().exponent))


def judge(contrast: SeedContrast, found: Statistics, theirs: int) -> tuple[Rule, bool | None]:
    """Whether a contrast agrees with the paper's, which is of `theirs` seeds: the intervals overlap.

    Where it prints no interval, its seeds are taken to spread as ours do, and the 95% interval of the difference of the
    two means must hold 0.
    """
    paper = contrast.paper
    if "mean" not in paper:
        return "", None
    if "low" in paper and "high" in paper:
        low = float(paper["low"]) - half_unit(paper["low"]) - _TINY
        high = float(paper["high"]) + half_unit(paper["high"]) + _TINY
        return "overlap", found.low <= high and found.high >= low
    half = t_factor(found.confidence, found.n) * standard_error(found.sd, found.n, theirs)
    return "inside", abs(found.mean - float(paper["mean"])) <= half + half_unit(paper["mean"]) + _TINY
