"""What makes it doubtful that two sets of runs are pairs, as far as their records tell: a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from reprise.core.files import Record
from reprise.lab.run_group import RunGroup
from reprise.memory import as_retrieval

MADE_BY = {
    "reprise": "versions of Reprise",
    "numpy": "versions of NumPy",
    "torch": "versions of torch",
    "machine": "kinds of machine",
    "device": "devices",
    "instructions": "instruction sets",
    "threads": "numbers of threads",
    "processes": "numbers of processes",
}
"""Facts about how a run was made that can change its figures, and what several of each are."""
STORED = ("class_max", "deactivations", "occupancy_spread")
"""Figures of an audit that depend on what was stored, and not on what was replayed."""


def doubts(a: RunGroup, b: RunGroup, first: Sequence[Record], second: Sequence[Record]) -> tuple[str, ...]:
    """All that can be said against pairing these runs by seed; `first` and `second` are the records as given."""
    return (
        *_missing(a, b),
        *_twice(a, first),
        *_twice(b, second),
        *_shared(a, b),
        *_made(a, b),
        *_data(a, b),
        *_stored(a, b),
    )


def _missing(a: RunGroup, b: RunGroup) -> Iterator[str]:
    for one, other in ((a, b), (b, a)):
        seeds = [seed for seed in other.records if seed not in one.records]
        if seeds:
            yield f"{_seeds(seeds)} {'has' if len(seeds) == 1 else 'have'} no run under {one.name}."


def _twice(side: RunGroup, records: Sequence[Record]) -> Iterator[str]:
    counts = Counter(record["run"]["seed"] for record in records)
    for seed, count in counts.items():
        if count > 1:
            yield f"There are {count} runs of seed {seed} under {side.name}; the first, {_short(side, seed)}, is used."


def _shared(a: RunGroup, b: RunGroup) -> Iterator[str]:
    seeds = [seed for seed, record in a.records.items() if _identity(b, seed) == record["identity"]]
    if seeds:
        yield (
            f"The run of {_seeds(seeds).lower()} is the same on both sides."
            if len(seeds) == 1
            else (f"The runs of {_seeds(seeds).lower()} are the same on both sides.")
        )


def _made(a: RunGroup, b: RunGroup) -> Iterator[str]:
    for key, words in MADE_BY.items():
        sides = [_values(side, "provenance", key) for side in (a, b)]
        if len({*sides[0], *sides[1]}) > 1:
            said = ", ".join(
                f"{' and '.join(map(str, values))} under {side.name}"
                for side, values in zip((a, b), sides, strict=True)
                if values
            )
            yield f"The runs were made with different {words}: {said}."


def _data(a: RunGroup, b: RunGroup) -> Iterator[str]:
    for part in dict.fromkeys(name for side in (a, b) for one in side.records.values() for name in one["data"]):
        sides = [_values(side, "data", part) for side in (a, b)]
        if all(sides) and len({*sides[0], *sides[1]}) > 1:
            yield f"The runs had different data: there are {len({*sides[0], *sides[1]})} fingerprints of {part}."
    splits = [list(dict.fromkeys(one["split"] for one in side.records.values())) for side in (a, b)]
    if len({*splits[0], *splits[1]} - {None}) > 1:
        yield "Some runs were tested on validation images, others on test images."


def _stored(a: RunGroup, b: RunGroup) -> Iterator[str]:
    """Where the same must have been stored or replayed, and was not."""
    pairs = [(seed, record, b.records[seed]) for seed, record in a.records.items() if seed in b.records]
    alike = [pair for pair in pairs if _set_alike(*pair[1:], "storage", "buffer")]
    seeds = [seed for seed, one, other in alike if any(one["audit"][key] != other["audit"][key] for key in STORED)]
    if seeds:
        yield (
            f"For {_seeds(seeds).lower()}, stream and storage are set alike on both sides, but the memory did not hold "
            "the same classes."
        )
    planned = [pair for pair in alike if _set_alike(*pair[1:], *pair[1]["run"]["memory"]) and not _scored(a.retrieval)]
    tapes = [seed for seed, one, other in planned if one["tape"] != other["tape"]]
    if tapes:
        yield f"For {_seeds(tapes).lower()}, stream and memory are set alike on both sides, but the tapes differ."


def _set_alike(one: Record, other: Record, *memory: str) -> bool:
    """Whether stream, data and these settings of the memory are set alike for two runs."""
    first, second = one["run"], other["run"]
    parts = all(first.get(name) == second.get(name) for name in ("data", "stream"))
    return parts and all(first["memory"].get(name) == second["memory"].get(name) for name in memory)


def _scored(retrieval: str) -> bool:
    """Whether a model decides what returns, so that learners that differ have tapes that differ."""
    try:
        return bool(getattr(as_retrieval(retrieval), "scored", False))
    except ValueError:
        return True  # a policy of somebody else's: nothing is known of it here


def _values(side: RunGroup, part: str, key: str) -> list[Any]:
    found = [record[part].get(key) for record in side.records.values()]
    return [value for value in dict.fromkeys(found) if value is not None]


def _identity(side: RunGroup, seed: int) -> str | None:
    return side.records[seed]["identity"] if seed in side.records else None


def _short(side: RunGroup, seed: int) -> str:
    return str(side.records[seed]["identity"])[:8]


def _seeds(seeds: Sequence[int]) -> str:
    return f"Seed {seeds[0]}" if len(seeds) == 1 else f"Seeds {', '.join(map(str, seeds))}"
