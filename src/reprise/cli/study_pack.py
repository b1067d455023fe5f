"""`reprise study pack` and `reprise study verify`: records to be shipped, and tapes planned again."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from reprise.cli.errors import RunFailed, WrongRequest, request
from reprise.cli.progress import duration, progress_bar, say
from reprise.cli.study_request import Data, Folder, Number, names_of

if TYPE_CHECKING:
    from reprise.lab.campaign_file import CampaignFile
    from reprise.lab.verify import TapeCheck
    from reprise.runs.store import Store

__all__ = ["StudyPack", "StudyVerify"]
_SHOWN = 5  # tapes that differ, by name


@dataclass(frozen=True)
class StudyPack:
    """Pack the records of a store into Parquet files, one for each campaign: small enough to be kept in a repository.

    The folder is a store as well: reports are made of it, and runs that it holds are not made again. Loss curves and
    tables of pairs are kept of seed 0 alone. Runs that no campaign asks for are in a file of their own.

    Example: reprise study pack --out out --into results
    """

    out: Folder
    """The store whose records are packed."""
    into: Folder
    """The folder for the files: a store, too."""

    def run(self) -> int:
        from rich.console import Console

        from reprise.cli.study_display import table_of
        from reprise.lab.packing import pack_store
        from reprise.runs.store import Store

        store, into = Store(self.out), Store(self.into)
        if self.out.resolve() == self.into.resolve():
            raise WrongRequest("--into must be another folder than --out")
        if not store.ended(say):
            raise WrongRequest(f"{str(self.out)!r} holds no record of a run")
        campaigns = _campaigns(store, "all")
        with request():
            written = pack_store(store, into, campaigns, say)
        table = table_of("file", runs="right", written="right", missing="right", kB="right")
        for one in written:
            size = f"{len(one.content) / 1e3:,.0f}"
            table.add_row(one.name, f"{one.runs:,}", f"{one.written:,}", f"{one.missing:,}", size)
        Console().print(table)
        for campaign, one in zip(campaigns, written, strict=False):
            if one.missing:
                what = "1 run is" if one.missing == 1 else f"{one.missing:,} runs are"
                say(f"{what} missing from {one.name}: `{campaign.again} --out {self.out}` makes what is not there.")
        return 0


@dataclass(frozen=True)
class StudyVerify:
    """Plan the replay sequence of every run again, from its settings alone, and compare it with the recorded hash.

    The identity of each record must be that of its settings, too.

    No image is needed: labels are taken to lie class by class. Data sets that lay in another order are given by --data.
    The exit status is 1 if one differs, is missing or cannot be planned; a memory that asks the network has no plan.

    Example: reprise study verify seams --out results
    """

    name: Annotated[str, Positional, arg(metavar="NAME,...|all")]
    """The campaign, as seams or seams-small, or several; `all` for every run of the store."""
    out: Folder
    """The store."""
    data: Data = None
    """Folder that holds data sets, to take labels from; those that are not there are taken to lie class by class."""
    jobs: Number = None
    """Processes to work with: all cores unless told."""

    def run(self) -> int:
        from reprise.core.arguments import as_int
        from reprise.execute.processes import cores
        from reprise.lab.verify import is_known, verify_tapes
        from reprise.runs.record import BULKY
        from reprise.runs.store import Store

        store = Store(self.out)
        if self.data is not None and not self.data.is_dir():
            raise WrongRequest(f"--data: there is no folder {str(self.data)!r}")
        with request():
            jobs = len(cores()) if self.jobs is None else as_int(self.jobs, "jobs", 1)
        ended = store.ended(say)
        if self.name == "all" and not ended:
            raise WrongRequest(f"{str(self.out)!r} holds no record of a run")
        asked = [identity for one in _campaigns(store, self.name) for _, identity in one.runs]
        wanted = dict.fromkeys([*filter(None, asked), *(sorted(ended) if self.name == "all" else ())])
        found = [store.get(identity, say, without=BULKY) for identity in wanted]
        records = [record for record in found if record is not None]
        missing = len(found) - len(records) + asked.count("")
        began = time.monotonic()
        checks = []
        with progress_bar(len(records), "tapes") as progress:
            for check in verify_tapes(records, self.data, jobs):
                checks.append(check)
                progress(len(checks))
        _say(checks, missing, time.monotonic() - began, self.data is None)
        if other := [record["name"] for record in records if not is_known(record)]:
            what = "record has" if len(other) == 1 else "records have"
            raise RunFailed(
                f"{len(other):,} {what} another identity than these settings and data give, the first: {other[0]}"
            )
        return 0


def _campaigns(store: Store, name: str) -> list[CampaignFile]:
    """The campaigns of a store by name, or all, those of this library in the order of its studies."""
    from reprise.lab.campaign_file import campaign_files, read_campaign
    from reprise.studies import STUDIES

    paths = {path.stem: path for path in campaign_files(store)}
    if not paths and name != "all":
        raise WrongRequest(f"{str(store.folder)!r} holds no campaign; `reprise study run` makes one")
    order = {study: place for place, study in enumerate(STUDIES)}
    names = sorted(paths, key=lambda one: (order.get(one.removesuffix("-small"), len(order)), one))
    if name != "all":
        with request():
            names = names_of(name)
        for one in names:
            if one not in paths:
                raise WrongRequest(
                    f"{str(store.folder)!r} holds no campaign {one!r}; it holds {', '.join(sorted(paths))}"
                )
    with request():
        found = [read_campaign(paths[one]) for one in names]
    return [one for one in found if one is not None]


def _say(checks: Sequence[TapeCheck], missing: int, seconds: float, no_data: bool) -> None:
    same = sum(check.same for check in checks)
    unplanned = Counter(check.why for check in checks if not check.found)
    differ = [check for check in checks if check.found and not check.same]
    print(f"{same:,} of {len(checks):,} tapes are as recorded ({duration(seconds)}).")
    for why, count in unplanned.items():
        print(f"{count:,} could not be planned: {why}.")
    if missing:
        print("1 record is missing." if missing == 1 else f"{missing:,} records are missing.")
    sys.stdout.flush()
    for check in differ[:_SHOWN]:
        say(f"differs: {check.name} ({check.identity})")
    if len(differ) > _SHOWN:
        say(f"and {len(differ) - _SHOWN:,} more")
    if differ:
        hint = "; if labels of a data set lay in another order, give it by --data" if no_data else ""
        raise RunFailed(f"{len(differ):,} {'tape is' if len(differ) == 1 else 'tapes are'} not as recorded{hint}")
    if lacking := missing + sum(not check.found and not check.scored for check in checks):
        raise RunFailed(f"{lacking:,} {'tape was' if lacking == 1 else 'tapes were'} not verified, as said above")
