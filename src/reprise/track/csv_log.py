"""A run's values as a table: `log.csv`, a row for each step that was logged, a column for each value."""

from __future__ import annotations

import csv
from typing import IO

from reprise.core.files import Record
from reprise.core.registry import register
from reprise.track.tracker import RunFacts, Tracker, Values


@register("tracker", "csv")
class CsvTracker(Tracker):
    """`csv:DIR` writes DIR/<identity>/log.csv. A cell is empty where a value was not taken."""

    _file: IO[str] | None = None

    def begin(self, facts: RunFacts) -> None:
        self._file = (self.folder(facts) / "log.csv").open("w", encoding="utf-8", newline="")
        self._rows = csv.DictWriter(self._file, ["step", *facts.names], lineterminator="\n")
        self._rows.writeheader()

    def log(self, step: int, values: Values) -> None:
        assert self._file is not None
        self._rows.writerow({"step": step, **values})
        self._file.flush()

    def end(self, record: Record | None, error: BaseException | None) -> None:
        if self._file is not None:
            self._file.close()
