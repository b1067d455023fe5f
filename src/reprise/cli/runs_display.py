"""What a person sees of the runs of a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reprise.audit import longest_wait
from reprise.core.files import Record
from reprise.lab.comparison import RunComparison, RunGroup
from reprise.lab.table import run_names, seconds, settings
from reprise.report.pair_table import pairs

NOTHING = "–"
_MOST_SEEDS = 8  # side by side in a terminal


def listing(records: Sequence[Record], store: Path) -> None:
    """A line for each run."""
    table = _table("run", "seed", "ema", "live", "longest", "seconds", "made", first="identity")
    for record, name in zip(records, run_names(records), strict=True):
        metrics = record.get("metrics", {})
        finals = [_percent(metrics.get(name, {}).get("final")) for name in ("ema", "live")]
        wait = longest_wait(record["audit"])
        table.add_row(
            *map(Text, (record["identity"][:8], name, str(record["run"]["seed"]), *finals)),
            *map(Text, (NOTHING if wait is None else str(wait), f"{seconds(record):.1f}", _made(store, record))),
        )
    what = table.columns[1]
    what.justify, what.no_wrap, what.overflow, table.columns[0].no_wrap = "left", False, "fold", True
    console = _console()
    console.print(table)
    console.print(Text(f"\n{len(records)} {'run' if len(records) == 1 else 'runs'}", style="dim"))


def show(record: Record) -> None:
    """All of one record in readable form."""
    from reprise.cli.display import results, waiting

    console = _console()
    console.print(Text(record["name"], style="bold"))
    console.print(Text(f"identity {record['identity']}, tape {record['tape'][:16]}", style="dim"))
    console.print()
    if "metrics" in record:
        console.print(results(record))
    else:
        console.print(Text(waiting(record["audit"])))
    stream = record["stream"]
    facts = {"stream": stream["name"], "steps": stream["steps"], "examples": stream["examples"]}
    made = {name: value for name, value in record["provenance"].items() if name != "command"}
    made |= {"command": " ".join(record["provenance"].get("command", [])), "seconds": round(seconds(record), 2)}
    data = {f"fingerprint of {name}": value[:16] for name, value in record["data"].items()}
    parts = {"Audit": record["audit"], "Settings": {"seed": record["run"]["seed"], **settings(record)}}
    for title, values in {**parts, "Stream and data": {**facts, **data}, "Made by": made}.items():
        console.print(Text(f"\n{title}", style="bold"))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        for name, value in values.items():
            table.add_row(Text(name), Text(_shown(value)))
        console.print(table)


def compared(found: RunComparison) -> None:
    """A comparison: the verdict, the pairs, waits, what else differs, and what is doubtful."""
    console = _console()
    console.print(Text(found.verdict, style="bold"))
    seeds = found.seeds if len(found.seeds) <= _MOST_SEEDS else []
    for part in pairs(found):
        console.print()
        table = _table(*(f"seed {seed}" for seed in seeds), "mean", "interval", "t", "p", first=part["name"])
        for side in part["sides"]:
            table.add_row(side["name"], *(side["cells"] if seeds else ()), side["mean"], "", "", "")
        rest = part["differences"] if seeds else part["differences"][-4:]
        table.add_row("difference", *rest, style="bold")
        console.print(table)
    console.print()
    for side in (found.a, found.b):
        console.print(Text(f"Longest wait under {side.name}: {side.longest} steps ({_bound(side)})."))
    differs = [str(one) for one in found.differs] or ["no setting but the seed"]
    for title, lines in (("What differs", differs), ("What is doubtful", found.doubts)):
        if lines:
            console.print(Text(f"\n{title}", style="bold"))
            for line in lines:
                console.print(Text(line))


def _bound(side: RunGroup) -> str:
    if not side.known:
        return f"{side.retrieval} is not known here: --import loads it, and with it its bound"
    return "no bound is proved" if side.bound is None else f"{side.bound} is proved for classes that stay"


def _console() -> Console:
    """Into a file or a pipe, a table is as wide as it needs to be rather than 80 columns."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    return Console(width=wide, markup=False, emoji=False, highlight=False)


def _table(*heads: str, first: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _made(store: Path, record: Record) -> str:
    """When the run ended; of a record that does not say, when it was written, as far as the store's files tell."""
    if ended := record["provenance"].get("ended"):
        return datetime.fromisoformat(ended).astimezone().strftime("%Y-%m-%d %H:%M")
    try:
        when = (store / "records" / f"{record['identity']}.json").stat().st_mtime
    except OSError:
        return NOTHING
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M")


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.2f}%"


def _shown(value: object) -> str:
    return NOTHING if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
