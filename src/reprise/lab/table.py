"""Records as a table: a row for each run, a column for each setting and figure, under one flat name."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reprise.audit import longest_wait
from reprise.core.extras import NotInstalled, not_installed
from reprise.core.files import Record

Row = dict[str, Any]


def settings(record: Mapping[str, Any]) -> Row:
    """All settings of a run but its seed, as `section.name`.

    >>> settings({"run": {"seed": 0, "memory": {"retrieval": "rpr", "buffer": 500}}})
    {'memory.retrieval': 'rpr', 'memory.buffer': 500}
    """
    return {name: value for name, value in _flat(record["run"]) if name != "seed"}


def flat(record: Record) -> Row:
    """A record as one row of plain values: settings, metrics of every read-out, the audit, how it was made."""
    row = {"identity": record["identity"], "name": record["name"], "seed": record["run"]["seed"], **settings(record)}
    row |= dict(_flat(record.get("metrics", {})))
    row |= dict(_flat({"prequential": record.get("prequential", {})}))
    if "final_loss" in record:
        row["final_loss"] = record["final_loss"]
    row |= dict(_flat({"audit": {**record["audit"], "longest": longest_wait(record["audit"])}}))
    row |= {"split": record["split"], "tape": record["tape"]}
    row |= dict(_flat({"data": {f"{name}_fingerprint": value for name, value in record["data"].items()}}))
    row |= {name: value for name, value in _flat(record["provenance"]) if name != "command"}
    row["command"] = shlex.join(record["provenance"].get("command", []))
    row["seconds"] = seconds(record)
    return row


def run_names(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each record is of, without its seed; where records of one name differ in a setting, it is added.

    >>> runs = [{"name": "er on x, seed 0", "run": {"seed": 0, "descent": {"lr": lr}}} for lr in (0.1, 0.03)]
    >>> run_names(runs)
    ['er on x, lr 0.1', 'er on x, lr 0.03']
    """
    names = [record["name"].rpartition(", seed")[0] or record["name"] for record in records]
    each = [settings(record) for record in records]
    alike: dict[str, list[Row]] = {}
    for name, one in zip(names, each, strict=True):
        alike.setdefault(name, []).append(one)
    telling = {name: _varying(rows) for name, rows in alike.items()}
    return [
        ", ".join([name, *(f"{setting_word(key)} {shown(one.get(key))}" for key in telling[name])])
        for name, one in zip(names, each, strict=True)
    ]


def _varying(rows: Sequence[Row]) -> list[str]:
    """The settings in which rows differ."""
    known = dict.fromkeys(name for row in rows for name in row)
    return [name for name in known if any(row.get(name) != rows[0].get(name) for row in rows)]


def setting_word(name: str) -> str:
    """The last part of a setting's name, as it is said."""
    return name.rpartition(".")[2].replace("_", " ")


def shown(value: Any) -> str:
    """A value of a setting as it is written where runs are chosen; `none` where it is not set."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def seconds(record: Record) -> float:
    """How long a run took, its preparation included."""
    timings = record["timings"]
    return float(timings.get("prepare", 0.0) + timings.get("train", 0.0))


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value under its whole name; lists are left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield before + name, value


def columns(rows: Iterable[Row]) -> list[str]:
    """The columns of all rows, in the order in which they first appear; those of one section stay together."""
    found = list(dict.fromkeys(name for row in rows for name in row))
    section = {name: place for place, name in reversed(list(enumerate(name.partition(".")[0] for name in found)))}
    return sorted(found, key=lambda name: section[name.partition(".")[0]])


def as_csv(records: Sequence[Record]) -> bytes:
    """The table as CSV in UTF-8; what a run does not have is empty. Signs that no encoding has become `?`."""
    rows = [flat(record) for record in records]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode(errors="replace")


def as_columns(records: Sequence[Record]) -> dict[str, list[Any]]:
    """The table column by column, each of one kind; what a run does not have is None."""
    rows = [flat(record) for record in records]
    return {name: _alike([row.get(name) for row in rows]) for name in columns(rows)}


def as_parquet(records: Sequence[Record]) -> bytes:
    """The table as Parquet; what a run does not have is null. Needs pyarrow, which comes with the extra `table`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise NotInstalled(not_installed("Parquet needs pyarrow", "table"), name="pyarrow") from None
    target = io.BytesIO()
    pq.write_table(pa.table(as_columns(records)), target)
    return target.getvalue()


def _alike(values: list[Any]) -> list[Any]:
    """The values of a column as one kind: whole numbers beside others as floats, anything beside text as text.

    Whole numbers that 64 bits do not hold are text. Signs that no encoding has, as in names of files, become `?`.
    """
    kinds = {type(value) for value in values if value is not None}
    kind = next(iter(kinds)) if len(kinds) == 1 else float if kinds == {int, float} else str
    if int in kinds and not all(-(2**63) <= value < 2**63 for value in values if isinstance(value, int)):
        kind = str
    if kind is str:
        return [None if value is None else str(value).encode(errors="replace").decode() for value in values]
    return [None if value is None else kind(value) for value in values]
