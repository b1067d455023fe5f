"""How long a class can wait, and how long it must: bounds and scales of the rehearsal gap.

Throughout, C classes are resident and a step has b replay slots.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log
from math import floor as round_down

from reprise.core.arguments import as_int
from reprise.memory.theory.arguments import classes_and_slots, decimal


def floor(C: int, b: int) -> int:
    """The least worst-case gap of any recurrent schedule on a fixed set: ⌈C/b⌉.

    In fewer steps not every class can come by (the paper's worst-case lower bound).

    >>> floor(100, 8)
    13
    """
    C, b = classes_and_slots(C, b)
    return -(-C // b)


def fixed_set_bound(C: int, b: int) -> int:
    """The longest gap of randomised-pass replay on a fixed resident set: 2⌈C/b⌉ − 1.

    Reached when b divides C, by a class first in one pass and last in the next (the paper's bounded-gap
    proposition).

    >>> [fixed_set_bound(C, b) for C, b in ((100, 8), (100, 32), (200, 8), (200, 32))]
    [25, 7, 49, 13]
    """
    return 2 * floor(C, b) - 1


def churn_bound(C_max: int, I: int, b: int) -> int:  # noqa: E741 - the paper's letter
    """The longest gap of randomised-pass replay while classes come and go: ⌈(2·C_max − 1 + I)/b⌉.

    It holds for a class that stays resident between the two visits; C_max is the largest resident count of that
    interval and I the number of classes inserted during it (the paper's churn-conditional bound). A wait that is cut
    off, by the end of the tape or by an eviction, stays below it: had nothing changed, the visit would have come a step
    later at the earliest.

    >>> churn_bound(100, 0, 8), churn_bound(100, 10, 8)
    (25, 27)
    """
    C_max, b = classes_and_slots(C_max, b)
    return -(-(2 * C_max - 1 + as_int(I, "I (insertions)", 0)) // b)


def first_bound(C_max: int, I: int, b: int) -> int:  # noqa: E741 - the paper's letter
    """The longest wait of randomised-pass replay from a class's arrival to its first visit: ⌈(C_max + I)/b⌉.

    The class enters the deck of the current pass. That deck holds no class twice, so at the first draw that knows the
    class at most C_max − 1 others stand before it; later only an arrival can come to stand before it, and every draw
    takes b from the front. C_max is the largest resident count from that draw to the visit, I the number of classes
    inserted at later draws. The wait counts draws, the one that serves the class included. It is reached by the last
    class of a first pass. A wait that is cut off stays below it, as in `churn_bound`.

    >>> first_bound(100, 0, 8), first_bound(100, 10, 8)
    (13, 14)
    """
    C_max, b = classes_and_slots(C_max, b)
    return -(-(C_max + as_int(I, "I (insertions)", 0)) // b)


def extreme_value_scale(C: int, b: int, steps: int) -> float:
    """The scale of the longest gap of an independent balanced draw: log(n·C)/log(1/(1 − p)), p = b/C.

    A run of `steps` steps has about steps·b = n·C gaps in all; the longest of so many geometric gaps grows with
    their logarithm (the paper's proposition on stream length). With b ≥ C every gap is one, and so is the scale.

    >>> [round(extreme_value_scale(C, b, 3000)) for C, b in ((100, 8), (100, 32), (200, 8), (200, 32))]
    [121, 30, 247, 66]
    """
    C, b = classes_and_slots(C, b)
    gaps = as_int(steps, "steps", 1) * b
    return 1.0 if b >= C else log(gaps) / log(C / (C - b))


def jensen_floor(h: Callable[[float], float], C: int, b: int) -> float:
    """The least expected cost of a gap at the balanced marginal, for a convex cost h: h(C/b).

    Jensen's inequality at a mean gap of C/b (the paper's convex-cost proposition); only a constant gap reaches it
    when h is strictly convex. With b ≥ C the mean gap is one.

    >>> jensen_floor(lambda gap: gap**2, 100, 8)
    156.25
    """
    C, b = classes_and_slots(C, b)
    return float(h(max(C / b, 1.0)))


def window_bounds(C: int, b: int, W: float | Fraction | str) -> tuple[int, int]:
    """The shortest and longest gap of a windowed pass on a fixed set: ⌊(1 − W)C/b⌋ and ⌈(1 + W)C/b⌉, 0 < W ≤ 1.

    A class served at place i of one pass is at most W·C places earlier or later in the next. W counts as the
    decimal it is written as, so that rounding does not see the binary fraction behind it. With b ≥ C every gap is one.

    >>> window_bounds(100, 8, 0.25), window_bounds(100, 10, 0.1)
    ((9, 16), (9, 11))
    """
    C, b = classes_and_slots(C, b)
    width = decimal("W (window)", W)
    if not 0 < width <= 1:
        raise ValueError(f"W (window) must be above 0 and at most 1, got {W}")
    if b >= C:
        return 1, 1
    return round_down((1 - width) * C / b), ceil((1 + width) * C / b)


def deadline_cap(C: int, b: int, S: float | Fraction | str) -> int:
    """The longest gap of a draw with deadlines on a fixed set: ⌈S·C/b⌉, S > 1.

    S counts as the decimal it is written as. No class waits longer, whatever the independent draw would have done.
    With b ≥ C every gap is one.

    >>> deadline_cap(100, 8, 2), deadline_cap(100, 10, 1.1)
    (25, 11)
    """
    C, b = classes_and_slots(C, b)
    slack = decimal("S (slack)", S)
    if slack <= 1:
        raise ValueError(f"S (slack) must be above 1, got {S}")
    return ceil(slack * C / b) if b < C else 1
