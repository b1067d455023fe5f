"""Records packed into Parquet files, so that thousands of runs can be kept in a repository or sent.

A row is a run. Every part of its record stands there as JSON text, in a column `json.<part>`: the lines of the record's
file in their order, checksum included, so that a damaged row is seen. Beside them are columns for other tools, such as
`memory.retrieval` and `ema.final`. Parts that few readers need may be left out of some rows.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from reprise.core.extras import NotInstalled, not_installed
from reprise.core.files import Damaged, OtherFormat, Record
from reprise.core.record_file import lines_of, parse_record, seal, text_from
from reprise.runs.record import EARLIER, FORMAT

FOLDER = "packed"
_PART = "json."
_LEVEL = 19  # of zstd: files are written once and kept
Warn = Callable[[str], None]


def pack(
    records: Sequence[Record],
    table: Mapping[str, Sequence[Any]],
    without: Callable[[Record], Collection[str]] = lambda record: (),
) -> bytes:
    """A file of these records; `table` holds columns for other tools, `without` says what a record is to lack."""
    pa, pq = pyarrow()
    kept = [_without(record, {*without(record), "checksum"}) for record in records]
    parts = _in_order([tuple(one) for one in kept])
    rows = [lines_of(seal({**{part: one[part] for part in parts if part in one}, "format": FORMAT})) for one in kept]
    columns = dict(table) | {f"{_PART}{part}": [row.get(part) for row in rows] for part in (*parts, "checksum")}
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, compression="zstd", compression_level=_LEVEL)
    return target.getvalue()


def _in_order(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """All parts, in an order that is that of every record; as they first appear, if records contradict each other."""
    kinds = dict.fromkeys(rows)
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(chain.from_iterable(kinds), ()))
    for before, after in chain.from_iterable(map(pairwise, kinds)):
        sorter.add(after, before)
    try:
        return list(sorter.static_order())
    except CycleError:
        return list(dict.fromkeys(chain.from_iterable(kinds)))


class Packed:
    """The packed records of a store: all rows of all files in a folder, as they are when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._told: set[Path] = set()

    def __reduce__(self) -> tuple[type[Packed], tuple[Path]]:
        return Packed, (self.folder,)  # whoever gets a copy reads the files

    def get(self, identity: str, warn: Warn | None = None, *, without: Collection[str] = ()) -> Record | None:
        """The record of this run, if it is there and whole; `warn` is told once of each file that cannot be read."""
        self._tell(self._rows[1], warn)
        for place in self._rows[0].get(identity, ()):
            if (record := _record(*place, identity, warn, without)) is not None:
                return record
        return None

    def records(
        self, warn: Warn | None = None, *, without: Collection[str] = (), but: Collection[str] = ()
    ) -> Iterator[Record]:
        """All records that are whole, each once, but for the runs `but`.

        `warn` is told of the others, and of files that cannot be read.
        """
        self._told.clear()
        self._tell(self._rows[1], warn)
        for identity in self._rows[0]:
            if identity not in but and (record := self.get(identity, warn, without=without)) is not None:
                yield record

    def ended(self, warn: Warn | None = None) -> Collection[str]:
        """The runs that are here; no record is read for that."""
        found, wrong = self._identities
        self._tell(wrong, warn)
        return found

    def _tell(self, wrong: Mapping[Path, str], warn: Warn | None) -> None:
        for path, why in wrong.items():
            if warn is not None and path not in self._told:
                warn(f"The file {path} cannot be read: {why}. It is not used; its runs are made again where needed.")
                self._told.add(path)

    @property
    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    @cached_property
    def _identities(self) -> tuple[Collection[str], dict[Path, str]]:
        """The runs of all files that can be read, and what is wrong with the others."""
        found: dict[str, None] = {}
        wrong: dict[Path, str] = {}
        for path in self._files:
            try:
                found |= dict.fromkeys(_identities(_columns(path, parts=False)))
            except Damaged as damage:
                wrong[path] = str(damage)
        return found.keys(), wrong

    @cached_property
    def _rows(self) -> tuple[dict[str, list[tuple[Path, dict[str, Any], int]]], dict[Path, str]]:
        """Where each run is: in these columns of a file, in that row. And what is wrong with other files."""
        found: dict[str, list[tuple[Path, dict[str, Any], int]]] = {}
        wrong: dict[Path, str] = {}
        for path in self._files:
            try:
                columns = _columns(path, parts=True)
            except Damaged as damage:
                wrong[path] = str(damage)
                continue
            parts = {name.removeprefix(_PART): column for name, column in columns.items() if name.startswith(_PART)}
            for row, identity in enumerate(_identities(columns)):
                found.setdefault(identity, []).append((path, parts, row))
        return found, wrong


def _columns(path: Path, *, parts: bool) -> dict[str, Any]:
    """The identities in a file, and the parts of its records if they are wanted too, column by column."""
    pa, pq = pyarrow()
    try:
        file = pq.ParquetFile(pa.BufferReader(path.read_bytes()))
        names = [name for name in file.schema_arrow.names if name == "identity" or name.startswith(_PART)]
        if not {"identity", f"{_PART}checksum"} <= {*names}:
            raise Damaged("it holds no records")
        table = file.read(names if parts else ["identity"])
        return {name: table.column(name).cast(pa.large_binary()).combine_chunks() for name in table.column_names}
    except Damaged:
        raise
    except Exception as error:  # a damaged file may fail in any way
        words = str(getattr(error, "strerror", None) or error).partition("\n")[0].rstrip(".")
        readable = "".join(sign if sign.isprintable() else "?" for sign in words)
        raise Damaged(readable or type(error).__name__) from None


def _identities(columns: Mapping[str, Any]) -> list[str]:
    return [_text(identity) or "" for identity in columns["identity"].to_pylist()]


def _text(value: bytes | None) -> str | None:
    """What a cell says; where it is no text it is damaged, which its record's checksum tells."""
    return None if value is None else value.decode(errors="replace")


def _record(
    path: Path, columns: Mapping[str, Any], row: int, identity: str, warn: Warn | None, without: Collection[str]
) -> Record | None:
    try:
        parts = {part: text for part, column in columns.items() if (text := _text(column[row].as_py())) is not None}
        if "checksum" not in parts:
            raise Damaged("it has no checksum")
        record = parse_record(text_from(parts), FORMAT, *EARLIER, without=without)
        if record["identity"] != identity:
            raise Damaged(f"it is the record of the run {record['identity']}")
        return record
    except OtherFormat as other:
        why = f"was written by another version of reprise: {other}"
    except (Damaged, KeyError) as damage:
        why = f"is damaged: {damage}"
    if warn is not None:
        warn(f"The record of {identity} in {path} {why}. It is not used; its run is made again where it is needed.")
    return None


def _without(record: Record, parts: Collection[str]) -> Record:
    return {part: value for part, value in record.items() if part not in parts}


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet; where they are not installed, the error says which extra brings them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise NotInstalled(not_installed("packed records need pyarrow", "table"), name="pyarrow") from None
    return pa, pq
