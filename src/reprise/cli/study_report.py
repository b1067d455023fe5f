"""`reprise study report` and `reprise study index`: what campaigns found, as pages, tables and pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from reprise.cli.errors import RunFailed, WrongRequest, request
from reprise.cli.output import check_output, write_output
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from rich.console import Console

    from reprise.lab.outcome import StudyOutcome
    from reprise.lab.study_plan import StudyPlan
    from reprise.runs.store import Store

__all__ = ["StudyIndex", "StudyReport"]

Folder = Annotated[Path, arg(metavar="DIR")]
File = Annotated[Path | None, arg(metavar="FILE", constructor=Path, help_behavior_hint="")]
Target = Annotated[str | None, arg(metavar="FILE|-", help_behavior_hint="")]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]
_PACKAGES = {"html": "jinja2", "png": "matplotlib", "svg": "matplotlib"}


@dataclass(frozen=True)
class StudyReport:
    """Write what a campaign found: a page, and beside it Markdown, CSV, LaTeX, JSON and pictures.

    Example: reprise study report dyngaps --out out
    """

    name: Annotated[str, Positional, arg(metavar="NAME,...|all|FILE.py")]
    """The study's name, or a file of your own that declares one; several with commas; `all` for every campaign here."""
    out: Folder
    """The store that the study was run into."""
    small: Flag = False
    """Report the small form."""
    partial: Flag = False
    """Report what is there, and name the runs that are missing."""
    half_width: Annotated[float, arg(metavar="POINTS")] = 0.25
    """Percentage points that intervals should reach to either side: the page says how many more seeds that takes."""
    html: File = None
    """File for the page; the others lie beside it. In the store's folder `reports` unless told."""
    formats: Annotated[str, arg(metavar="LIST")] = "html,md,csv,tex,json,png,svg"
    """What to write, by the ends of the files."""
    json: Target = None
    """One more file for the figures as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console
        from rich.text import Text

        from reprise.report.report_files import report_folder
        from reprise.runs.store import Store

        if not self.half_width > 0:
            raise WrongRequest(f"--half-width must be above 0, got {self.half_width}")
        formats, store = self._formats(), Store(self.out)
        if not self.out.is_dir():
            raise WrongRequest(f"there is no folder {str(self.out)!r}; --out is the store that the study was run into")
        if self.json is not None and self.json != "-":
            check_output(self.json, "--json")
        with request():
            plans = self._plans(store)
        several = self.name == "all" or len(plans) > 1
        if several and (self.html is not None or self.json is not None):
            raise WrongRequest("--html and --json are for the report of one campaign, and not of several")
        if self.html is not None:
            check_output(str(self.html), "--html")
        else:
            _make(report_folder(store))
        console = Console(stderr=self.json == "-")
        failed = agreeing = judged = 0
        for name, plan_of in plans.items():
            try:
                found = self._report(plan_of(), store, formats, console)
                agreeing, judged = agreeing + len(found.judged) - len(found.outside), judged + len(found.judged)
            except (ValueError, OSError) as error:
                if not several:
                    raise WrongRequest(str(error)) from error
                failed += 1
                print(f"No report of {name}: {error}", file=sys.stderr)
        if self.html is None and "html" in formats:
            index = report_folder(store) / "index.html"
            _write_index(store, index)
            console.print(Text(f"Wrote {index}"), soft_wrap=True)
        if several and judged:
            console.print(Text(f"In all, {agreeing:,} of {judged:,} figures agree with the paper's.", style="bold"))
        if failed:
            raise RunFailed(f"{failed} {'campaign has' if failed == 1 else 'campaigns have'} no report; see above")
        return 0

    def _formats(self) -> list[str]:
        from reprise.report.report_files import FORMATS

        asked = [part.strip() for part in self.formats.split(",")]
        for one in asked:
            if one not in FORMATS:
                raise WrongRequest(f"--formats are some of {','.join(FORMATS)}, got {one!r}")
            if (package := _PACKAGES.get(one)) is not None and find_spec(package) is None:
                raise WrongRequest(not_installed(f"a report as {one} needs {package}", "plot"))
        return asked

    def _plans(self, store: Store) -> dict[str, Callable[[], StudyPlan]]:
        """The campaigns by name, and what makes the plan of each: its file may be damaged, or its study gone."""
        from reprise.cli.study_request import names_of
        from reprise.lab.campaign_file import campaign_files

        if self.name != "all":
            plans = {name: _plan(name, small=self.small) for name in names_of(self.name)}
            return {name: partial(_itself, plan) for name, plan in plans.items()}
        paths = campaign_files(store)
        if not paths:
            raise WrongRequest(f"{str(store.folder)!r} holds no campaign; `reprise study run` makes one")
        return {path.stem: partial(_plan_of_file, path) for path in paths}

    def _report(self, plan: StudyPlan, store: Store, formats: list[str], console: Console) -> StudyOutcome:
        from rich.text import Text

        from reprise.report.campaign_report import load_report
        from reprise.report.report_files import report_contents, report_folder, report_paths
        from reprise.report.study_rows import as_rows

        report = load_report(plan, store, partial=self.partial, half_width=self.half_width, warn=_warn)
        paths = report_paths(self.html or report_folder(store) / f"{report.name}.html", report, formats)
        for path in paths.values():
            check_output(str(path), "--html")
        for end, content in report_contents(report, paths).items():
            write_output(str(paths[end]), content)
        if self.json is not None:
            text = dumps(as_rows(report.outcome), indent=1, allow_nan=False) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
            else:
                write_output(self.json, text.encode())
        console.print(Text(f"{report.name}: {report.outcome.verdict}", style="bold"), soft_wrap=True)
        if report.outcome.runs.missing:
            console.print(Text(f"{report.total - report.done} of {report.total} runs are missing."), soft_wrap=True)
        for path in paths.values():
            console.print(Text(f"Wrote {path}"), soft_wrap=True)
        return report.outcome


@dataclass(frozen=True)
class StudyIndex:
    """Write a page over all campaigns of a store: verdicts, runs, and links to their reports.

    Example: reprise study index --out out
    """

    out: Folder
    """The store that the studies were run into."""
    html: File = None
    """File for the page; index.html in the store's folder `reports` unless told."""

    def run(self) -> int:
        from reprise.report.report_files import report_folder
        from reprise.runs.store import Store

        if not self.out.is_dir():
            raise WrongRequest(f"there is no folder {str(self.out)!r}; --out is the store that studies were run into")
        if find_spec("jinja2") is None:
            raise WrongRequest(not_installed("a page needs jinja2", "plot"))
        store = Store(self.out)
        if self.html is None:
            _make(report_folder(store))
        target = self.html or report_folder(store) / "index.html"
        check_output(str(target), "--html")
        _write_index(store, target)
        print(f"Wrote {target}")
        return 0


def _itself(plan: StudyPlan) -> StudyPlan:
    return plan


def _plan(name: str, *, small: bool) -> StudyPlan:
    from reprise.lab.study_plan import StudyPlan
    from reprise.studies import is_file, load_study

    return StudyPlan.of(load_study(name), small=small, source=name if is_file(name) else "")


def _plan_of_file(path: Path) -> StudyPlan:
    from reprise.lab.campaign_file import read_campaign

    if (file := read_campaign(path)) is None:
        raise ValueError(f"{path} is gone")
    return _plan(file.source or file.study, small=file.small)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise WrongRequest(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from error


def _write_index(store: Store, target: Path) -> None:
    from reprise.report.report_files import index_page

    with request():
        write_output(str(target), index_page(store, target).encode())


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)
