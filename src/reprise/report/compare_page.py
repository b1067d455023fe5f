"""The page of a comparison of runs."""

from __future__ import annotations

from reprise.lab.comparison import RunComparison
from reprise.lab.table import shown
from reprise.report.pair_table import pairs
from reprise.report.render import render
from reprise.report.run_figures import pictures_of
from reprise.report.run_pages import has_ring, made_by, pictures


def page(comparison: RunComparison, command: str, version: str) -> str:
    """The page as text: the verdict, the table of pairs, pictures, what differs, and what is doubtful."""
    a, b = comparison.a, comparison.b
    found = comparison.contrast()
    chosen = pictures_of(comparison)
    said = [
        f"Longest wait {b.longest} steps under {b.name}, {a.longest} under {a.name}.",
        "The difference of each pair." if found is None else f"Mean difference {comparison.difference(found.mean)}.",
        *("Accuracy after each task, a line for each side.",) * 2,
        "The loss along the stream, a line for each side.",
        "Online accuracy along the stream, a line for each side.",
    ]
    return render(
        "compare",
        comparison=comparison,
        pictures=pictures(comparison, chosen, said[: len(chosen)]),
        trained=a.trained and b.trained,
        ring=has_ring(comparison),
        seeds=comparison.seeds,
        pairs=pairs(comparison),
        shown=shown,
        made_by=made_by([*a.records.values(), *b.records.values()]),
        command=command,
        version=version,
    )
