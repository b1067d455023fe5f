"""`reprise audit`: plan tapes from labels alone, audit them, and show what they look like."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from tyro.conf import arg

from reprise.cli.errors import WrongRequest, request, work
from reprise.cli.output import check_output, write_output
from reprise.cli.progress import progress_bar
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from reprise.lab.audits import AuditRun
    from reprise.report import Summary

T = TypeVar("T")
ENDINGS = (".png", ".svg", ".html")
MOST_PICTURES = 48  # rows of the table in one picture


@dataclass(frozen=True)
class Audit:
    """Plan replay sequences from labels alone and audit them: how long classes wait, and which return together.

    Lists are separated by commas; every combination is audited.

    Example, on a stream: reprise audit --stream cifar100-lt10 --retrieval iid,fixed,rpr --storage reservoir
    --buffer 5120 --replay 8 --seeds 10

    Example, on a balanced memory that stands still: reprise audit --classes 200 --steps 3000 --replay 8
    --retrieval uniform,iid,rpr --seeds 1

    Example, with pictures: reprise audit --stream cifar100-lt10 --seeds 3 --plot audit.html
    """

    stream: Annotated[str | None, arg(metavar="NAMES", help_behavior_hint="(such as cifar100-lt10)")] = None
    """Streams: a data set, then -balanced or -lt and a factor."""
    classes: Annotated[int | None, arg(metavar="C", help_behavior_hint="")] = None
    """Instead of a stream: a balanced memory of so many classes that stands still."""
    steps: Annotated[int | None, arg(metavar="T", help_behavior_hint="")] = None
    """How long it stands still; with --classes only."""
    retrieval: Annotated[str, arg(metavar="SPECS")] = "uniform,iid,fixed,rpr"
    """Retrievals: uniform, iid, fixed, rpr, reused:K, hybrid:S, window:W, deadline:S, frozen-pass, frozen-iid; a
    schedule may end in +pass."""
    storage: Annotated[str, arg(metavar="SPECS")] = "reservoir"
    """Storages: reservoir, brs, cbrs, fifo."""
    buffer: Annotated[str | None, arg(metavar="SIZES", help_behavior_hint="(default: 5120, or 50 of each class)")] = (
        None
    )
    """Examples that the memory holds."""
    replay: Annotated[int, arg(metavar="B")] = 8
    """Examples replayed a step."""
    seeds: Annotated[int, arg(metavar="N")] = 1
    """Runs of each combination; figures are means over them."""
    first_seed: Annotated[int, arg(metavar="SEED")] = 0
    """The first of the seeds, which count up from there."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all cores)")] = None
    """Runs at a time."""
    json: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all figures to this file as JSON; - prints them instead of the table."""
    plot: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Draw the audit: a picture (.png, .svg) or a page (.html)."""

    def run(self) -> int:
        runs = self.runs()
        self._check_outputs(len(runs) // self.seeds)
        from reprise.lab.audits import audit_all
        from reprise.report import summarise

        with progress_bar(len(runs), "Auditing") as progress, work():
            rows = summarise(runs, audit_all(runs, jobs=self.jobs, progress=progress))
        if self.json is not None:
            text = json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
            else:
                write_output(self.json, text.encode())
        if self.plot is not None:
            with work():
                picture = self._draw(rows)
            write_output(self.plot, picture)
        if self.json != "-":
            self._print(rows)
        return 0

    def runs(self) -> list[AuditRun]:
        """Every run that was asked for, all checked, seeds innermost."""
        from reprise.core.arguments import as_int
        from reprise.lab.audits import AuditRun

        with request():
            for option, value in (("--replay", self.replay), ("--seeds", self.seeds), ("--jobs", self.jobs)):
                if value is not None:
                    as_int(value, option, 1)
            as_int(self.first_seed, "--first-seed", 0)
            self._check_form()
            streams: list[str | None] = [None] if self.stream is None else [*_listed(self.stream, "--stream", str)]
            buffers: list[int | None] = [None] if self.buffer is None else [*_listed(self.buffer, "--buffer", _size)]
            storages, retrievals = _listed(self.storage, "--storage", str), _listed(self.retrieval, "--retrieval", str)
            _check_policies(storages, retrievals)
            runs = [
                AuditRun(
                    retrieval=retrieval,
                    storage=storage,
                    stream=stream,
                    classes=self.classes,
                    steps=self.steps,
                    buffer=buffer,
                    replay=self.replay,
                    seed=seed,
                )
                for stream, storage, buffer, retrieval in product(streams, storages, buffers, retrievals)
                for seed in range(self.first_seed, self.first_seed + self.seeds)
            ]
            self._check_streams(streams)
            return runs

    @property
    def command(self) -> str:
        """The command line that asks for this."""
        words = ["reprise", "audit"]
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name == "retrieval":
                words += [f"--{field.name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def _check_form(self) -> None:
        if (self.stream is None) == (self.classes is None):
            raise ValueError(
                "an audit is of a stream or of a memory that stands still: give either --stream NAME or "
                "--classes C and --steps T"
            )
        if (self.classes is None) != (self.steps is None):
            missing, given = ("--classes", "--steps") if self.classes is None else ("--steps", "--classes")
            raise ValueError(f"{given} goes with {missing}, and {missing} is not given")

    def _check_streams(self, streams: list[str | None]) -> None:
        from reprise.streams import label_stream

        for stream in streams:
            if stream is not None:
                for seed in {self.first_seed, self.first_seed + self.seeds - 1}:
                    label_stream(stream, seed=seed)

    def _check_outputs(self, rows: int) -> None:
        if self.json not in (None, "-"):
            check_output(self.json, "--json")
        if self.plot is None:
            return
        if Path(self.plot).suffix.lower() not in ENDINGS:
            raise WrongRequest(f"--plot draws files that end in {', '.join(ENDINGS)}, got {self.plot!r}")
        if self.json is not None and os.path.realpath(self.json) == os.path.realpath(self.plot):
            raise WrongRequest(f"--json and --plot cannot both write {self.plot!r}")
        if rows > MOST_PICTURES:
            raise WrongRequest(f"--plot draws at most {MOST_PICTURES} combinations, got {rows}; ask for fewer")
        for package in ("matplotlib", "jinja2"):
            if find_spec(package) is None:
                raise WrongRequest(not_installed(f"--plot needs {package}", "plot"))
        check_output(self.plot, "--plot")

    def _draw(self, rows: list[Summary]) -> bytes:
        assert self.plot is not None
        kind = Path(self.plot).suffix.lower()[1:]
        if kind == "html":
            from reprise import __version__
            from reprise.report.page import page

            return page(rows, self.command, __version__).encode()
        from reprise.report.figures import save

        return save(rows, kind)

    def _print(self, rows: list[Summary]) -> None:
        from rich.console import Console
        from rich.text import Text

        from reprise.report.tables import text_reading, text_table

        # Into a file or a pipe, a table is as wide as it needs to be rather than 80 columns.
        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
        console = Console(width=wide, markup=False, emoji=False, highlight=False)
        with console.capture() as text:
            console.print(text_table(rows, console))
            console.print()
            for sentence in text_reading(rows):
                console.print(Text(sentence))
            for what, path in (("Figures", self.json), ("Pictures", self.plot)):
                if path is not None:
                    console.print(Text(f"{what}: {path}"), soft_wrap=True)
        sys.stdout.write(text.get())


def _listed(text: str, option: str, read: Callable[[str], T]) -> list[T]:
    """The items of a comma list, each once."""
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError(f"{option} takes names separated by single commas, got {text!r}")
    return [read(item) for item in dict.fromkeys(items)]


def _size(text: str) -> int:
    from reprise.core.arguments import as_int

    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"--buffer must be a whole number, got {text!r}") from None
    return as_int(number, "--buffer", 1)


def _check_policies(storages: list[str], retrievals: list[str]) -> None:
    from reprise.memory import MaximallyInterfered, as_retrieval, as_storage

    for storage in storages:
        as_storage(storage)
    for retrieval in retrievals:
        if isinstance(as_retrieval(retrieval), MaximallyInterfered):
            raise ValueError(
                f"{retrieval!r} chooses by a model's losses, so its replay cannot be known before training; "
                "any other retrieval can be audited"
            )
