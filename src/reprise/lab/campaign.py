"""The execution of a study: every run once, each record kept as soon as it is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from reprise.core.arguments import as_int
from reprise.core.files import read_json, write_json
from reprise.core.workers import Pool
from reprise.lab.audits import AuditRun
from reprise.lab.records import Damaged, Record, check, execute, identity
from reprise.lab.study import Study

_FEW = 8  # runs that are over before other processes have started


class StudyFailed(RuntimeError):
    """A run of a study could not be made."""


@dataclass(frozen=True)
class Campaign:
    """A study, how many seeds it takes, and the folder its records are in.

    Figures are means over seeds 0 … seeds − 1; their standard deviation is that of seeds 0 … error_seeds − 1.
    """

    study: Study
    folder: Path
    seeds: int = 10
    error_seeds: int = 40
    small: bool = False

    def __post_init__(self) -> None:
        as_int(self.seeds, "seeds", 1)
        as_int(self.error_seeds, "error seeds", 2)

    @classmethod
    def in_folder(
        cls, study: Study, out: Path, *, seeds: int | None = None, error_seeds: int | None = None, small: bool = False
    ) -> Campaign:
        """The campaign of a study under `out`; the small form has fewer seeds, and a folder of its own."""
        few, many = (3, 8) if small else (10, 40)
        folder = out / (f"{study.name}-small" if small else study.name)
        return cls(study, folder, few if seeds is None else seeds, many if error_seeds is None else error_seeds, small)

    @property
    def runs(self) -> list[AuditRun]:
        return self.study.runs(max(self.seeds, self.error_seeds), small=self.small)

    @property
    def file(self) -> Path:
        """All records of the finished campaign."""
        return self.folder / "records.json"

    def record_file(self, run: AuditRun) -> Path:
        return self.folder / "runs" / f"{identity(run)}.json"

    def run(
        self,
        *,
        jobs: int | None = None,
        progress: Callable[[int], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> list[Record]:
        """Make every run that has no record yet, and return all records in the order of `runs`.

        Each record is written as soon as its run is done, so that a killed campaign goes on where it stopped. A
        damaged record is named to `warn`, and its run is made again. `progress` is called with the number of
        runs done. If runs fail, the others are still made; then the failure is raised.
        """
        jobs = as_int(os.cpu_count() or 1 if jobs is None else jobs, "jobs", 1)
        self._make_folder()
        runs = self.runs
        records = {run: record for run in runs if (record := self._kept(run, warn)) is not None}
        missing = [run for run in runs if run not in records]
        failures: list[tuple[AuditRun, Exception]] = []
        with closing(_make(missing, jobs)) as ended:
            for run, made in ended:
                if isinstance(made, Exception):
                    failures.append((run, made))
                    continue
                _keep(self.record_file(run), made)
                records[run] = made
                if progress is not None:
                    progress(len(records))
        if failures:
            run, error = failures[0]
            raise StudyFailed(
                f"{len(failures)} of {len(runs)} runs of study {self.study.name!r} failed; the first, {run.retrieval} "
                f"on {run.name} with seed {run.seed}: {error or type(error).__name__}. The others are kept"
            ) from error
        found = [records[run] for run in runs]
        _keep(self.file, {**self._facts(), "records": found})
        return found

    @classmethod
    def load(cls, study: Study, out: Path, *, small: bool = False) -> tuple[Campaign, list[Record]]:
        """A finished campaign and its records."""
        empty = cls.in_folder(study, out, small=small)
        again = f"reprise study run {study.name}{' --small' if small else ''} --out {out}"
        try:
            content = read_json(empty.file)
            if content is not None:
                return empty._gathered(content)
        except (Damaged, KeyError, TypeError, ValueError) as damage:
            raise ValueError(f"{empty.file} is damaged: {damage}; `{again}` gathers it anew") from None
        raise ValueError(f"there is no {empty.file}, so the study is not finished: `{again}` makes or ends it")

    def _gathered(self, content: object) -> tuple[Campaign, list[Record]]:
        """The campaign that a file of records is of, and the records."""
        if not isinstance(content, dict):
            raise Damaged("it is not a JSON object")
        campaign = replace(self, seeds=content["seeds"], error_seeds=content["error_seeds"])
        records = content["records"]
        due = len(self.study.arms) * len(self.study.small if self.small else self.study.settings)
        if len(records) != due * max(campaign.seeds, campaign.error_seeds):
            raise Damaged(f"it has {len(records)} records, not those of every run")
        return campaign, [check(record, run) for record, run in zip(records, campaign.runs, strict=True)]

    def _facts(self) -> dict[str, object]:
        return {
            "study": self.study.name,
            "small": self.small,
            "seeds": self.seeds,
            "error_seeds": self.error_seeds,
        }

    def _make_folder(self) -> None:
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{self.folder} cannot be made for the results: {error.strerror}") from None

    def _kept(self, run: AuditRun, warn: Callable[[str], None] | None) -> Record | None:
        path = self.record_file(run)
        try:
            record = read_json(path)
            return None if record is None else check(record, run)
        except Damaged as damage:
            if warn is not None:
                warn(f"The record {path} is damaged: {damage}. Its run is made again.")
            return None


def _keep(path: Path, value: object) -> None:
    try:
        write_json(path, value)
    except OSError as error:
        raise StudyFailed(f"{path} cannot be written: {error.strerror}") from None


def _make(runs: Sequence[AuditRun], jobs: int) -> Generator[tuple[AuditRun, Record | Exception], None, None]:
    """Every run with its record, or with what went wrong, in the order in which they end."""
    if jobs == 1 or len(runs) <= _FEW:
        for run in runs:
            yield run, _attempt(run)
        return
    with Pool[AuditRun](_executor, min(jobs, len(runs))) as pool:
        yield from pool.results(runs)


def _executor(_: int) -> Callable[[AuditRun, object], Record]:
    """In a process: makes one run after the other."""
    return lambda run, _: execute(run)


def _attempt(run: AuditRun) -> Record | Exception:
    try:
        return execute(run)
    except Exception as error:
        return error
