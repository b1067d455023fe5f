"""The table of an audit: its columns, what each means, and how it is laid out on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from reprise.report.reading import read
from reprise.report.summary import NOTHING, Summary, caption, figure, group_title, groups, stream_label, varying
from reprise.runs.run import Run


@dataclass(frozen=True)
class Column:
    """A column: its head, what it means, and its cells."""

    head: str
    meaning: str
    cells: Callable[[Sequence[Summary]], list[str]]
    words: bool = False
    page: bool = False
    """Whether it is on the page alone: a terminal is too narrow for everything."""


def _names(name: Callable[[Summary], str]) -> Callable[[Sequence[Summary]], list[str]]:
    return lambda rows: [name(row) for row in rows]


def _figures(key: str, digits: int) -> Callable[[Sequence[Summary]], list[str]]:
    """Cells of one mean figure: with decimals, unless all are whole."""

    def cells(rows: Sequence[Summary]) -> list[str]:
        values = [row.means[key] for row in rows]
        shown = digits if any(value is not None and value != int(value) for value in values) else 0
        return [figure(value, shown if value else 0) for value in values]  # 0 is exact, 0.0 might be rounded

    return cells


def _shares(key: str) -> Callable[[Sequence[Summary]], list[str]]:
    return lambda rows: [figure(row.means[key], 3) for row in rows]


def _exposure(row: Summary) -> str:
    least, most = row.means["exposure_min"], row.means["exposure_max"]
    return NOTHING if least is None else f"{figure(least, 3)}–{figure(most, 3)}"


NAMES = (
    Column(
        "stream",
        "What arrives: a data set and its tail, or nothing at all where the memory stands still.",
        _names(lambda row: stream_label(row.run)),
        True,
    ),
    Column("storage", "Who is kept.", _names(lambda row: row.run.memory.storage), True),
    Column("buffer", "How many examples the memory holds.", _names(lambda row: f"{row.run.memory.buffer:,}")),
    Column("retrieval", "Which stored examples return, and when.", _names(lambda row: row.retrieval), True),
)
LEFT = Column("deactivations", "How often the last example of a class left the memory.", _figures("deactivations", 1))
GAPS = (
    Column(
        "mean", "Mean gap: steps between two replay visits of a class that stayed in the memory.", _figures("mean", 2)
    ),
    Column("p50", "Median gap.", _figures("p50", 1)),
    Column("p95", "95th percentile of gaps.", _figures("p95", 1)),
    Column("p99", "99th percentile of gaps.", _figures("p99", 1)),
    Column("max", "Longest gap.", _figures("max", 1)),
    Column("wall max", "Longest gap when evictions do not end it.", _figures("wall_max", 1), page=True),
)
WAITS = (
    Column(
        "first", "Longest wait of a class from its arrival in the memory to its first visit.", _figures("first_max", 1)
    ),
    Column(
        "open",
        "Longest wait that had not ended when the run did, since the last visit or, without one, since the arrival.",
        _figures("open_max", 1),
    ),
    Column("cut", "Longest wait that an eviction cut off; 0 if no class left.", _figures("cut_max", 1)),
    Column("never", "Classes stored at the end that were never replayed.", _figures("never", 1)),
    Column(
        "bound",
        "Longest wait that is proved for as many classes as were ever resident at once, if they stay. "
        "A dash: nothing is proved.",
        _names(lambda row: figure(row.bound, 0)),
    ),
)
REST = (
    Column(
        "violations",
        "Gaps longer than the randomised pass's bound for classes that come and go: ⌈(2C − 1 + I)/b⌉, with the most "
        "classes C and the arrivals I of that very interval, and b replayed examples a step.",
        _figures("violations", 1),
    ),
    Column(
        "overdue",
        "Waits other than gaps that were longer than a randomised pass allows: ⌈(C + I)/b⌉ after an arrival, and as "
        "for gaps after a visit. One that no visit ended is overdue if even the next step would have been too late.",
        _figures("overdue", 1),
        page=True,
    ),
    LEFT,
    Column("coverage", "Share of all class pairs that met in a batch.", _shares("pair_coverage")),
    Column(
        "entropy",
        "How evenly pairs met: the entropy of their shares, 1 when all met equally often.",
        _shares("pair_entropy"),
    ),
    Column(
        "exposure",
        "Visits of a class over the draws that found it stored: the least and the most exposed class.",
        _names(_exposure),
    ),
)


def columns(rows: Sequence[Summary]) -> list[Column]:
    """The columns that tell rows apart, then the figures."""
    return [*_names_of(rows), *GAPS, *WAITS, *REST]


def _names_of(rows: Sequence[Summary]) -> list[Column]:
    """The columns that tell rows apart: the retrieval, and before it whatever else varies."""
    usual = [column for column in NAMES[:-1] if len(set(column.cells(rows))) > 1]
    return [*usual, *(_setting(*one) for one in varying(rows)), NAMES[-1]]


def _setting(head: str, meaning: str, value: Callable[[Run], str]) -> Column:
    return Column(head, meaning, _names(lambda row: value(row.run)))


def text_table(rows: Sequence[Summary], console: Console) -> RenderableType:
    """The table for this console: one, or several below each other where one would not fit."""
    names = _names_of(rows)
    hidden = [column for column in (*GAPS, *WAITS, *REST) if column.page]
    title = caption(rows)
    if len(set(left := LEFT.cells(rows))) == 1:  # rows that differ in retrieval alone hold the same memory
        hidden.append(LEFT)
        title += "" if rows[0].memory_stands_still else f" · {left[0]} deactivation{'s' * (left[0] != '1')}"
    tables = [names]
    for group in (GAPS, WAITS, REST):
        shown = [column for column in group if column not in hidden]
        if _width([*tables[-1], *shown], rows, console) <= console.width:
            tables[-1] = [*tables[-1], *shown]
        else:
            tables.append([*names, *shown])
    return Group(Text(title, style="bold"), *(part for one in tables for part in ("", _table(one, rows))))


def _width(shown: Sequence[Column], rows: Sequence[Summary], console: Console) -> int:
    return Measurement.get(console, console.options.update(max_width=1000), _table(shown, rows)).maximum


def _table(shown: Sequence[Column], rows: Sequence[Summary]) -> Table:
    table = Table(
        box=SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False, show_edge=False, header_style="dim"
    )
    for column in shown:
        retrieval = column is NAMES[-1]
        table.add_column(
            column.head,
            justify="left" if column.words else "right",
            no_wrap=not column.words,
            overflow="fold",
            style="bold" if retrieval else "",
        )
    for cells in zip(*(column.cells(rows) for column in shown), strict=True):
        table.add_row(*map(Text, cells))
    return table


def text_reading(rows: Sequence[Summary]) -> list[str]:
    """The sentences under the table: two on one group of rows, one each on several."""
    found = groups(rows)
    if len(found) == 1:
        return read(found[0])[:2]
    return [f"{group_title(group, rows)}. {read(group)[0]}" for group in found]
