"""Choosing records by what they are of: `retrieval=rpr,learner=er-ace`, or the beginning of an identity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from reprise.core.files import Record
from reprise.core.registry import did_you_mean
from reprise.lab.table import settings, shown

SHORT = {
    "dataset": "data.name",
    "learner": "learner.name",
    "backbone": "network.name",
    "evaluate_every": "evaluation.every",
}
"""Settings whose name on the command line is not the last part of their whole name."""
_MOST = 8  # values that an error names


def match(records: Sequence[Record], text: str) -> list[Record]:
    """The records that `text` describes, in the order given: `name=value`, several by commas, all of which hold.

    A name is that of the command line (`retrieval`, `dataset`, `seed`), or the whole one (`memory.retrieval`); a dash
    in it counts as an underscore, and `none` chooses runs that do not have the setting, or leave it unset. Text without
    `=` is the beginning of an identity, of four characters or more. To find nothing is an error.
    """
    if "=" not in text:
        if not re.fullmatch(r"[0-9a-f]{4,}", text.strip()):
            raise ValueError(
                f"runs are chosen by settings, such as retrieval=rpr,seed=0, or by the first four or more characters "
                f"of an identity, got {text!r}"
            )
        found = [record for record in records if record["identity"].startswith(text.strip())]
        if not found:
            raise ValueError(f"{_none_of(records)} has an identity that begins with {text.strip()!r}")
        return found
    table = [{"seed": record["run"]["seed"], **settings(record)} for record in records]
    known = list(dict.fromkeys(name for row in table for name in row))
    wanted = []
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals):
            raise ValueError(f"runs are chosen by name=value, several separated by commas, got {text!r}")
        wanted.append((_whole_name(name, known), value))
    rows = list(zip(records, table, strict=True))
    for name, value in wanted:
        kept = [(record, row) for record, row in rows if _is(row.get(name), value)]
        if not kept:
            values = list(dict.fromkeys(shown(row.get(name)) for _, row in rows))
            there = ", ".join(values[:_MOST]) + (", …" if len(values) > _MOST else "")
            rest = "" if len(rows) == len(records) else " of those chosen so far"
            raise ValueError(f"{_none_of(records)} is {text!r}: {name}{rest} is {there}")
        rows = kept
    return [record for record, _ in rows]


def one(records: Sequence[Record], text: str) -> Record:
    """The only record that `text` describes, or a sentence that says why there is none."""
    found = match(records, text)
    if len(found) == 1:
        return found[0]
    first = ", ".join(record["identity"][:8] for record in found[:5])
    raise ValueError(f"{len(found)} runs are {text!r}, name one of them: {first}{', …' if len(found) > 5 else ''}")


def _none_of(records: Sequence[Record]) -> str:
    return "no run here" if len(records) < 2 else f"none of the {len(records)} runs here"


def _whole_name(name: str, known: Iterable[str]) -> str:
    """The whole name of a setting, from the one that was given."""
    asked = name.replace("-", "_")
    ends = [whole for whole in known if whole.rpartition(".")[2] == asked]
    if asked in known:
        return asked
    if asked in SHORT:
        return SHORT[asked]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise ValueError(f"{name!r} may be {' or '.join(ends)}: name one of them")
    short = [*SHORT, *(whole.rpartition(".")[2] for whole in known)]
    near = did_you_mean(asked, dict.fromkeys(short))
    raise ValueError(f"no run here has a setting {name!r}" + (f": did you mean {near!r}?" if near else ""))


def _is(value: Any, text: str) -> bool:
    if isinstance(value, bool) or value is None:
        return str(value).lower() == text.lower()
    if isinstance(value, (int, float)):
        try:
            return float(text) == value
        except ValueError:
            return False
    return bool(str(value) == text)
