"""How gaps are distributed, and how often classes meet, on a fixed resident set.

Throughout, C classes are resident and a step has b replay slots. A distribution is an array whose entry g is the
probability of a gap of g steps; entry 0 is zero.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_int
from reprise.memory.theory.arguments import classes_and_slots, gap_lengths
from reprise.memory.theory.limits import deadline_cap, fixed_set_bound

Floats = NDArray[np.float64]


@overload
def geometric_tail(g: int, C: int, b: int) -> float: ...
@overload
def geometric_tail(g: ArrayLike, C: int, b: int) -> float | Floats: ...
def geometric_tail(g: ArrayLike, C: int, b: int) -> float | Floats:
    """The probability that an independent balanced draw leaves a class waiting more than g steps: (1 − b/C)^g.

    The gap is geometric with p = b/C, so it has no bound when b < C (the paper's geometric law). With b ≥ C, p is
    one. `g` may be one length or an array of them, 0 or more.

    >>> round(geometric_tail(25, 100, 8), 4)
    0.1244
    """
    C, b = classes_and_slots(C, b)
    tail = np.asarray((1.0 - min(b / C, 1.0)) ** gap_lengths(g, 0))
    return tail if tail.ndim else float(tail)


@overload
def geometric_pmf(g: int, C: int, b: int) -> float: ...
@overload
def geometric_pmf(g: ArrayLike, C: int, b: int) -> float | Floats: ...
def geometric_pmf(g: ArrayLike, C: int, b: int) -> float | Floats:
    """The probability that an independent balanced draw gives a gap of exactly g steps: p(1 − p)^(g−1), p = b/C.

    `g` may be one length or an array of them, 1 or more.

    >>> geometric_pmf([1, 2, 3], 100, 50).tolist()
    [0.5, 0.25, 0.125]
    """
    C, b = classes_and_slots(C, b)
    p = min(b / C, 1.0)
    mass = np.asarray(p * (1.0 - p) ** (gap_lengths(g, 1) - 1))
    return mass if mass.ndim else float(mass)


def iid_gap_variance(C: int, b: int) -> float:
    """The variance of the gap under an independent balanced draw: (1 − p)/p², p = b/C, or 0 when b ≥ C.

    >>> iid_gap_variance(100, 10)
    90.0
    """
    C, b = classes_and_slots(C, b)
    return 0.0 if b >= C else (C - b) * C / b**2


def rpr_gap_pmf(C: int, b: int) -> Floats:
    """The exact law of the gap under randomised-pass replay: probabilities of gaps 0 … 2⌈C/b⌉ − 1.

    When b divides C, a class's batches i and j in two consecutive passes are independent and uniform on 1 … m with
    m = C/b, and the gap m − i + j is triangular on 1 … 2m − 1 (the paper's proposition on stream length).

    Otherwise passes start at different places within a batch. If r slots of the batch in which a pass ends belong
    to that pass, its last r classes were served already when the next pass is shuffled, and go to its end; the others
    fall uniformly before them. Averaging over the starting places, which come round in turn, gives the law
    here, which the paper leaves open.

    >>> rpr_gap_pmf(24, 8).round(4).tolist()
    [0.0, 0.1111, 0.2222, 0.3333, 0.2222, 0.1111]
    >>> law = rpr_gap_pmf(100, 8)
    >>> len(law) - 1, float(round(law @ np.arange(len(law)), 12))
    (25, 12.5)
    """
    C, b = classes_and_slots(C, b)
    law = np.zeros(fixed_set_bound(C, b) + 1)
    if b >= C:
        law[1] = 1.0
        return law
    starts = {turn * C % b for turn in range(b)}
    for start in starts:
        batch = (start + np.arange(2 * C)) // b  # of every slot of this pass and the next
        late = (start + C) % b
        # Classes not served in the shared batch, then those that were: from these slots to those, uniformly.
        for first, second in (
            (slice(0, C - late), slice(C, 2 * C - late)),
            (slice(C - late, C), slice(2 * C - late, 2 * C)),
        ):
            if first.start == first.stop:
                continue
            leaving, returning = np.bincount(batch[first]), np.bincount(batch[second])
            # Reversing one histogram turns the convolution's sum of batches into their difference.
            pairs = np.convolve(returning, leaving[::-1])[len(leaving) - 1 :]
            law[: len(pairs)] += pairs[: len(law)] / (second.stop - second.start)
    return law / (C * len(starts))


def rpr_gap_variance(C: int, b: int) -> float:
    """The variance of the gap under randomised-pass replay: (m² − 1)/6 with m = C/b when b divides C.

    For other sizes it is the variance of the exact law (`rpr_gap_pmf`); with b ≥ C it is 0.

    >>> rpr_gap_variance(100, 10), round(rpr_gap_variance(100, 8), 3)
    (16.5, 24.628)
    """
    C, b = classes_and_slots(C, b)
    if b >= C:
        return 0.0
    if C % b == 0:
        return ((C // b) ** 2 - 1) / 6
    law = rpr_gap_pmf(C, b)
    return float(law @ (np.arange(len(law)) - C / b) ** 2)


def sd_ratio(C: int, b: int) -> float:
    """Standard deviation of the gap under an independent balanced draw over that under randomised-pass replay.

    It is √(6m/(m + 1)) when b divides C, m = C/b, and tends to √6 ≈ 2.449 as m grows (the paper's proposition on
    stream length). With b ≥ C there is nothing to compare, which is an error.

    >>> [round(sd_ratio(C, b), 2) for C, b in ((100, 8), (100, 32), (200, 8), (200, 32))]
    [2.42, 2.43, 2.4, 2.44]
    """
    C, b = classes_and_slots(C, b)
    if b >= C:
        raise ValueError(f"with b = {b} and C = {C} every gap is one and has no spread to compare; b must be below C")
    return sqrt(iid_gap_variance(C, b) / rpr_gap_variance(C, b))


def deadline_gap_pmf(C: int, b: int, S: float | Fraction | str) -> Floats:
    """The law of the gap under a draw with deadlines: geometric below the cap D = ⌈S·C/b⌉, the remaining mass at D.

    Below the cap every step serves the class with the same probability p′, and at the cap it is served for certain.
    Of all such laws this is the one with mean gap C/b, that is (1 − (1 − p′)^D)/p′ = C/b. It is close, not exact: it
    takes the share of slots that deadlines claim as steady, while it moves a little from step to step.

    >>> law = deadline_gap_pmf(100, 10, 1.5)
    >>> len(law) - 1, float(round(law @ np.arange(len(law)), 9))
    (15, 10.0)
    """
    C, b = classes_and_slots(C, b)
    cap = deadline_cap(C, b, S)
    law = np.zeros(cap + 1)
    if b >= C:
        law[1] = 1.0
        return law
    low, high = 0.0, b / C  # the mean falls from D to below C/b over this range
    for _ in range(200):
        hazard = (low + high) / 2
        if not low < hazard < high:
            break
        if -np.expm1(cap * np.log1p(-hazard)) * b > hazard * C:
            low = hazard
        else:
            high = hazard
    law[1:cap] = high * (1.0 - high) ** np.arange(cap - 1)
    law[cap] = (1.0 - high) ** (cap - 1)
    return law


def pair_frequency(C: int, b: int) -> float:
    """The share of batches in which two given classes meet under renewed balanced retrieval: b(b − 1)/(C(C − 1)).

    The same for every pair, under independent draws and under randomised passes alike (the paper states it for b | C);
    with b ≥ C all classes meet at every step.

    >>> round(pair_frequency(100, 8), 6)
    0.005657
    """
    C, b = as_int(C, "C (classes)", 2), as_int(b, "b (replay size)", 1)
    return 1.0 if b >= C else b * (b - 1) / (C * (C - 1))


def uniform_inclusion(C: int, per_class: int, b: int) -> float:
    """The probability that a class is among b examples drawn uniformly, without repeats, from a balanced memory.

    The memory holds `per_class` examples of each of C classes, N in all: 1 − Π (N − per_class − i)/(N − i) over the
    b draws i = 0 … b − 1. Below b/C, as a batch may spend several places on one class.

    >>> round(uniform_inclusion(100, 50, 8), 5)
    0.07731
    """
    C, b = classes_and_slots(C, b)
    per_class = as_int(per_class, "per_class (examples of a class)", 1)
    others, total = (C - 1) * per_class, C * per_class
    missed = 1.0
    for drawn in range(min(b, others + 1)):
        missed *= (others - drawn) / (total - drawn)
    return 1.0 - missed


def tail_of(law: Floats, longest: int) -> Floats:
    """The probability of a gap of at least 1, 2, … `longest` steps, from that of 0, 1, 2, …

    >>> tail_of(np.array([0.0, 0.25, 0.5, 0.25]), 5).tolist()
    [1.0, 0.75, 0.25, 0.0, 0.0]
    """
    tail = np.zeros(max(longest, len(law) - 1))
    tail[: len(law) - 1] = np.cumsum(law[:0:-1])[::-1]
    tail[0] = 1.0  # but for rounding
    return tail[:longest]
