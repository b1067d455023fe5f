"""The result of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.audit.cooccurrence import pair_matrix
from reprise.audit.visits import Visits
from reprise.audit.waits import Waits

Ints = NDArray[np.int64]

KEYS = (
    "steps",
    "mean",
    "p50",
    "p95",
    "p99",
    "max",
    "wall_max",
    "violations",
    "deactivations",
    "pair_coverage",
    "pair_entropy",
    "exposure_min",
    "exposure_max",
    "first_max",
    "open_max",
    "cut_max",
    "never",
    "overdue",
)
"""The figures of an audit, in the order of its tables."""
_MOST_CLASSES = 5_000  # a matrix of counts over more classes would take gigabytes


@dataclass(frozen=True, repr=False)
class Audit:
    """What a tape looks like, counted over the whole tape.

    A class is *visited* at a step when the union of the step's draws holds an example of it. It is *resident* at a
    draw when the memory then holds one. A *resident gap* is the number of steps between two consecutive visits
    of a class that was resident at every draw between them; an eviction seen at a draw discards the open gap. A
    *wall gap* runs regardless of evictions. A figure that nothing defines is None: gaps of a tape where no class
    came back, pairs where fewer than two classes (entropy: three) were ever resident together.

    Not every wait is a gap. A *stay* is an unbroken run of draws at which a class was resident; a class that comes back
    after an eviction begins another. A *first wait* is the number of draws from the beginning of a stay to its
    first visit, which is counted. An *open wait* is the number of draws, up to the tape's last, that did not serve a
    class then resident since its last visit, or since its arrival if its stay has no visit; it is 0 for a class visited
    at the last draw. A *cut wait* is the same for a stay that an eviction ended, up to its last draw. So every draw of
    every stay is in one wait: first waits, resident gaps, open and cut waits add up to all of them.

    A step *skips* a class that is resident when one of its draws excluded the class and none visited it. Gaps but for
    wall gaps, other waits, bounds and exposure go by the steps that did not skip the class. An example that was removed
    has gone as by an eviction.

    Two audits are equal when their figures are.
    """

    steps: int
    """Steps of the tape."""
    mean: float | None
    """Mean resident gap."""
    p50: float | None
    """Median resident gap; this and the next two by linear interpolation."""
    p95: float | None
    """95th percentile of resident gaps."""
    p99: float | None
    """99th percentile of resident gaps."""
    max: int | None
    """Longest resident gap."""
    wall_max: int | None
    """Longest wall gap."""
    violations: int
    """Resident gaps above the churn bound of their own interval (`bounds`)."""
    deactivations: int
    """How often a class was resident at one draw and not at the next."""
    pair_coverage: float | None
    """Distinct class pairs seen in a batch, over the pairs that `class_max` classes have."""
    pair_entropy: float | None
    """Natural-log entropy of the pairs' shares, over the log of the pairs that `class_max` classes have."""
    exposure_min: float | None
    """Exposure of the least exposed class; exposure is visits over the steps that found the class resident and did not
    skip it. A class that all of them skipped does not count here or in the next."""
    exposure_max: float | None
    """Exposure of the most exposed class."""
    first_max: int | None
    """Longest first wait."""
    open_max: int | None
    """Longest open wait."""
    cut_max: int
    """Longest cut wait; 0 if no class was evicted."""
    never: int
    """Classes resident at the last draw that no draw of the tape ever visited."""
    overdue: int
    """First, open and cut waits beyond what a randomised pass allows: what `violations` counts for gaps.

    A first wait is overdue above its bound; an open or cut wait from its bound on, as a visit would have come one step
    later at the earliest.
    """

    class_max: int
    """The largest number of classes resident at a draw."""
    occupancy_spread: float | None
    """Largest over smallest number of stored examples of a class, after the last step."""
    distinct_per_batch: float | None
    """Mean number of classes in a step's draws, over the steps that replayed anything."""
    classes: Ints = field(compare=False)
    """Labels of the classes that were resident at some draw, sorted."""
    exposure: NDArray[np.float64] = field(compare=False)
    """Exposure of each of `classes`; 0 where every step skipped it."""
    gaps: Ints = field(compare=False)
    """All resident gaps, by class and then by time."""
    gap_classes: Ints = field(compare=False)
    """The class label of each of `gaps`."""
    bounds: Ints = field(compare=False)
    """The churn bound of each of `gaps`: ⌈(2·C_max − 1 + I)/b⌉ with the interval's own C_max and I.

    b is the size of one draw, also where a step draws more than once.
    """
    wall_gaps: Ints = field(compare=False)
    """All wall gaps, by class and then by time."""
    first: Waits = field(compare=False)
    """All first waits, each with its class and its own bound, as the next two."""
    open: Waits = field(compare=False)
    """The open wait of every class resident at the last draw."""
    cut: Waits = field(compare=False)
    """The cut wait of every stay that an eviction ended."""
    visits: Visits = field(compare=False)
    """Every visit; classes are places in `classes`."""

    def __post_init__(self) -> None:
        for array in (self.classes, self.exposure, self.gaps, self.gap_classes, self.bounds, self.wall_gaps):
            array.flags.writeable = False

    def to_dict(self) -> dict[str, float | int | None]:
        """The figures of `KEYS` under their names, as plain numbers or None."""
        return {key: getattr(self, key) for key in KEYS}

    @property
    def longest(self) -> int | None:
        """The longest wait of any kind: gap, first, open or cut; None if no class was ever resident at a draw."""
        longest: int | None = longest_wait(self.to_dict())
        return longest

    def pairs(self) -> Ints:
        """How many batches each two of `classes` shared: a symmetric matrix with zeros on its diagonal."""
        if len(self.classes) > _MOST_CLASSES:
            raise ValueError(
                f"pairs() makes a square matrix of at most {_MOST_CLASSES} classes, this tape has {len(self.classes)}"
            )
        return pair_matrix(self.visits, len(self.classes))

    @staticmethod
    def average(audits: Iterable[Audit]) -> dict[str, float | None]:
        """The mean of each figure over several audits; a None is left out, and all None gives None."""
        figures = [audit.to_dict() for audit in audits]
        if not figures:
            raise ValueError("Audit.average needs at least one audit, got none")
        means: dict[str, float | None] = {}
        for key in KEYS:
            known = [value for one in figures if (value := one[key]) is not None]
            means[key] = sum(known) / len(known) if known else None
        return means

    def __repr__(self) -> str:
        return "Audit(" + ", ".join(f"{key}={_short(value)}" for key, value in self.to_dict().items()) + ")"

    def __str__(self) -> str:
        figures = {key: "–" if value is None else _short(value) for key, value in self.to_dict().items()}
        return "\n".join(
            (
                f"Audit of {self.steps} steps, {len(self.classes)} classes, at most {self.class_max} at once",
                "  gaps      mean {mean}, p50 {p50}, p95 {p95}, p99 {p99}, max {max}, wall max {wall_max}".format(
                    **figures
                ),
                "  waits     first {first_max}, open {open_max}, cut {cut_max} at most; {never} never replayed, "
                "{overdue} overdue".format(**figures),
                "  churn     {violations} violations of the bound, {deactivations} deactivations".format(**figures),
                "  pairs     coverage {pair_coverage}, entropy {pair_entropy}".format(**figures),
                "  exposure  {exposure_min} to {exposure_max}".format(**figures),
            )
        )


def longest_wait(figures: Mapping[str, Any]) -> Any:
    """The longest wait of any kind, from an audit's figures; None where there was none, as nobody was ever stored.

    >>> longest_wait({"max": 129, "first_max": 186, "open_max": 267, "cut_max": 4})
    267
    """
    kinds = (figures.get(key) for key in ("max", "first_max", "open_max", "cut_max"))
    return max((wait for wait in kinds if wait is not None), default=None) or None


def _short(value: float | int | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
