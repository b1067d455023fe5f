"""How long a device trained several runs, from their records: the time in which at least one was being trained."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reprise.core.files import Record


def device_time(records: Iterable[Record]) -> dict[str, float]:
    """Seconds in which a device trained at least one of these runs, by device.

    A run was trained for the seconds that its record names, up to the time at which it ended, which is kept to the
    second; if it was resumed, from there on. A device is left out if one of its records does not say when it ended.
    """
    trained: dict[str, list[tuple[float, float]]] = {}
    unknown = set()
    for record in records:
        made = record["provenance"]
        if (device := made.get("device")) is None:
            continue  # an audit
        if "ended" not in made:
            unknown.add(device)
            continue
        end = datetime.fromisoformat(made["ended"]).timestamp()
        trained.setdefault(device, []).append((end - record["timings"]["train"], end))
    return {device: _covered(spans) for device, spans in trained.items() if device not in unknown}


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
