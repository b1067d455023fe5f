"""`reprise study`: the paper's tables and studies of one's own, planned, made, watched and put beside the paper."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from json import dumps
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, arg

from reprise.cli.errors import RunFailed, request
from reprise.cli.executors import ExecutorOptions, make_executor
from reprise.cli.options import check_counts, go_on, read_time
from reprise.cli.output import check_output, write_output
from reprise.cli.study_request import Data, Flag, Folder, Name, Number, One, Only, Target, device_of, plans_of, runs_of
from reprise.core.errors import reason
from reprise.lab.study_plan import StudyFailed, StudyPlan

if TYPE_CHECKING:
    from rich.table import Table

    from reprise.lab.outcome import StudyOutcome
    from reprise.lab.study import Study
    from reprise.lab.study_plan import Executed

__all__ = ["StudyFailed", "StudyList", "StudyRun", "StudyShow"]


@dataclass(frozen=True)
class StudyList:
    """List the studies: the table each fills, how many runs it takes, whether it trains.

    Example: reprise study list
    """

    def run(self) -> int:
        from rich.console import Console

        from reprise.cli.study_display import table_of
        from reprise.studies import STUDIES

        table = table_of("study", "table", runs="right", small="right", training="left")
        for study in STUDIES.values():
            runs, small = StudyPlan.of(study).count, StudyPlan.of(study, small=True).count
            table.add_row(study.name, study.table, str(runs), str(small), "needed" if study.trains else "none")
        Console().print(table)
        return 0


@dataclass(frozen=True)
class StudyShow:
    """Show a study: its cells, its arms, what it compares, and the figures that the paper prints.

    Example: reprise study show dyngaps
    """

    name: One
    """The study's name; `reprise study list` lists them. Or the file that declares one of your own."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.studies import load_study

        study = load_study(self.name)
        console = Console()
        console.print(Text(f"{study.name}: {study.table}", style="bold"))
        console.print(Text(study.about))
        console.print()
        console.print(_cells(study))
        console.print(Text(f"\nArms: {', '.join(study.arms)}"))
        if facts := _facts(study):
            console.print(Text(f"What tells its cells apart, for --only: {facts}"))
        for contrast in study.form_contrasts(small=False):
            printed = f"; the paper's {contrast.paper['mean']}" if "mean" in contrast.paper else ""
            console.print(Text(f"Contrast: {contrast.name} of {contrast.key}, {contrast.label}{printed}", style="dim"))
        if papers := _paper(study, console.width):
            console.print("\nThe paper's figures", style="bold")
            for paper in papers:
                console.print(paper)
        for note in study.notes:
            console.print(Text(f"\n{note}", style="dim"))
        return 0


