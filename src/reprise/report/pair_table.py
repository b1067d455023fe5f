"""The table of pairs of a comparison, for terminals and pages alike."""

from __future__ import annotations

from typing import Any

from reprise.lab.comparison import RunComparison
from reprise.lab.run_group import READOUTS


def pairs(comparison: RunComparison) -> list[dict[str, Any]]:
    """The table of pairs: for every read-out the values of both sides by seed, and what they amount to."""
    parts = [(name, READOUTS[name].capitalize()) for name in comparison.readouts]
    return [_part(comparison, name, title) for name, title in parts or [(comparison.readout, comparison.metric)]]


def _part(comparison: RunComparison, readout: str, title: str) -> dict[str, Any]:
    first, second = (side.values(comparison.metric, readout) for side in (comparison.a, comparison.b))
    means, found = comparison.means(readout), comparison.contrast(readout)
    apart = [_apart(first.get(seed), second.get(seed)) for seed in comparison.seeds]
    rest = ["—"] * 4
    if found is not None:
        t = "—" if found.t is None else f"{found.t:.2f}".replace("-", "−")
        low, high = comparison.difference(found.low), comparison.difference(found.high)
        rest = [comparison.difference(found.mean), f"{low} to {high}", t, f"{found.p:.2g}"]
    return {
        "name": title,
        "sides": [
            {
                "name": side.name,
                "cells": [_cell(comparison, values.get(seed)) for seed in comparison.seeds],
                "mean": _cell(comparison, mean),
            }
            for side, values, mean in (
                (comparison.b, second, means[1]),
                (comparison.a, first, means[0]),
            )
        ],
        "differences": [*map(comparison.difference, apart), *rest],
    }


def _cell(comparison: RunComparison, value: float | None) -> str:
    return comparison.shown(value).removesuffix("%")


def _apart(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
