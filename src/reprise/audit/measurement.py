"""Measuring a tape."""

from __future__ import annotations

import numpy as np

from reprise.audit.bounds import pass_bounds
from reprise.audit.cooccurrence import pair_statistics
from reprise.audit.gaps import find_gaps, find_skipped
from reprise.audit.residency import reconstruct
from reprise.audit.result import Audit
from reprise.audit.visits import find_visits
from reprise.audit.waits import find_waits
from reprise.tape import Tape


def measure(tape: Tape) -> Audit:
    """Audit a tape: gaps, bounds kept or broken, co-occurrence and exposure, over all its steps.

    What every figure means is said in `Audit`. A tape that replays a class its memory did not hold is an error.
    """
    if not isinstance(tape, Tape):
        raise TypeError(f"audit.measure needs a Tape, got {type(tape).__name__}")
    residency = reconstruct(tape)
    visits = find_visits(tape, residency)
    resident, wall = find_gaps(visits)
    skipped = find_skipped(tape, residency, visits)
    gaps, wall_gaps = resident.lengths(skipped), wall.lengths()
    bounds = pass_bounds(resident, residency, tape.replay_size)
    first, open_, cut = find_waits(visits, residency, tape.replay_size, skipped)
    class_max = int(residency.count.max(initial=0))
    coverage, entropy = pair_statistics(visits, len(residency.classes), class_max)
    draws = residency.draws()
    if skipped is not None:
        draws -= np.bincount(skipped.classes, minlength=len(draws))
    exposure = np.bincount(visits.classes, minlength=len(draws)) / np.maximum(draws, 1)
    exposed = exposure[draws > 0]
    p50, p95, p99 = np.percentile(gaps, (50, 95, 99)).tolist() if len(gaps) else (None, None, None)
    overdue = np.count_nonzero(first.lengths > first.bounds)
    overdue += sum(np.count_nonzero(waits.lengths >= waits.bounds) for waits in (open_, cut))
    busy = len(np.unique(visits.steps))
    return Audit(
        steps=len(tape),
        mean=float(gaps.mean()) if len(gaps) else None,
        p50=p50,
        p95=p95,
        p99=p99,
        max=int(gaps.max()) if len(gaps) else None,
        wall_max=int(wall_gaps.max()) if len(wall_gaps) else None,
        violations=int(np.count_nonzero(gaps > bounds)),
        deactivations=residency.departures,
        pair_coverage=coverage,
        pair_entropy=entropy,
        exposure_min=float(exposed.min()) if len(exposed) else None,
        exposure_max=float(exposed.max()) if len(exposed) else None,
        first_max=first.max,
        open_max=open_.max,
        cut_max=cut.max or 0,
        never=int(np.count_nonzero(np.isin(open_.classes, residency.classes[exposure == 0]))),
        overdue=int(overdue),
        class_max=class_max,
        occupancy_spread=float(residency.occupancy.max() / residency.occupancy.min())
        if len(residency.occupancy)
        else None,
        distinct_per_batch=len(visits) / busy if busy else None,
        classes=residency.classes,
        exposure=exposure,
        gaps=gaps,
        gap_classes=residency.classes[resident.classes],
        bounds=bounds,
        wall_gaps=wall_gaps,
        first=first,
        open=open_,
        cut=cut,
        visits=visits,
    )
