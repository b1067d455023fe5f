"""How many more seeds a contrast needs, for an interval of a given width."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reprise.lab.distributions import checked_confidence, deviation_limit, t_factor

_FINEST = 1e-9  # of the standard deviation: seeds for a finer interval are of no use to anybody


@dataclass(frozen=True)
class SeedsNeeded:
    """Seeds for an interval that reaches `width` to either side of the mean, or less."""

    width: float
    """Half the interval's length, in the unit of the figure: mean ± width."""
    confidence: float
    sd: float
    """Standard deviation of the contrast over seeds, as found so far."""
    n: int | None
    """Seeds it was found from; None where it is taken as known."""
    needed: int
    """Seeds in all, if the standard deviation stays as it is."""
    safe: int | None
    """Seeds in all, if it is as large as its upper confidence limit; None where n is."""

    @property
    def more(self) -> int | None:
        """Seeds beside those at hand, if the standard deviation stays as it is; 0 if there are enough."""
        return None if self.n is None else max(0, self.needed - self.n)

    @property
    def safe_more(self) -> int | None:
        """Seeds beside those at hand, if the standard deviation is as large as its upper confidence limit."""
        return None if self.n is None or self.safe is None else max(0, self.safe - self.n)


def seeds_needed(sd: float, width: float, *, confidence: float = 0.95, n: int | None = None) -> SeedsNeeded:
    """The least number of seeds whose interval is mean ± width, or narrower: t(n − 1) · sd / √n ≤ width.

    `width` is half the interval's length, in the unit of the figure. `sd` is an estimate if it was found from n seeds,
    and a poor one if they are few: `safe` is the number for its upper confidence limit, by the χ² distribution.

    >>> found = seeds_needed(0.65, 0.25, n=10)
    >>> found.needed, found.more, found.safe, found.safe_more
    (29, 19, 73, 63)
    """
    checked_confidence(confidence)
    if not 0 <= sd < math.inf:
        raise ValueError(f"a standard deviation is a number of 0 or more, got {sd!r}")
    if not _FINEST * sd < width < math.inf:
        raise ValueError(f"the width must be a number above 0 and above {_FINEST:g} of sd, got {width!r}")
    if n is not None and n < 2:
        raise ValueError(f"a standard deviation is found from 2 seeds or more, got {n}")
    return SeedsNeeded(
        width=width,
        confidence=confidence,
        sd=sd,
        n=n,
        needed=_least(sd / width, confidence),
        safe=None if n is None else _least(deviation_limit(sd, n, confidence) / width, confidence),
    )


def _least(ratio: float, confidence: float) -> int:
    """The least n from 2 with t(n − 1) · ratio / √n ≤ 1; what stands on the left falls with n."""

    def enough(n: int) -> bool:
        return t_factor(confidence, n) * ratio <= math.sqrt(n)

    below, above = 1, 2
    while not enough(above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if enough(middle) else (middle, above)
    return above
