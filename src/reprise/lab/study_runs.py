"""The records of a study, by cell, arm and seed. Runs tested on test images and on validation images are two types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from reprise.core.files import Record
from reprise.lab.run_group import RunGroup
from reprise.lab.study import Cell, Key, Study, figure_of


class StudyRuns:
    """Records of a study. Either `TestRuns` or `ValidationRuns`; only the first are set beside the paper's figures."""

    split: ClassVar[str] = ""

    def __init__(self, study: Study, small: bool, seeds: int, records: Mapping[Key, Record]) -> None:
        self.study, self.small, self.seeds = study, small, seeds
        self.cells, self.arms = study.form_cells(small=small), study.form_arms(small=small)
        keys = study.keys(seeds, small=small)
        self.records = {key: self._checked(key, records[key]) for key in keys if key in records}
        self.missing = [key for key in keys if key not in records]

    def _checked(self, key: Key, record: Record) -> Record:
        if record["split"] not in (None, self.split):
            raise ValueError(
                f"the run of {key[1]} in {key[0]} with seed {key[2]} was tested on {record['split']} images; "
                f"here are runs tested on {self.split} images only"
            )
        return record

    def values(self, cell: str, arm: str, key: str) -> dict[int, float | None]:
        """A figure of every run of an arm in a cell, by seed; of `iid/rpr` the ratio of two arms."""
        if "/" in arm:
            above, below = (self.values(cell, name, key) for name in arm.split("/"))
            both = {seed: (above[seed], below[seed]) for seed in above if seed in below}
            return {seed: a / b if a is not None and b else None for seed, (a, b) in both.items()}
        return {seed: figure_of(record, key) for seed, record in self.group(cell, arm).records.items()}

    def group(self, cell: str, arm: str) -> RunGroup:
        """The runs of an arm in a cell."""
        return self.groups[cell, arm]

    @cached_property
    def groups(self) -> dict[tuple[str, str], RunGroup]:
        """The runs of every arm in every cell, those that are there."""
        found: dict[tuple[str, str], dict[int, Record]] = {
            (cell.name, arm): {} for cell in self.cells for arm in self.arms
        }
        for (cell, arm, seed), record in self.records.items():
            found[cell, arm][seed] = record
        return {(cell, arm): RunGroup(arm, records) for (cell, arm), records in found.items()}

    def cell(self, name: str) -> Cell:
        """The cell of this name."""
        return next(cell for cell in self.cells if cell.name == name)

    def provenance(self, key: str) -> list[str]:
        """All that the records say of how they were made under this key, sorted."""
        return sorted(
            {str(record["provenance"][key]) for record in self.records.values() if key in record["provenance"]}
        )


class TestRuns(StudyRuns):
    """Runs tested on test images, and audits, which are tested on none."""

    __test__ = False  # it is none of pytest's
    split = "test"


class ValidationRuns(StudyRuns):
    """Runs tested on images held out of training, to choose by. They are never compared with runs tested otherwise."""

    split = "validation"


def study_runs(study: Study, small: bool, seeds: int, records: Mapping[Key, Record]) -> TestRuns | ValidationRuns:
    """The records of a study as the type that its split asks for."""
    return (ValidationRuns if study.split == "validation" else TestRuns)(study, small, seeds, records)
