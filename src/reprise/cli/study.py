"""`reprise study`: the paper's tables, made anew and put beside the paper's figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from json import dumps
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from reprise.cli.checks import check_data
from reprise.cli.errors import WrongRequest, request
from reprise.cli.output import check_output, write_output
from reprise.cli.progress import progress_bar
from reprise.core.extras import not_installed
from reprise.lab.study_plan import StudyFailed, StudyPlan

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from reprise.core.files import Record
    from reprise.lab.study import Study
    from reprise.studies.compare import Comparison, Figure

__all__ = ["StudyFailed", "StudyList", "StudyReport", "StudyRun", "StudyShow"]

Name = Annotated[str, Positional, arg(metavar="NAME")]
Folder = Annotated[Path, arg(metavar="DIR")]
File = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
Target = Annotated[str | None, arg(metavar="FILE|-", help_behavior_hint="")]
Number = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


@dataclass(frozen=True)
class StudyList:
    """List the studies: the table each fills, how many runs it takes, whether it trains.

    Example: reprise study list
    """

    def run(self) -> int:
        from rich.console import Console

        from reprise.studies import STUDIES

        table = _table("study", "table", runs="right", training="left")
        for study in STUDIES.values():
            runs = StudyPlan.of(study).count
            table.add_row(study.name, study.table, str(runs), "needed" if study.trains else "none")
        Console().print(table)
        return 0


@dataclass(frozen=True)
class StudyShow:
    """Show a study: its settings, its arms, and the figures that the paper prints.

    Example: reprise study show dyngaps
    """

    name: Name
    """The study's name; `reprise study list` lists them."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.studies import find_study

        study = find_study(self.name)
        console = Console()
        console.print(Text(f"{study.name}: {study.table}", style="bold"))
        console.print(Text(study.about))
        console.print()
        console.print(_settings(study))
        console.print(Text(f"\nArms: {', '.join(study.arms)}\n"))
        console.print("The paper's figures", style="bold")
        console.print(_paper(study))
        for note in study.notes:
            console.print(Text(f"\n{note}", style="dim"))
        return 0


