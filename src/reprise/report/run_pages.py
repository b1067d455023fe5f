"""What pages on two sets of runs share: pictures, and who made the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reprise.core.files import Record
from reprise.lab.comparison import RunComparison
from reprise.lab.device_time import device_time
from reprise.report.render import Markup, inline_svg
from reprise.report.run_figures import Draw, picture_svg


def pictures(comparison: RunComparison, chosen: Sequence[Draw], said: Sequence[str]) -> list[Markup]:
    """Pictures for a page, each with a sentence for those who hear it."""
    return [
        inline_svg(picture_svg(draw, comparison), f"p{place}-", words)
        for place, (draw, words) in enumerate(zip(chosen, said, strict=True))
    ]


def has_ring(comparison: RunComparison) -> bool:
    """Whether a longest wait is drawn that is no gap."""
    return any(side.longest > len(side.tail) for side in (comparison.a, comparison.b))


def made_by(records: Iterable[Record]) -> str:
    """The versions and the kind of machine behind runs: each once, should runs of several be compared."""
    made = [record["provenance"] for record in records]
    word = "Trained" if all("torch" in one for one in made) else "Made"
    return f"{word} by {' and by '.join(dict.fromkeys(map(_versions, made)))}."


def trained_for(records: Iterable[Record]) -> str:
    """How long these runs were trained, in a sentence; empty if of no kind of device it is known."""
    found = device_time(records)
    known = [f"{seconds / 60:,.1f} minutes on {device}" for device, seconds in found.items() if seconds is not None]
    unknown = [f"; for how long on {device} is not known" for device, seconds in found.items() if seconds is None]
    return f"At least one run was being trained for {' and for '.join(known)}{''.join(unknown)}." if known else ""


def _versions(made: Mapping[str, Any]) -> str:
    names = {"reprise": "Reprise", "python": "Python", "numpy": "NumPy", "torch": "torch"}
    versions = ", ".join(f"{name} {made[key]}" for key, name in names.items() if key in made)
    threads = made.get("threads")  # of each run
    count = None if threads is None else "1 thread" if threads == 1 else f"{threads} threads"
    machine = ", ".join(filter(None, (made.get("machine"), made.get("device"), made.get("instructions"), count)))
    return f"{versions} on {machine}" if machine else versions
