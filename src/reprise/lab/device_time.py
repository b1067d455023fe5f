"""How long several runs were trained, from their records: the time in which at least one was being trained."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reprise.core.files import Record


def device_time(records: Iterable[Record]) -> dict[str, float | None]:
    """Seconds in which at least one of these runs was being trained, by kind of device.

    A run was trained for the seconds that its record names, up to the time at which it ended; if it was resumed, from
    there on. Several devices of one kind that train at once count once. A kind has None if one of its records does not
    say when its run ended. Older records say it to the second alone: of many runs of a second or less, one after the
    other, a part is then lost.
    """
    trained: dict[str, list[tuple[float, float]] | None] = {}
    for record in records:
        made = record["provenance"]
        if (device := made.get("device")) is None:
            continue  # an audit
        spans = trained.setdefault(device, [])
        if "ended" not in made:
            trained[device] = None
        elif spans is not None:
            end = datetime.fromisoformat(made["ended"]).timestamp()
            spans.append((end - record["timings"]["train"], end))
    return {device: None if spans is None else _covered(spans) for device, spans in trained.items()}


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
