"""A study small enough to be run in a blink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprise.lab import campaign as campaigns
from reprise.lab.campaign import Campaign
from reprise.lab.study import Cell, Column, Study


@pytest.fixture
def tiny() -> Study:
    return Study(
        name="tiny",
        table="nothing",
        about="Two arms on a memory of six classes.",
        settings=(Cell("C=6 b=2", classes=6, steps=30, buffer=12, replay=2),),
        small=(Cell("C=4 b=2", classes=4, steps=20, buffer=8, replay=2),),
        arms=("iid", "rpr"),
        columns=(Column("mean"), Column("max")),
    )


@pytest.fixture
def campaign(tiny: Study, tmp_path: Path) -> Campaign:
    """One setting, two arms, five seeds: ten runs."""
    return Campaign.in_folder(tiny, tmp_path, seeds=2, error_seeds=5)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The arm and seed of every run that is really made, in order."""
    found: list[tuple[str, int]] = []
    execute = campaigns.execute

    def counted(run: Any) -> Any:
        found.append((run.retrieval, run.seed))
        return execute(run)

    monkeypatch.setattr(campaigns, "execute", counted)
    return found
