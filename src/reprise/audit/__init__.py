"""What a tape looks like: gaps, co-occurrence, exposure, bounds kept or broken, and the theory beside them."""

from __future__ import annotations

from reprise.audit import theory
from reprise.audit.measurement import measure
from reprise.audit.result import KEYS, Audit, longest_wait
from reprise.audit.waits import Waits

__all__ = ["KEYS", "Audit", "Waits", "longest_wait", "measure", "theory"]