@dataclass(frozen=True)
class StudyRun:
    """Run a study and put its figures beside the paper's.

    Every run's record is kept in the folder; what has a record is not run again, so a study that was stopped goes on
    where it stood, and studies share runs. A run that fails is tried once more, then listed; the others go on.

    Example: reprise study run seams --small --out out
    """

    name: Name
    """The study's name, or the file that declares one of your own; several with commas; `all` for all listed ones."""
    out: Folder
    """The store: folder for the records, which studies share."""
    small: Flag = False
    """A form for a laptop: other, smaller streams and few seeds. Not comparable with the paper."""
    seeds: Number = None
    """Seeds that figures are means over: 10, or 3 for the small form, unless the study says otherwise."""
    error_seeds: Number = None
    """For a study that does not train: seeds that the standard deviation is taken from, 40, or 8 for the small form."""
    only: Only = ""
    """A part of the study, as dataset=cifar100,retrieval=iid,retrieval=rpr: facts of its cells, and arms."""
    data: Data = None
    """Folder that holds the data sets, for a study that trains."""
    by: OmitArgPrefixes[ExecutorOptions] = field(default_factory=ExecutorOptions)
    track: Annotated[str | None, arg(metavar="LIST", constructor=str, help_behavior_hint="")] = None
    """Who is told of runs while they train: csv, tensorboard, wandb, or several of them; files go to the store."""
    json: Target = None
    """File for the figures as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.cli.fleet_display import fleet_screen
        from reprise.execute.one import ImageSource
        from reprise.lab.distributions import lacking
        from reprise.lab.study_plan import execute_plans
        from reprise.runs.store import Store
        from reprise.track import Tracking

        plans = plans_of(self.name, self.small, self.seeds, self.error_seeds, self.data, _warn, self.only)
        check_counts(jobs=self.by.jobs, lanes=self.by.lanes)
        if self.json is not None and self.json != "-":
            check_output(self.json, "--json")
        images, store = ImageSource(None, self.data), Store(self.out)
        with request():
            device = device_of(plans, self.by.device) if self.by.executor == "here" else "cpu"
            runs = runs_of(plans, self.data)
            executor = make_executor(self.by, runs, images, store, device)
            track = Tracking(tuple(part.strip() for part in (self.track or "").split(",") if part), folder=store.tracks)
            track.make()
            time_limit = None if self.by.time_limit is None else read_time(self.by.time_limit, "--time-limit")
        if time_limit != 0 and any(plan.seeds > 1 for plan in plans) and (why := lacking()):
            _warn(f"{why}. Runs are made and kept all the same; `reprise study report` has their figures later.")
        title = plans[0].name if len(plans) == 1 else f"{len(plans)} studies"
        with fleet_screen(title, quiet=True) as shown:
            executed = execute_plans(
                *(plans, store, executor),
                images=images,
                time_limit=time_limit,
                track=track,
                watch=shown,
                warn=shown.say,
            )
        console = Console(stderr=self.json == "-")
        try:
            found = _outcomes(plans, executed, console)
        except StudyFailed as error:
            partly = f"; `{self._report(partial=True)}` reports them" if executed.made else ""
            rest = f"; {go_on(time_limit)}" if executed.left else ""
            raise StudyFailed(f"{error}{partly}{rest}") from error
        console.print(Text(f"Records: {store.folder / 'records'}", style="dim"), soft_wrap=True)
        pages, report = "A page of it" if len(plans) == 1 else "Pages of them", self._report(bool(executed.left))
        console.print(Text(f"{pages}: {report}", style="dim"), soft_wrap=True)
        _write_json(self.json, found)
        if executed.failed:
            raise RunFailed(_failed(executed))
        if left := len(executed.left):
            raise RunFailed(f"{left} of {len(runs)} runs are still to be made: {go_on(time_limit)}")
        return 0

    def _report(self, partial: bool) -> str:
        """The command that reports what was made."""
        options = " --small" * self.small + " --partial" * partial
        return f"reprise study report {self.name}{options} --out {self.out}"


def _outcomes(plans: Sequence[StudyPlan], executed: Executed, console: object) -> list[StudyOutcome]:
    """The outcome of every study whose runs have all ended well; of several, a line each is shown."""
    from rich.console import Console
    from rich.text import Text

    from reprise.cli.study_display import print_outcome
    from reprise.lab.outcome import outcome

    assert isinstance(console, Console)
    found = []
    for plan in plans:
        try:
            one = outcome(plan, executed.runs(plan))
        except StudyFailed as error:
            if len(plans) == 1:
                raise
            console.print(Text(f"{plan.name}: {error}", style="bold red"), soft_wrap=True)
            continue
        found.append(one)
        if len(plans) == 1:
            print_outcome(one, console)
        else:
            console.print(Text(f"{plan.name}: {one.verdict}"), soft_wrap=True)
    return found


def _failed(executed: Executed) -> str:
    first, count = executed.failed[0], len(executed.failed)
    assert first.error is not None
    return (
        f"{count} {'run' if count == 1 else 'runs'} failed; the first, {first.name}: "
        f"{reason(first.error)}. The others are kept, and `reprise study status` lists them all"
    )


def _facts(study: Study) -> str:
    """Names and values of the facts in which cells differ."""
    values: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        for name, value in cell.facts.items():
            values.setdefault(name, {})[value] = None
    return "; ".join(f"{name}={', '.join(some)}" for name, some in values.items() if len(some) > 1)


def _cells(study: Study) -> Table:
    from reprise.cli.study_display import table_of
    from reprise.report.study_tables import NOTHING

    table = table_of("cell", "storage", buffer="right", replay="right", steps="right")
    for cell in study.cells:
        run = cell.run(study.arms[0], 0)
        steps = getattr(run.stream, "steps", NOTHING)
        table.add_row(cell.name, run.memory.storage, str(run.memory.buffer), str(run.memory.replay), str(steps))
    return table


def _paper(study: Study, width: int) -> list[Table]:
    """The figures of the paper, in as many tables as the terminal needs to hold their columns."""
    from reprise.cli.study_display import fitting, table_of
    from reprise.report.study_words import short_head as head

    printed = {
        head(column.key): {
            (cell.name, arm): found
            for cell in study.cells
            for arm in study.arms
            if column.paper and column.holds(arm) and (found := column.paper.find(cell.facts, arm))
        }
        for column in study.columns
        if column.paper is not None
    }
    rows = [(cell.name, arm) for cell in study.cells for arm in study.arms]
    taken = max(len(cell) for cell, _ in rows) + max(len("retrieval"), *(len(arm) for _, arm in rows)) + 4
    widths = {name: max(map(len, [name, *found.values()])) for name, found in printed.items() if found}
    tables = []
    for some in fitting(widths, width - taken):
        table = table_of("cell", "retrieval", **dict.fromkeys(some, "right"))
        for row in rows:
            if any(row in printed[name] for name in some):
                table.add_row(*row, *(printed[name].get(row, "") for name in some))
        tables.append(table)
    return tables


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _write_json(target: str | None, outcomes: Sequence[StudyOutcome]) -> None:
    from reprise.report.study_rows import as_rows

    if target is None:
        return
    text = dumps([row for one in outcomes for row in as_rows(one)], indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_output(target, text.encode())
