"""`reprise audit`: plan tapes from labels alone, audit them, and show what they look like."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from reprise.cli.errors import RunFailed, WrongRequest, request, work
from reprise.cli.options import combinations, declared, given_settings, read_seeds, read_values, run_options
from reprise.cli.output import check_output, write_output
from reprise.cli.progress import progress_bar, say
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.report import Summary
    from reprise.runs import Run

ENDINGS = (".png", ".svg", ".html")
MOST_PICTURES = 48  # rows of the table in one picture


_RETRIEVAL = (
    "When classes return: uniform, iid, fixed, rpr, reused:K, hybrid:S, window:W, deadline:S, frozen-pass, frozen-iid; "
    "a schedule may end in +pass."
)
_HIDDEN = ("imbalance", "virtual_loss", "scoring")  # the stream's name says the first; nothing is scored here
_Settings: Any = run_options("AuditOptions", ["memory", "stream"], leave_out=[*_HIDDEN, "retrieval"])


@dataclass(frozen=True, kw_only=True)
class Audit(_Settings):  # type: ignore[misc]
    """Plan replay sequences from labels alone and audit them: how long classes wait, and which return together.

    Where an option takes several values separated by commas, every combination is audited.

    Example, on a stream: reprise audit --stream cifar100-lt10 --retrieval iid,fixed,rpr --storage reservoir
    --buffer 5120 --replay 8 --seeds 10

    Example, on a balanced memory that stands still: reprise audit --classes 200 --steps 3000 --replay 8
    --retrieval uniform,iid,rpr --seeds 1

    Example, with pictures: reprise audit --stream cifar100-lt10 --seeds 3 --plot audit.html

    Example, with a storage of your own: reprise audit --import mine.py --storage mine --stream cifar100-lt10
    """

    stream: Annotated[
        str | None, arg(metavar="NAMES", help_behavior_hint="(such as cifar100-lt10,cifar100-balanced)")
    ] = None
    """Streams: a data set, then -balanced, or -lt and the imbalance factor."""
    classes: Annotated[int | None, arg(metavar="C", help_behavior_hint="")] = None
    """Instead of a stream: a balanced memory of so many classes that stands still."""
    steps: Annotated[int | None, arg(metavar="T", help_behavior_hint="")] = None
    """How long it stands still; with --classes only."""
    retrieval: Annotated[str, arg(metavar="SPECS", help=_RETRIEVAL)] = "uniform,iid,fixed,rpr"
    seeds: Annotated[str, arg(metavar="N|RANGES")] = "1"
    """Runs of each combination: how many, or which, as 0-9 or 0,2,5-7; figures are means over them."""
    first_seed: Annotated[int, arg(metavar="SEED")] = 0
    """Where --seeds N begins to count."""
    out: Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")] = None
    """The store: folder for the records; what is there is not audited again."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all cores)")] = None
    """Runs at a time."""
    json: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all figures to this file as JSON; - prints them instead of the table."""
    plot: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Draw the audit: a picture (.png, .svg) or a page (.html)."""

    def run(self) -> int:
        runs = self.runs()
        self._check_outputs(len({run.replace(seed=0) for run in runs}))
        from reprise.execute import choose
        from reprise.lab.campaign import campaign
        from reprise.report import summarise
        from reprise.runs.store import Store

        store = None if self.out is None else Store(self.out)
        found: dict[Run, Record] = {}
        with progress_bar(len(runs), "Auditing") as progress, work():
            made = campaign(
                runs,
                choose(runs, jobs=self.jobs),
                store,
                watch=lambda now: progress(now.done, now.known),
                warn=say,
            )
            with closing(made) as ended:
                for outcome in ended:
                    if outcome.record is None:
                        raise outcome.error or RunFailed(f"{outcome.name} gave no record")
                    found[outcome.run] = outcome.record
            rows = summarise([found[run] for run in runs])
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

    def runs(self) -> list[Run]:
        """Every run that was asked for, all checked, seeds innermost."""
        from reprise.core.arguments import as_int
        from reprise.runs.settings import MemorySettings
        from reprise.streams.datasets import parse_name

        with request():
            if self.jobs is not None:
                as_int(self.jobs, "--jobs", 1)
            first, seeds = as_int(self.first_seed, "--first-seed", 0), read_seeds(self.seeds)
            if first and not self.seeds.strip().isdecimal():
                raise ValueError(f"--first-seed goes with a number of seeds; --seeds {self.seeds} names them already")
            seeds = [first + seed for seed in seeds]
            self._check_form()
            for option in ("replay", "draws"):  # with nothing replayed there is nothing to audit
                if (given_text := getattr(self, option)) is not None:
                    read_values(given_text, option, replace(declared(MemorySettings, option), least=1))
            given = {**given_settings(self), "learner": None}
            given["retrieval"] = given.pop("retrieval")  # last, so that rows to be compared stand together
            if self.stream is None:
                runs = combinations({"classes": self.classes, "steps": self.steps, **given}, seeds)
            else:
                names = [name.strip() for name in self.stream.split(",")]
                if not all(names):
                    raise ValueError(f"--stream takes names separated by single commas, got {self.stream!r}")
                runs = []
                for name in dict.fromkeys(names):
                    dataset, imbalance = parse_name(name)
                    runs += combinations({"dataset": dataset, "imbalance": imbalance, **given}, seeds)
            self._check_streams(runs)
            return list(dict.fromkeys(runs))

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

    def _check_streams(self, runs: list[Run]) -> None:
        from reprise.runs.plan import make_stream

        ends = {min(run.seed for run in runs), max(run.seed for run in runs)}
        for run in {(run.data, run.stream, run.seed): run for run in runs if run.seed in ends}.values():
            make_stream(run)

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
