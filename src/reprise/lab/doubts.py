"""What makes it doubtful that runs of several arms may be paired by seed, as far as records tell: a sentence each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprise.core.files import Record
from reprise.lab.run_group import RunGroup
from reprise.memory import as_retrieval, as_storage, is_scored

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

_Run = tuple[str, int, Record]  # its arm, its seed, its record
Runs = RunGroup | Mapping[int, Record] | Sequence[Record]
"""The runs of an arm: by seed, or as they were found, where several of one seed are told."""


@dataclass(frozen=True, eq=False)
class _Arm:
    name: str
    records: Mapping[int, Record]
    """By the seed under which each is used."""
    given: Sequence[Record]
    """All that were found, where several of one seed can be among them."""


def doubts(a: RunGroup, b: RunGroup, first: Sequence[Record], second: Sequence[Record]) -> tuple[str, ...]:
    """All that can be said against pairing these runs by seed; `first` and `second` are the records as given."""
    return tuple(_all([_Arm(a.name, a.records, first), _Arm(b.name, b.records, second)]))


def pairing_doubts(groups: Mapping[str, Runs]) -> list[str]:
    """All that can be said against pairing the runs of these arms by seed; each problem is named once.

    That is a seed without a run, several runs of a seed, a run under two arms or under another seed than its own, runs
    made by other versions or on other devices, other data, and another memory or tape where the same is set. Arms whose
    data are meant to differ are not asked about together.
    """
    return list(_all([_arm(name, runs) for name, runs in groups.items()]))


def making_doubts(groups: Mapping[str, Iterable[Record]]) -> list[str]:
    """What groups of runs say of how they were made, where that differs; their settings and seeds may differ, too."""
    return list(_made([_Arm(name, dict(enumerate(records)), ()) for name, records in groups.items()]))


def _arm(name: str, runs: Runs) -> _Arm:
    if isinstance(runs, RunGroup):
        runs = runs.records
    if isinstance(runs, Mapping):
        return _Arm(name, runs, ())
    found: dict[int, Record] = {}
    for record in runs:
        found.setdefault(record["run"]["seed"], record)
    return _Arm(name, found, runs)


def _all(arms: Sequence[_Arm]) -> Iterator[str]:
    for say in (_missing, _twice, _misfiled, _shared, _made, _data, _stored):
        yield from say(arms)


def _missing(arms: Sequence[_Arm]) -> Iterator[str]:
    known = sorted({seed for arm in arms for seed in arm.records})
    lacking: dict[tuple[int, ...], list[str]] = {}
    for arm in arms:
        if seeds := tuple(seed for seed in known if seed not in arm.records):
            lacking.setdefault(seeds, []).append(arm.name)
    for seeds, names in lacking.items():
        yield f"{_seeds(seeds)} {'has' if len(seeds) == 1 else 'have'} no run under {_and(names)}."


def _twice(arms: Sequence[_Arm]) -> Iterator[str]:
    for arm in arms:
        for seed, count in Counter(record["run"]["seed"] for record in arm.given).items():
            if count > 1 and seed in arm.records:
                used = str(arm.records[seed]["identity"])[:8]
                yield f"There are {count} runs of seed {seed} under {arm.name}; the first, {used}, is used."


def _misfiled(arms: Sequence[_Arm]) -> Iterator[str]:
    for arm in arms:
        for seed, record in arm.records.items():
            if record["run"]["seed"] != seed:
                yield f"Under {arm.name}, a run of seed {record['run']['seed']} is used for seed {seed}."


def _shared(arms: Sequence[_Arm]) -> Iterator[str]:
    holders: dict[tuple[int, str], list[str]] = {}
    for arm in arms:
        for seed, record in arm.records.items():
            holders.setdefault((seed, record["identity"]), []).append(arm.name)
    for names, seeds in _grouped((names, seed) for (seed, _), names in holders.items() if len(names) > 1):
        run = "run of {} is" if len(seeds) == 1 else "runs of {} are"
        yield f"The {run.format(_seeds(seeds).lower())} the same under {_and(names)}."


def _made(arms: Sequence[_Arm]) -> Iterator[str]:
    for key, words in MADE_BY.items():
        asked = arms if key != "threads" else [_on_cpu(arm) for arm in arms]
        if said := _different(asked, "provenance", key):
            yield f"The runs were made with different {words}: {said}."


def _on_cpu(arm: _Arm) -> _Arm:
    """Those of its runs that a CPU made: on a GPU, threads of the host change no figure."""
    made = {seed: one for seed, one in arm.records.items() if one["provenance"].get("device", "CPU") == "CPU"}
    return _Arm(arm.name, made, ())


def _data(arms: Sequence[_Arm]) -> Iterator[str]:
    for part in dict.fromkeys(name for arm in arms for record in arm.records.values() for name in record["data"]):
        if said := _different(arms, "data", part, digits=8):
            yield f"The runs had different data: the fingerprint of {part} is {said}."
    if said := _different(arms, "split"):
        yield f"Some runs were tested on validation images, others on test images: {said}."


def _different(arms: Sequence[_Arm], part: str, key: str | None = None, digits: int | None = None) -> str:
    """Which values a fact has under which arms, if it has several; arms of the same values are named together."""
    known: dict[tuple[Any, ...], list[str]] = {}
    for arm in arms:
        facts = (record[part] if key is None else record[part].get(key) for record in arm.records.values())
        if values := tuple(value for value in dict.fromkeys(facts) if value is not None):
            known.setdefault(values, []).append(arm.name)
    if len({value for values in known for value in values}) < 2:
        return ""
    return ", ".join(
        f"{_and([str(one)[:digits] for one in values])} under {_and(arm)}" for values, arm in known.items()
    )


def _stored(arms: Sequence[_Arm]) -> Iterator[str]:
    """Where the same must have been stored or replayed, and was not."""
    runs = [(arm.name, seed, record) for arm in arms for seed, record in arm.records.items()]
    runs = _unscored(runs, "storage", as_storage)
    for names, seeds in _unlike(runs, ("storage", "buffer"), lambda record: [record["audit"][key] for key in STORED]):
        yield (
            f"For {_seeds(seeds).lower()}, stream and storage are set alike under {_and(names)}, but the memory did "
            "not hold the same classes."
        )
    runs = _unscored(runs, "retrieval", as_retrieval)
    for names, seeds in _unlike(runs, None, lambda record: record["tape"]):
        yield f"For {_seeds(seeds).lower()}, stream and memory are set alike under {_and(names)}, but the tapes differ."


def _unscored(runs: Sequence[_Run], setting: str, policy: Callable[[str], object]) -> list[_Run]:
    """Runs of which no model decides this, so that learners that differ have the same of it."""
    asks: dict[str, bool] = {}
    for spec in {record["run"]["memory"][setting] for _, _, record in runs}:
        try:
            asks[spec] = is_scored(policy(spec))
        except ValueError:
            asks[spec] = True  # a policy of somebody else's: nothing is known of it here
    return [run for run in runs if not asks[run[2]["run"]["memory"][setting]]]


def _unlike(
    runs: Iterable[_Run], memory: Sequence[str] | None, fact: Callable[[Record], object]
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Arms and seeds for which stream, data and these settings of the memory, or all, are alike, but a fact is not."""
    alike: dict[tuple[int, str], list[tuple[str, object]]] = {}
    for name, seed, record in runs:
        run = record["run"]
        kept = _given(run["memory"]) if memory is None else [run["memory"].get(setting) for setting in memory]
        settings = json.dumps([_given(run.get("data")), _given(run.get("stream")), kept], sort_keys=True)
        alike.setdefault((seed, settings), []).append((name, fact(record)))
    return _grouped(
        ([name for name, _ in found], seed)
        for (seed, _), found in alike.items()
        if any(value != found[0][1] for _, value in found)
    )


def _given(section: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a section that are set: a record may have been written before others existed."""
    return {name: value for name, value in (section or {}).items() if value is not None}


def _grouped(found: Iterable[tuple[Iterable[str], int]]) -> list[tuple[tuple[str, ...], list[int]]]:
    """The seeds of each set of arms."""
    seeds: dict[tuple[str, ...], list[int]] = {}
    for names, seed in found:
        seeds.setdefault(tuple(names), []).append(seed)
    return list(seeds.items())


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _seeds(seeds: Sequence[int]) -> str:
    return f"Seed {seeds[0]}" if len(seeds) == 1 else f"Seeds {', '.join(map(str, seeds))}"
