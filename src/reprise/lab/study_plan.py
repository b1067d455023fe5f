"""A study to be made: how many seeds it takes, in which form, and its runs in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reprise.core.arguments import as_int
from reprise.core.files import Damaged, Record, read_json, write_json
from reprise.execute import Executor
from reprise.execute.one import ImageSource
from reprise.lab.campaign import Watch, campaign
from reprise.lab.study import Study
from reprise.runs.images import fingerprints
from reprise.runs.run import Run
from reprise.runs.store import Store


class StudyFailed(RuntimeError):
    """A run of a study could not be made."""


@dataclass(frozen=True)
class StudyPlan:
    """A study and how many seeds it takes.

    Figures are means over seeds 0 … seeds − 1; their standard deviation is that of seeds 0 … error_seeds − 1.
    """

    study: Study
    seeds: int = 10
    error_seeds: int = 40
    small: bool = False

    def __post_init__(self) -> None:
        as_int(self.seeds, "seeds", 1)
        as_int(self.error_seeds, "error seeds", 2)

    @classmethod
    def of(
        cls, study: Study, *, seeds: int | None = None, error_seeds: int | None = None, small: bool = False
    ) -> StudyPlan:
        """A study as it is usually made; the small form has fewer seeds, and so has one that trains."""
        few, many = (3, 8) if small else (10, 40)
        many = few if study.trains else many  # an audit costs little
        return cls(study, few if seeds is None else seeds, many if error_seeds is None else error_seeds, small)

    @property
    def name(self) -> str:
        return f"{self.study.name}-small" if self.small else self.study.name

    @property
    def count(self) -> int:
        return self.study.count(max(self.seeds, self.error_seeds), small=self.small)

    @property
    def runs(self) -> list[Run]:
        return self.study.runs(max(self.seeds, self.error_seeds), small=self.small)

    def execute(
        self,
        store: Store,
        executor: Executor,
        *,
        images: ImageSource | None = None,
        watch: Watch | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> list[Record]:
        """Make every run that has no record yet, and return all records in the order of `runs`.

        If runs fail, the others are still made; then the failure is raised.
        """
        runs = self.runs
        ended = {one.run: one for one in campaign(runs, executor, store, images=images, watch=watch, warn=warn)}
        if failed := [one for one in ended.values() if one.error is not None]:
            error = failed[0].error
            raise StudyFailed(
                f"{len(failed)} of {len(runs)} runs of study {self.study.name!r} failed; the first, {failed[0].name}: "
                f"{error or type(error).__name__}. The others are kept"
            ) from error
        write_json(self._facts(store), {"seeds": self.seeds, "error_seeds": self.error_seeds})
        return [record for run in runs if (record := ended[run].record) is not None]

    def load(self, store: Store, images: ImageSource | None = None) -> tuple[StudyPlan, list[Record]]:
        """The study as it was last made into a store, and its records; an error if some are not there."""
        again = f"`reprise study run {self.study.name}{' --small' if self.small else ''} --out {store.folder}`"
        try:
            facts = read_json(self._facts(store))
            plan = self if facts is None else StudyPlan(self.study, small=self.small, **facts)  # type: ignore[arg-type]
        except (Damaged, TypeError, ValueError) as damage:
            raise ValueError(f"{self._facts(store)} is damaged: {damage}; {again} writes it anew") from None
        if facts is None:
            raise ValueError(f"{str(store.folder)!r} does not hold the study {self.name!r}: {again} makes or ends it")
        records = list(plan._records(store, images or ImageSource()))
        if (lacking := len(plan.runs) - len(records)) > 0:
            raise ValueError(
                f"{lacking} of {len(plan.runs)} records of the study {self.name!r} are not in {str(store.folder)!r}, "
                f"or are damaged: {again} makes them"
            )
        return plan, records

    def _records(self, store: Store, images: ImageSource) -> Iterator[Record]:
        known: dict[object, dict[str, str]] = {}
        for run in self.runs:
            if run.data not in known:
                known[run.data] = fingerprints(run, images(run) if run.trains else None)
            if (record := store.get(run.identity(known[run.data]))) is not None:
                yield record

    def _facts(self, store: Store) -> Path:
        return store.folder / f"{self.name}.json"
