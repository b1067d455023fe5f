"""What the paper of randomised-pass replay proves about gaps and co-occurrence, as functions, and what we add.

`limits` holds bounds and scales, `laws` distributions and frequencies. C is the number of resident classes, b the
number of replay slots a step.

>>> fixed_set_bound(100, 8), floor(100, 8)
(25, 13)
"""

from __future__ import annotations

from reprise.memory.theory.laws import (
    deadline_gap_pmf,
    geometric_pmf,
    geometric_tail,
    iid_gap_variance,
    pair_frequency,
    rpr_gap_pmf,
    rpr_gap_variance,
    sd_ratio,
    uniform_inclusion,
)
from reprise.memory.theory.limits import (
    churn_bound,
    deadline_cap,
    extreme_value_scale,
    first_bound,
    fixed_set_bound,
    floor,
    jensen_floor,
    window_bounds,
)

__all__ = [
    "churn_bound",
    "deadline_cap",
    "deadline_gap_pmf",
    "extreme_value_scale",
    "first_bound",
    "fixed_set_bound",
    "floor",
    "geometric_pmf",
    "geometric_tail",
    "iid_gap_variance",
    "jensen_floor",
    "pair_frequency",
    "rpr_gap_pmf",
    "rpr_gap_variance",
    "sd_ratio",
    "uniform_inclusion",
    "window_bounds",
]
