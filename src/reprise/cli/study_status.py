"""`reprise study plan` and `reprise study status`: what a study would take, and how far campaigns have come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from reprise.cli.errors import WrongRequest, request
from reprise.cli.executors import check_lanes
from reprise.cli.options import check_counts
from reprise.cli.output import write_output
from reprise.cli.progress import say
from reprise.cli.study_request import Data, Flag, Folder, Name, Number, Only, Target, device_of, plans_of, runs_of

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from reprise.execute.one import ImageSource
    from reprise.lab.estimate import Estimate
    from reprise.lab.status import CampaignStatus
    from reprise.runs import Run, Store

LOOK_EVERY = 2.0  # seconds between two looks at a campaign
IDLE = 5  # looks in a row that find nothing under way, until nobody is taken to be at work


@dataclass(frozen=True)
class StudyTry:
    """Say what a study would take: how many runs, how many of them are there, and how long the rest takes here.

    For the time each kind of run is tried for a few steps. With several studies a run that more than one of them needs
    is counted once.

    Example: reprise study plan seams --small --out out
    """

    name: Name
    """The study's name, or the file that declares one of your own; several with commas; `all` for all listed ones."""
    out: Folder
    """The store: folder for the records, which studies share."""
    small: Flag = False
    """The form for a laptop."""
    seeds: Number = None
    """Seeds that figures are means over."""
    error_seeds: Number = None
    """For a study that does not train: seeds that the standard deviation is taken from."""
    only: Only = ""
    """A part of the study, as dataset=cifar100,retrieval=iid,retrieval=rpr: facts of its cells, and arms."""
    data: Data = None
    """Folder that holds the data sets, for a study that trains."""
    device: Annotated[
        str | None, arg(metavar="cpu|cuda", constructor=str, help_behavior_hint="(default: cuda if there is one)")
    ] = None
    """Where to train."""
    jobs: Number = None
    """Processes to work with: all cores unless told."""
    lanes: Number = None
    """Runs at once on a GPU's lanes: as many as make all of them faster unless told."""
    time: Annotated[bool, arg(help_behavior_hint="(default: True)")] = True
    """Whether to try how long it takes."""

    def run(self) -> int:
        from rich.console import Console

        from reprise.cli.study_display import table_of
        from reprise.execute.one import ImageSource
        from reprise.lab.campaign import identify
        from reprise.runs.store import Store

        plans = plans_of(self.name, self.small, self.seeds, self.error_seeds, self.data, say, self.only)
        images, store = ImageSource(None, self.data), Store(self.out)
        with request():
            check_counts(jobs=self.jobs, lanes=self.lanes)
            device = device_of(plans, self.device)
            runs = runs_of(plans, self.data)
            check_lanes(self.lanes, runs, device)
            identities = identify(runs, images)
        for error in [found for found in identities.values() if isinstance(found, Exception)][:1]:
            raise WrongRequest(str(error)) from error
        ended = store.ended(say)
        missing = [run for run in runs if identities[run] not in ended]
        table = table_of("study", runs="right", there="right", to_make="right", new="right")
        counted: set[Run] = set()
        for plan in plans:
            mine = dict.fromkeys(plan.runs)
            there = sum(identities[run] in ended for run in mine)
            new = sum(identities[run] not in ended and run not in counted for run in mine)
            counted |= {*mine}
            table.add_row(plan.name, str(len(mine)), str(there), str(len(mine) - there), str(new))
        console = Console()
        console.print(table)
        console.print(f"{len(runs)} runs in all, {len(runs) - len(missing)} are there, {len(missing)} are to be made.")
        if missing and self.time:
            console.print(self._estimated(missing, images, device))
        return 0

    def _estimated(self, missing: list[Run], images: ImageSource, device: str) -> str:
        from reprise.cli.study_display import spoken

        found, where = _estimate(missing, images, device, self.jobs, self.lanes)
        kinds = "1 kind of run" if len(found.kinds) == 1 else f"{len(found.kinds)} kinds of run"
        return f"About {spoken(found.seconds)} {where}, from a trial of {kinds}."


