"""Runs in files: TOML or JSON, a table for each section, and a list of values where several runs are meant."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from reprise.runs.run import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]


def from_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The description in a file that ends in .toml or .json, as nested tables; `expand` makes runs of it."""
    name = Path(path)
    if name.suffix not in (".toml", ".json"):
        raise ValueError(f"a description is a file that ends in .toml or .json, got {str(path)!r}")
    try:
        text = name.read_text(encoding="utf-8")
        found = tomllib.loads(text) if name.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not {name.suffix[1:].upper()}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{str(path)!r} must hold tables of settings, got {type(found).__name__}")
    return found


def expand(description: Mapping[str, Any]) -> list[Run]:
    """All runs of a description: where a setting is a list, a run for each of its values, the seed's innermost.

    >>> [run.name for run in expand({"seed": [0, 1], "memory": {"retrieval": ["iid", "rpr"]}})]  # doctest: +ELLIPSIS
    ['glyphs-balanced, reservoir 5120, iid 8, seed 0', 'glyphs-balanced, reservoir 5120, iid 8, seed 1', ...]
    """
    several: list[tuple[str, str]] = []
    for section, values in description.items():
        if section != "seed" and isinstance(values, Mapping):
            several += [(section, name) for name, value in values.items() if isinstance(value, list)]
    seeds = description.get("seed", 0)
    for name, values in [("seed", seeds), *((name, description[section][name]) for section, name in several)]:
        if values == []:
            raise ValueError(f"{name} must have a value, got an empty list")
    runs = []
    for chosen in product(*(description[section][name] for section, name in several)):
        one = {name: dict(values) if isinstance(values, Mapping) else values for name, values in description.items()}
        for (section, name), value in zip(several, chosen, strict=True):
            one[section][name] = value
        runs += [Run.from_dict({**one, "seed": seed}) for seed in (seeds if isinstance(seeds, list) else [seeds])]
    return list(dict.fromkeys(runs))


def to_json(run: Run | Mapping[str, Any]) -> str:
    """A run as JSON."""
    return json.dumps(_described(run), indent=2) + "\n"


def to_toml(run: Run | Mapping[str, Any]) -> str:
    """A run as TOML: a table for each section; what is left to a default that depends on others is a comment.

    >>> print(to_toml(Run.of(learner=None, classes=20, steps=400)))  # doctest: +ELLIPSIS
    seed = 0
    <BLANKLINE>
    [stream]
    classes = 20
    ...
    """
    description = _described(run)
    lines = [f"seed = {description['seed']}"]
    for name, values in description.items():
        if name != "seed":
            lines += ["", f"[{name}]", *_pairs(values)]
    return "\n".join(lines) + "\n"


def _described(run: Run | Mapping[str, Any]) -> Mapping[str, Any]:
    return run.to_dict() if isinstance(run, Run) else run


def _pairs(values: Mapping[str, Any]) -> Iterable[str]:
    for name, value in values.items():
        if value is None:
            yield f"# {name} is not set"
        elif isinstance(value, Mapping):
            yield f"{name} = {{ {', '.join(_pairs(value))} }}" if value else f"{name} = {{}}"
        else:
            yield f"{name} = {_literal(value)}"


def _literal(value: Any) -> str:
    """TOML writes numbers, true and false as JSON does, and strings too if characters are not cut in halves."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
