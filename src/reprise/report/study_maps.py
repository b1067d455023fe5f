"""Maps of who met whom in replayed batches, as small pictures within a page."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.core.files import Record
from reprise.lab.run_group import RunGroup

# Of matplotlib's viridis, without its dark end, so that rare meetings stand apart from a dark page.
_COLOURS = np.array([(59, 82, 139), (44, 113, 142), (33, 145, 140), (66, 190, 113), (160, 218, 57), (253, 231, 37)])


@dataclass(frozen=True)
class PairMap:
    """A map of one arm: its picture, and its counts for whoever points at it."""

    arm: str
    picture: str
    """A PNG file as a data address: a pixel for each cell, transparent where two never met."""
    counts: str
    """The upper triangle row by row: counts separated by commas, rows by semicolons."""
    cells: int
    per_cell: int
    coverage: float | None


@dataclass(frozen=True)
class PairMaps:
    """Maps of the arms of a cell, in common colours."""

    cell: str
    seed: int
    most: int
    maps: tuple[PairMap, ...]


def pair_maps(cell: str, groups: Mapping[str, RunGroup]) -> PairMaps | None:
    """The maps of a cell's arms, of the first seed: a mean over seeds would blur blocks that differ by seed."""
    first: dict[str, Record] = {}
    for arm, group in groups.items():
        if group.records and "pairs" in (record := group.records[min(group.records)]):
            first[arm] = record
    tables = {arm: _table(record["pairs"]["cells"]) for arm, record in first.items()}
    most = max((int(table.max(initial=0)) for table in tables.values()), default=0)
    if not most:
        return None
    maps = tuple(_map(arm, first[arm], table, most) for arm, table in tables.items() if len(table))
    return PairMaps(cell, min(record["run"]["seed"] for record in first.values()), most, maps)


def _map(arm: str, record: Record, table: NDArray[np.int64], most: int) -> PairMap:
    pairs = record["pairs"]
    counts = ";".join(",".join(map(str, row)) for row in pairs["cells"])
    return PairMap(arm, _png(table, most), counts, len(table), pairs["per_cell"], record["audit"].get("pair_coverage"))


def _table(rows: list[list[int]]) -> NDArray[np.int64]:
    table = np.zeros((len(rows), len(rows)), np.int64)
    for place, row in enumerate(rows):
        table[place, place : place + len(row)] = row
    both: NDArray[np.int64] = np.maximum(table, table.T)
    return both


def _png(table: NDArray[np.int64], most: int) -> str:
    """Counts as colours on a log scale: index 0 is transparent, 1 … 255 go from rare to frequent."""
    scale = np.log(np.maximum(table, 1)) / max(np.log(most), 1e-9)
    index = np.where(table > 0, 1 + np.round(254 * scale), 0).astype(np.uint8)
    places = np.linspace(0, len(_COLOURS) - 1, 255)
    channels = [np.interp(places, np.arange(len(_COLOURS)), _COLOURS[:, channel]) for channel in range(3)]
    palette = np.vstack([[0, 0, 0], np.round(np.column_stack(channels))]).astype(np.uint8)
    rows = np.column_stack([np.zeros(len(index), np.uint8), index])  # each opens with its filter, which is none
    size = struct.pack(">IIBBBBB", *index.shape[::-1], 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", size),
        (b"PLTE", palette.tobytes()),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
    )
    body = b"".join(_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
