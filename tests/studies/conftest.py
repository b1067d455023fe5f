"""A study small enough to be made in a blink."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.tinystudies import STUDY

from reprise.lab import Study, StudyPlan
from reprise.runs import Store


@pytest.fixture
def tiny() -> Study:
    return STUDY


@pytest.fixture
def plan() -> StudyPlan:
    """One cell, two arms, five seeds: ten runs."""
    return StudyPlan(STUDY, seeds=2, error_seeds=5)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")