@dataclass(frozen=True)
class StudyStatus:
    """Show how far the campaigns of a store have come, from any terminal, while they run or afterwards.

    Example: reprise study status --out out --watch
    """

    out: Folder
    """The store."""
    name: Annotated[str | None, Positional, arg(metavar="NAME", constructor=str, help_behavior_hint="")] = None
    """The campaign, as seams or seams-small; all of the store unless told."""
    watch: Flag = False
    """Show it anew every two seconds, until all is done, or nothing has been under way for ten seconds."""
    json: Target = None
    """File for the state as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console

        from reprise.runs.store import Store

        store = Store(self.out)
        look = _looker(store, self.name)
        statuses = look()
        if self.json is not None:
            text = dumps([_plain(one) for one in statuses], indent=1) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
            else:
                write_output(self.json, text.encode())
            return 0
        console = Console()
        if not self.watch:
            console.print(_status(statuses))
            return 0
        from rich.live import Live

        with Live(_status(statuses), console=console, auto_refresh=False) as live:
            idle = 0
            while idle < IDLE and any(one.state not in ("done", "failed") for one in statuses):
                time.sleep(LOOK_EVERY)
                statuses = look()
                idle = 0 if any(one.under_way for one in statuses) else idle + 1  # between two runs, too, none is
                live.update(_status(statuses), refresh=True)
        return 0


def _looker(store: Store, name: str | None) -> Callable[[], list[CampaignStatus]]:
    """What looks at the campaigns that were asked for."""
    from reprise.core.registry import unknown
    from reprise.lab.campaign_file import campaign_files, read_campaign
    from reprise.lab.status import status

    paths = campaign_files(store)
    if not paths:
        raise WrongRequest(f"{str(store.folder)!r} holds no campaign: `reprise study run` begins one")
    if name is not None:
        known = {path.stem: path for path in paths}
        if name not in known:
            raise WrongRequest(unknown("campaign", name, known))
        paths = [known[name]]

    if name is None:
        paths = _readable(paths)
    store.ended(say)  # what of it cannot be read is said before anything is shown

    def look() -> list[CampaignStatus]:
        files = [found for path in paths if (found := read_campaign(path)) is not None]
        return [status(store, file) for file in files]

    return look


def _readable(paths: list[Path]) -> list[Path]:
    """The campaigns whose files can be read; others are named, and it is an error if there is no other."""
    from reprise.lab.campaign_file import read_campaign

    good: list[Path] = []
    for path in paths:
        try:
            read_campaign(path)
        except ValueError as error:
            if len(paths) == 1:
                raise
            say(str(error))
        else:
            good.append(path)
    if not good:
        raise WrongRequest("no campaign can be read; see above")
    return good


def _status(statuses: Sequence[CampaignStatus]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from reprise.cli.study_display import status_sentence, status_table

    grid = Table.grid()
    grid.add_row(status_table(statuses))
    for one in statuses:
        grid.add_row(Text(status_sentence(one), style="bold"))
        for (cell, arm, seed), why in one.failures:
            grid.add_row(Text(f"Failed: {arm} in {cell}, seed {seed}: {why}", style="red"))
    return grid


def _plain(status: CampaignStatus) -> dict[str, object]:
    return {
        "campaign": status.file.name,
        "state": status.state,
        **{name: getattr(status, name) for name in ("total", "done", "under_way", "failed")},
        "runs_per_minute": status.rate,
        "seconds_left": status.left,
        "failures": [{"cell": key[0], "arm": key[1], "seed": key[2], "error": why} for key, why in status.failures],
    }


def _estimate(
    missing: list[Run], images: ImageSource, device: str, jobs: int | None, lanes: int | None
) -> tuple[Estimate, str]:
    from reprise.execute.processes import cores
    from reprise.lab.estimate import estimate, estimate_lanes

    if device == "cpu":
        count = jobs or len(cores())
        found = estimate(missing, images, jobs=count)
        return found, f"on {count} processes of this machine" if count > 1 else "in one process of this machine"
    from reprise.execute.gpus import GPUs

    executor = GPUs(device.split(","), images, jobs=jobs, lanes=lanes)
    return estimate_lanes(missing, images, executor, lanes), f"on {device}"
