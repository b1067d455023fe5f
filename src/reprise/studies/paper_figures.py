"""The paper's figures, with the digits it prints."""

from __future__ import annotations

import csv
from importlib.resources import files

from reprise.lab.study import Study

Printed = dict[tuple[str, str, str], str]


def paper_figures(study: Study) -> Printed:
    """What the paper prints for a study, by setting, arm and key. What it does not print is not there.

    Figures stay text, because the number of digits says how they were rounded.
    """
    table = files("reprise.studies") / "paper" / f"{study.name}.csv"
    printed: Printed = {}
    if not table.is_file():
        return printed  # a study of our own
    for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
        setting, arm = row.pop("setting"), row.pop("retrieval")
        printed.update({(setting, arm, key): figure for key, figure in row.items() if figure})
    return printed
