"""Pages of studies that nobody trained, and a browser to open them in."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import NONE, chromium, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from reprise.lab.study_plan import StudyPlan

SEEDS = {"gaps": 2, "seams": 10}


@dataclass(frozen=True)
class MadePage:
    """A page, and the plan of the study it shows."""

    file: Path
    plan: StudyPlan

    @property
    def index(self) -> Path:
        """The page over all that were made."""
        return self.file.parents[1] / "index.html"

    @property
    def cells(self) -> int:
        return len(self.plan.study.form_cells(small=False))

    @property
    def arms(self) -> list[str]:
        return [*self.plan.study.form_arms(small=False)]

    @property
    def trains(self) -> bool:
        return self.plan.study.cells[0].run(self.arms[0], 0).trains


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module and process; while it is open, its event loop runs in this thread."""
    pytest.importorskip("playwright", reason="Playwright, which drives the browser, is not installed")
    if find_chromium() is None:
        pytest.skip(NONE)
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MadePage]:
    """Pages by the name of their study, with an index over them; all test processes share them."""
    for name in ("jinja2", "scipy"):
        pytest.importorskip(name, reason="pages need the extra plot")
    from reprise.lab.study_plan import StudyPlan
    from reprise.studies import find_study

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    plans = {name: StudyPlan(find_study(name), seeds, seeds) for name, seeds in SEEDS.items()}

    def make(name: str) -> MadePage:
        with (folder / "pages.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "pages").exists():
                _make_pages(folder / "being made", plans.values())
                (folder / "being made").rename(folder / "pages")
        return MadePage(folder / "pages" / "reports" / f"{name}.html", plans[name])

    return make


def _make_pages(folder: Path, plans: Iterable[StudyPlan]) -> None:
    """A store with reports and an index of them; no run is kept."""
    from made_records import campaign_file, made_outcome

    from reprise.report.campaign_report import CampaignReport
    from reprise.report.report_files import index_page, report_contents, report_folder, report_paths
    from reprise.runs.store import Store

    store = Store(folder)
    reports = report_folder(store)
    reports.mkdir(parents=True, exist_ok=True)
    for plan in plans:
        report = CampaignReport(made_outcome(plan.study, plan.seeds), campaign_file(plan))
        report.file.write(store)
        paths = report_paths(reports / f"{report.name}.html", report, ("html", "json"))
        for end, content in report_contents(report, paths).items():
            paths[end].write_bytes(content)
    (folder / "index.html").write_text(index_page(store, folder / "index.html"), encoding="utf-8")