@dataclass(frozen=True)
class StudyRun:
    """Run a study and put its figures beside the paper's.

    Every run's record is kept in the folder; what has a record is not run again, so a study that was stopped goes on
    where it stood.

    Example: reprise study run dyngaps --out out
    """

    name: Name
    """The study's name; `reprise study list` lists them."""
    out: Folder
    """The store: folder for the records, which studies share."""
    small: Flag = False
    """A form for a laptop: another, smaller stream and few seeds. Not comparable with the paper."""
    seeds: Number = None
    """Seeds that figures are means over: 10, or 3 for the small form."""
    error_seeds: Number = None
    """Seeds that the standard deviation is taken from: 40, or 8 for the small form."""
    data: Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")] = None
    """Folder that holds the data sets, for a study that trains."""
    device: Annotated[
        str | None, arg(metavar="cpu|cuda", constructor=str, help_behavior_hint="(default: cuda if there is one)")
    ] = None
    """Where to train; several GPUs as cuda:0,cuda:1."""
    jobs: Number = None
    """Processes to work with: all cores unless told. The figures are the same."""
    json: Target = None
    """File for the figures as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.core.arguments import as_int
        from reprise.execute import choose
        from reprise.execute.one import ImageSource
        from reprise.runs.store import Store
        from reprise.studies import find_study
        from reprise.studies.compare import compare

        study = find_study(self.name)
        plan = StudyPlan.of(study, seeds=self.seeds, error_seeds=self.error_seeds, small=self.small)
        if self.jobs is not None:
            as_int(self.jobs, "jobs", 1)
        _check(self.json, "--json")
        store, device = Store(self.out), _device(study, self.device)
        images = ImageSource(None, self.data)
        with request():
            runs = plan.runs
            for run in {run.data: run for run in runs if run.trains}.values():
                check_data(run, self.data)
        with progress_bar(len(runs), plan.name) as progress:
            executor = choose(runs, data=self.data, device=device, jobs=self.jobs)
            records = plan.execute(store, executor, images=images, watch=lambda now: progress(now.done), warn=_warn)
        comparison = compare(plan, records)
        console = Console(stderr=self.json == "-")
        _print(comparison, console)
        small = " --small" if self.small else ""
        console.print(Text(f"Records: {store.folder / 'records'}", style="dim"), soft_wrap=True)
        console.print(
            Text(f"A page of it: reprise study report {study.name}{small} --out {self.out}", style="dim"),
            soft_wrap=True,
        )
        _write_json(self.json, comparison, records)
        return 0


@dataclass(frozen=True)
class StudyReport:
    """Write a finished study as a page, with Markdown and CSV beside it.

    Example: reprise study report dyngaps --out out --html dyngaps.html
    """

    name: Name
    """The study's name; `reprise study list` lists them."""
    out: Folder
    """Folder that the study was run into."""
    small: Flag = False
    """Report the small form."""
    data: Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")] = None
    """Folder that holds the data sets, for a study that trained: its runs are known by their images."""
    html: File = None
    """File for the page; in the store under the study's name unless told."""
    markdown: File = None
    """File for the Markdown; beside the page unless told."""
    csv: File = None
    """File for the CSV; beside the page unless told."""
    json: Target = None
    """File for the figures as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.execute.one import ImageSource
        from reprise.report.study_page import page
        from reprise.report.study_tables import csv_table, markdown
        from reprise.runs.store import Store
        from reprise.studies import find_study
        from reprise.studies.compare import compare

        study = find_study(self.name)
        plan, records = StudyPlan.of(study, small=self.small).load(Store(self.out), ImageSource(None, self.data))
        html = self.html or self.out / f"{plan.name}.html"
        files = {
            "--html": html,
            "--markdown": self.markdown or html.with_suffix(".md"),
            "--csv": self.csv or html.with_suffix(".csv"),
        }
        for option, path in files.items():
            check_output(str(path), option)
        _check(self.json, "--json")
        comparison = compare(plan, records)
        console = Console(stderr=self.json == "-")
        texts = (page(comparison), markdown(comparison), csv_table(comparison))
        for path, text in zip(files.values(), texts, strict=True):
            write_output(str(path), text.encode())
            console.print(Text(f"Wrote {path}"), soft_wrap=True)
        console.print(Text(f"{comparison.verdict}.", style="bold"), soft_wrap=True)
        _write_json(self.json, comparison, records)
        return 0


def _device(study: Study, asked: str | None) -> str:
    if not study.trains:
        return "cpu"
    from reprise.cli.devices import device_for

    if find_spec("torch") is None:
        raise WrongRequest(not_installed("training needs torch", "train"))
    return device_for(asked)


def _settings(study: Study) -> Table:
    from reprise.report.study_tables import NOTHING

    table = _table("setting", "storage", buffer="right", replay="right", steps="right")
    for cell in study.cells:
        run = cell.run(study.arms[0], 0)
        steps = getattr(run.stream, "steps", NOTHING)
        table.add_row(cell.name, run.memory.storage, str(run.memory.buffer), str(run.memory.replay), str(steps))
    return table


def _paper(study: Study) -> Table:
    from reprise.report.study_tables import head
    from reprise.studies.paper_figures import paper_figures

    printed = paper_figures(study)
    keys = list(dict.fromkeys(key for _, _, key in printed))
    table = _table("setting", "retrieval", **{head(key): "right" for key in keys})
    for setting, arm in dict.fromkeys((setting, arm) for setting, arm, _ in printed):
        table.add_row(setting, arm, *(printed.get((setting, arm, key), "") for key in keys))
    return table


def _table(*words: str, **rest: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in words:
        table.add_column(name, overflow="fold", no_wrap=name != "table")
    for name, side in rest.items():
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    return table


def _print(comparison: Comparison, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from reprise.report.study_tables import beside_row, difference, head, ours, rows

    study, small = comparison.campaign.study, comparison.campaign.small
    keys = [column.key for column in study.columns]
    console.print(Text(f"{study.name}: {study.table}", style="bold"))
    for setting, group in groupby(rows(comparison), key=itemgetter(0)):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(min_width=max(map(len, study.arms)))
        table.add_column(style="dim")
        for key in keys:  # as wide in every table, so that they stand in line
            shown = [max(len(ours(one)), len(difference(one))) for one in comparison.figures if one.key == key]
            table.add_column(head(key), justify="right", min_width=max(shown))
        for _, arm, figures in group:
            found = [figures.get(key) for key in keys]
            for name, cells in _lines(found, small=small):
                table.add_row(arm if name == "ours" else "", name, *cells)
        console.print(Text(f"\n{setting}", style="bold cyan"))
        console.print(table)
    if comparison.beside:
        console.print(Text("\nBeside the theory, not judged", style="bold"))
        beside = _table("setting", "retrieval", "figure", ours="right", range="right", paper="right", theory="right")
        for figure in comparison.beside:
            beside.add_row(*beside_row(figure)[:-1])
        console.print(beside)
    style = "" if small else "bold red" if comparison.outside else "bold green"
    console.print(Text(f"\n{comparison.verdict}.", style=style), soft_wrap=True)


def _lines(figures: Sequence[Figure | None], *, small: bool) -> list[tuple[str, list[Text]]]:
    """The lines of one arm: ours, then what is beside it."""
    from rich.text import Text

    from reprise.report.study_tables import NOTHING, difference, ours

    mine = [Text() if figure is None else Text(ours(figure)) for figure in figures]
    if small:
        return [("ours", mine), ("sd", [Text() if one is None else Text(f"{one.sd:.2g}") for one in figures])]
    theirs = [Text() if one is None else Text(one.paper or NOTHING) for one in figures]
    apart = [
        Text() if one is None else Text(difference(one), style="bold red" if one.within is False else "cyan")
        for one in figures
    ]
    return [("ours", mine), ("paper", theirs), ("in se", apart)]


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _check(target: str | None, option: str) -> None:
    if target is not None and target != "-":
        check_output(target, option)


def _write_json(target: str | None, comparison: Comparison, records: Sequence[Record]) -> None:
    from reprise.report.study_tables import as_json

    if target is None:
        return
    text = dumps(as_json(comparison, records), indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_output(target, text.encode())
