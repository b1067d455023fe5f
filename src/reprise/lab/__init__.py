"""Many runs: campaigns over a store, studies, statistics."""

from reprise.lab.campaign import Progress, campaign, run_all
from reprise.lab.study import Cell, Column, Study, TheoryFigure
from reprise.lab.study_plan import StudyFailed, StudyPlan

__all__ = ["Cell", "Column", "Progress", "Study", "StudyFailed", "StudyPlan", "TheoryFigure", "campaign", "run_all"]
