"""Many runs: campaigns over a store, studies, statistics."""

from reprise.lab.campaign import campaign, run_all
from reprise.lab.contrast import Contrast, Term, across, difference, interaction
from reprise.lab.part import part_of
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.progress import Progress
from reprise.lab.study import Cell, Column, Study, TheoryFigure
from reprise.lab.study_plan import StudyFailed, StudyPlan, execute_plans

__all__ = [
    "Cell",
    "Column",
    "Contrast",
    "Printed",
    "PrintedContrast",
    "Progress",
    "Study",
    "StudyFailed",
    "StudyPlan",
    "Term",
    "TheoryFigure",
    "across",
    "campaign",
    "difference",
    "execute_plans",
    "interaction",
    "part_of",
    "run_all",
]
