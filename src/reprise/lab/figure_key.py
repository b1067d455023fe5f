"""Names of the figures that a study can ask of its runs."""

from __future__ import annotations

from collections.abc import Iterable

from reprise.audit.result import KEYS
from reprise.core.registry import did_you_mean

AUDIT_KEYS = (*KEYS, "class_max", "distinct_per_batch", "gap_sd", "occupancy_spread")
METRIC_KEYS = (
    *("final", "boundary_mean", "any_time", "worst_case", "backward_transfer", "forgetting", "head", "mid", "tail"),
    "macro",
)
_READOUTS = ("ema", "live")


def check_keys(keys: Iterable[str], *, trains: bool) -> None:
    """Refuse figures that no record has: of the audit, of a read-out, or of a read-out where nothing is trained.

    Ways through a record, as `diagnostics.bias_displacement.1-4.mean`, depend on the run and are not checked.

    >>> check_keys(["p99", "ema.final"], trains=True)
    """
    every = [*AUDIT_KEYS, *(f"{readout}.{metric}" for readout in _READOUTS for metric in METRIC_KEYS)]
    for key in keys:
        first, dot, _ = key.partition(".")
        if dot and first not in _READOUTS:
            continue
        if key not in every:
            near = did_you_mean(key, every)
            known = f"did you mean {near!r}?" if near else f"there are {', '.join(every)}"
            raise ValueError(f"no run has a figure {key!r}: {known}")
        if dot and not trains:
            raise ValueError(f"the figure {key!r} needs training, and the cells name no learner")
