"""A campaign as it is reported: what came out, and how it was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from reprise.lab.campaign_file import CampaignFile
from reprise.lab.outcome import StudyOutcome, outcome
from reprise.lab.study_plan import StudyPlan
from reprise.report.study_words import HALF_WIDTH
from reprise.runs.store import Store


@dataclass(frozen=True, eq=False)
class CampaignReport:
    """What a campaign's page and tables are made of."""

    outcome: StudyOutcome
    file: CampaignFile
    half_width: float = HALF_WIDTH
    """Percentage points that an interval should reach to either side: the page says how many seeds that takes."""

    @property
    def plan(self) -> StudyPlan:
        return self.outcome.plan

    @property
    def name(self) -> str:
        """The campaign's name, and that of its files."""
        return self.file.name

    @property
    def command(self) -> str:
        """The command that the campaign was last begun with; where that made no run, one that asks for the same."""
        return shlex.join(self.file.command) if self.file.command else f"{self.file.again} --out DIR"

    @property
    def done(self) -> int:
        """Runs that are there."""
        return len(self.outcome.runs.records)

    @property
    def total(self) -> int:
        return len(self.file.runs)


def load_report(
    plan: StudyPlan,
    store: Store,
    *,
    partial: bool = False,
    half_width: float = HALF_WIDTH,
    warn: Callable[[str], None] | None = None,
) -> CampaignReport:
    """A campaign of a store; an error if runs are missing, unless `partial`."""
    loaded = plan.load(store, partial=partial, warn=warn)
    return CampaignReport(outcome(loaded.plan, loaded.runs), loaded.file, half_width)
