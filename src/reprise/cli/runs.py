"""`reprise runs`: the runs of a store, listed, shown, compared and written as a table, from their records alone."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from reprise.cli.errors import WrongRequest
from reprise.cli.output import check_output, write_output
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.lab.comparison import RunComparison

__all__ = ["RunsCompare", "RunsExport", "RunsList", "RunsShow"]

Folder = Annotated[Path, Positional, arg(metavar="STORE")]
Choice = Annotated[str | None, arg(metavar="EXPR", help_behavior_hint="")]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Target = Annotated[str | None, arg(metavar="FILE|-", help_behavior_hint="")]

_METRIC = (
    "What is compared: a metric of a read-out, such as final, worst_case, forgetting or tail, or another column that "
    "`reprise runs export` writes, such as audit.max or prequential.accuracy."
)
PLOTS, TABLES = (".png", ".svg", ".html"), (".csv", ".parquet")


@dataclass(frozen=True)
class RunsList:
    """List the runs of a store.

    Example: reprise runs list store --where learner=er-ace,seed=0 --sort ema.final
    """

    store: Folder
    """The folder that the runs were made into."""
    where: Choice = None
    """Only runs of these settings, such as retrieval=rpr,learner=er-ace, or of this identity."""
    sort: Annotated[str, arg(metavar="COLUMN")] = "name"
    """What to sort by: a column that `reprise runs export` writes, such as ema.final, audit.longest or seconds."""
    json: Target = None
    """File for all columns as JSON; - for standard output."""

    def run(self) -> int:
        from reprise.cli.runs_display import listing
        from reprise.lab.table import flat

        _check(self.json, "--json")
        records = _sorted(_chosen(_records(self.store), self.where), self.sort)
        _write_json(self.json, [flat(record) for record in records])
        if self.json != "-":
            listing(records, self.store)
        return 0


@dataclass(frozen=True)
class RunsShow:
    """Show all that the record of a run says.

    Example: reprise runs show store 3f9a02c1
    """

    store: Folder
    """The folder that the run was made into."""
    id: Annotated[str, Positional, arg(metavar="ID")]
    """The beginning of its identity, as `reprise runs list` shows it, or settings that no other run has."""
    json: Flag = False
    """The record itself, as JSON."""
    config: Flag = False
    """The description of the run as TOML, from which `reprise train --config` makes it again."""

    def run(self) -> int:
        from reprise.cli.runs_display import show
        from reprise.lab.matching import one

        if self.json and self.config:
            raise WrongRequest("--json and --config each print something else; give one of them")
        record = one(_records(self.store), self.id)
        if self.json:
            sys.stdout.write(dumps(record, indent=1, allow_nan=False) + "\n")
        elif self.config:
            from reprise.runs.config import to_toml

            sys.stdout.write(to_toml(record["run"]))
        else:
            show(record)
        return 0


@dataclass(frozen=True)
class RunsCompare:
    """Compare two sets of runs pair by pair: the same seeds, and settings that differ.

    Example: reprise runs compare store retrieval=rpr retrieval=iid --plot compare.html
    """

    store: Folder
    """The folder that the runs were made into."""
    a: Annotated[str, Positional, arg(metavar="A")]
    """The runs of one side, by settings, such as retrieval=rpr: they must differ in their seed alone."""
    b: Annotated[str, Positional, arg(metavar="B")]
    """The runs of the other side; differences are A less B."""
    metric: Annotated[str, arg(metavar="NAME", help=_METRIC)] = "final"
    readout: Annotated[str, arg(metavar="ema|live")] = "ema"
    """The read-out whose metric it is."""
    plot: File = None
    """Draw waits and learning curves: a picture (.png, .svg) or a page (.html)."""
    json: Target = None
    """File for the comparison as JSON; - for standard output."""

    def run(self) -> int:
        from reprise.cli.runs_display import compared
        from reprise.lab.comparison import compare_runs

        self._check_outputs()
        records = _records(self.store)
        found = compare_runs(_chosen(records, self.a), _chosen(records, self.b), self.metric, self.readout)
        if self.plot is not None:  # files first: whoever reads what is printed may leave early
            write_output(self.plot, self._draw(found))
        _write_json(self.json, found.to_dict())
        if self.json != "-":
            compared(found)
        if self.plot is not None:
            print(f"\nWrote {self.plot}", file=sys.stderr if self.json == "-" else sys.stdout)
        return 0

    def _check_outputs(self) -> None:
        _check(self.json, "--json")
        if self.plot is None:
            return
        if Path(self.plot).suffix.lower() not in PLOTS:
            raise WrongRequest(f"--plot draws files that end in {', '.join(PLOTS)}, got {self.plot!r}")
        for package in ("matplotlib", "jinja2"):
            if find_spec(package) is None:
                raise WrongRequest(not_installed(f"--plot needs {package}", "plot"))
        check_output(self.plot, "--plot")

    def _draw(self, found: RunComparison) -> bytes:
        assert self.plot is not None
        kind = Path(self.plot).suffix.lower()[1:]
        if kind == "html":
            from reprise import __version__
            from reprise.report.compare_page import page

            words = ["reprise", "runs", "compare", str(self.store), self.a, self.b]
            for name in ("metric", "readout", "plot"):
                if (value := getattr(self, name)) != RunsCompare.__dataclass_fields__[name].default:
                    words += [f"--{name}", value]
            return page(found, shlex.join(words), __version__).encode()
        from reprise.report.run_figures import save

        return save(found, kind)


@dataclass(frozen=True)
class RunsExport:
    """Write all runs of a store as a table: a row for each run, a column for each setting and figure.

    Example: reprise runs export store runs.parquet
    """

    store: Folder
    """The folder that the runs were made into."""
    file: Annotated[str, Positional, arg(metavar="FILE")]
    """The table: it ends in .csv or .parquet."""
    where: Choice = None
    """Only runs of these settings, such as retrieval=rpr,learner=er-ace, or of this identity."""

    def run(self) -> int:
        from reprise.lab.table import as_csv, as_parquet

        kind = Path(self.file).suffix.lower()
        if kind not in TABLES:
            raise WrongRequest(f"a table is a file that ends in {' or '.join(TABLES)}, got {self.file!r}")
        check_output(self.file, "FILE")
        records = _sorted(_chosen(_records(self.store), self.where), "name")
        write_output(self.file, as_csv(records) if kind == ".csv" else as_parquet(records))
        print(f"Wrote {len(records)} {'run' if len(records) == 1 else 'runs'} to {self.file}")
        return 0


def _records(folder: Path) -> list[Record]:
    """All records of a store; those that cannot be read are named on standard error."""
    if folder.is_file():
        raise WrongRequest(f"{str(folder)!r} is a file; a store is the folder that runs were made into")
    if not folder.is_dir():
        raise WrongRequest(f"there is no folder {str(folder)!r}; a store is the folder that runs were made into")
    from reprise.runs.store import Store

    found: list[Record] = Store(folder).all_records(_warn)
    if not found:
        raise WrongRequest(f"{str(folder)!r} holds no record of a run")
    return found


def _chosen(records: Sequence[Record], text: str | None) -> list[Record]:
    from reprise.lab.matching import match

    return list(records) if text is None else match(records, text)


def _sorted(records: Sequence[Record], column: str) -> list[Record]:
    """By a column, what has no value there last; runs that are alike in it by name and seed."""
    from reprise.lab.table import columns, flat, run_names

    rows = [flat(record) for record in records]
    if column not in (known := columns(rows)):
        from reprise.core.registry import did_you_mean

        near = did_you_mean(column, known)
        hint = "" if near is None else f": did you mean {near!r}?"
        raise WrongRequest(
            f"--sort: there is no column {column!r}{hint or ';'} `reprise runs list STORE --json -` shows all of them"
        )
    values = {id(record): row for record, row in zip(records, rows, strict=True)}
    names = {id(record): name for record, name in zip(records, run_names(records), strict=True)}

    def order(record: Record) -> tuple[Any, ...]:
        row = values[id(record)]
        value = row.get(column)
        number = value if isinstance(value, (int, float)) else 0
        text = "" if value is None or isinstance(value, (int, float)) else str(value)
        named = names[id(record)]
        return value is None, number, text.rpartition(", seed")[0] or text, named, row["seed"], row["identity"]

    return sorted(records, key=order)


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _check(target: str | None, option: str) -> None:
    if target is not None and target != "-":
        check_output(target, option)


def _write_json(target: str | None, value: object) -> None:
    if target is None:
        return
    text = dumps(value, indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_output(target, text.encode())
