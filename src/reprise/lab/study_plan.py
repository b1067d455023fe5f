"""A study to be made: how many seeds it takes, in which form, and its runs in a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from reprise.core.arguments import as_int
from reprise.core.errors import reason
from reprise.core.files import Record
from reprise.execute import Executor, RunOutcome
from reprise.execute.one import ImageSource
from reprise.lab.campaign import campaign, identify
from reprise.lab.campaign_file import CampaignFile, command, first_difference, read_campaign
from reprise.lab.part import part_of
from reprise.lab.progress import Watch
from reprise.lab.study import Key, Study
from reprise.lab.study_runs import StudyRuns, study_runs
from reprise.runs.record import BULKY, now
from reprise.runs.run import Run
from reprise.runs.store import Store, collection_paused
from reprise.streams.datasets import needs_folder
from reprise.track import Tracking

RETRIES = 1
"""How often a run that failed is made again before it is listed as failed."""


CURVE_SEEDS = 10
"""Seeds whose learning curves are read from a store."""


class StudyFailed(RuntimeError):
    """A run of a study could not be made, or not within the time limit."""


@dataclass(frozen=True)
class StudyPlan:
    """A study and how many seeds it takes.

    Figures are means over seeds 0 … seeds − 1; their standard deviation is that of seeds 0 … error_seeds − 1.
    """

    study: Study
    seeds: int = 10
    error_seeds: int = 40
    small: bool = False
    source: str = ""
    """The file that declares the study, if it is none of this library's."""
    only: str = ""
    """Which part of a study this is; empty if it is the whole."""

    def __post_init__(self) -> None:
        as_int(self.seeds, "seeds", 1)
        as_int(self.error_seeds, "error seeds", 1 if self.study.trains else 2)  # one seed has no deviation

    @classmethod
    def of(
        cls,
        study: Study,
        *,
        seeds: int | None = None,
        error_seeds: int | None = None,
        small: bool = False,
        source: str = "",
        only: str = "",
    ) -> StudyPlan:
        """A study as it is usually made; the small form has fewer seeds, and so has one that trains.

        `only` names a part of it, as `dataset=cifar100,retrieval=iid,retrieval=rpr`: see `reprise.lab.part_of`.
        """
        study = part_of(study, only, small=small)
        few = seeds if seeds is not None else 3 if small else study.seeds
        many = few if study.trains else 8 if small else 40  # an audit costs little
        return cls(study, few, many if error_seeds is None else error_seeds, small, source, only)

    @property
    def name(self) -> str:
        return f"{self.study.name}-small" if self.small else self.study.name

    @property
    def all_seeds(self) -> int:
        """How many seeds every cell and arm is run with."""
        return max(self.seeds, self.error_seeds)

    @property
    def count(self) -> int:
        return self.study.count(self.all_seeds, small=self.small)

    @property
    def keys(self) -> list[Key]:
        return self.study.keys(self.all_seeds, small=self.small)

    @property
    def runs(self) -> list[Run]:
        return self.study.runs(self.all_seeds, small=self.small)

    def execute(
        self,
        store: Store,
        executor: Executor,
        *,
        images: ImageSource | None = None,
        time_limit: float | None = None,
        watch: Watch | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> StudyRuns:
        """Make every run that has no record yet, and return all records.

        A run that fails is made once more; if it fails again the others are still made, and then it is an error. So are
        runs that were not begun for the `time_limit`, which is that of `reprise.lab.campaign`.
        """
        found = execute_plans([self], store, executor, images=images, time_limit=time_limit, watch=watch, warn=warn)
        return found.runs(self)

    def campaign_file(self, identities: Mapping[Run, str]) -> CampaignFile:
        """The study as it is asked for now, for the store."""
        runs = tuple(zip(self.keys, (identities.get(run, "") for run in self.runs), strict=True))
        return CampaignFile(
            *(self.name, self.study.name, self.small, self.seeds, self.error_seeds, runs),
            command=command(),
            began=now(),
            source=self.source,
            only=self.only,
            needs_data=any(map(needs_folder, {run.data.name for run in self.runs if run.trains and run.data})),
        )

    def load(self, store: Store, *, partial: bool = False, warn: Callable[[str], None] | None = None) -> LoadedStudy:
        """The study as it was last made into a store; an error if some records are not there, unless `partial`."""
        plan, made = self._made(store)
        return plan._load(store, made, partial=partial, warn=warn)

    def _load(
        self, store: Store, made: CampaignFile, *, partial: bool, warn: Callable[[str], None] | None
    ) -> LoadedStudy:
        records: dict[Key, Record] = {}
        with collection_paused():
            for key, identity in made.runs:
                if (record := store.get(identity, warn, without=_not_needed(key))) is not None:
                    records[key] = record
        self._check_settings(store, made, records)
        if not partial and (lacking := len(made.runs) - len(records)):
            raise ValueError(
                f"{lacking} of {len(made.runs)} records of the study {self.name!r} are not in {str(store.folder)!r}, "
                f"or are damaged: `{made.again} --out {store.folder}` makes them; --partial reports the others"
            )
        return LoadedStudy(self, made, study_runs(self.study, self.small, self.all_seeds, records))

    def read(self, store: Store) -> CampaignFile:
        """What the store knows of this study; an error if it was not made there, or if it has changed since."""
        return self._made(store)[1]

    def _made(self, store: Store) -> tuple[StudyPlan, CampaignFile]:
        """The study as it was made into the store, which may be a part of it, and the campaign's file."""
        made = read_campaign(campaign_path(store, self.name))
        if made is None:
            again = f"{self._again(store)} makes or ends it"
            raise ValueError(f"{str(store.folder)!r} does not hold the study {self.name!r}: {again}")
        if self.only not in ("", made.only):
            raise ValueError(
                f"the campaign {self.name!r} of {str(store.folder)!r} is {_part(made.only)}, not {_part(self.only)}: "
                f"{self._again(store)} makes it"
            )
        try:
            study = self.study if self.only else part_of(self.study, made.only, small=self.small)
        except ValueError as error:  # its facts were others
            raise ValueError(self._changed(store, made, str(error))) from None
        plan = StudyPlan(study, made.seeds, made.error_seeds, self.small, made.source, made.only)
        if change := first_difference(plan.keys, [key for key, _ in made.runs]):
            raise ValueError(self._changed(store, made, change))
        return plan, made

    def _check_settings(self, store: Store, made: CampaignFile, records: Mapping[Key, Record]) -> None:
        """Refuse records of other settings than the cells have now; a cell's settings are the same for all seeds."""
        cells = {cell.name: cell for cell in self.study.form_cells(small=self.small)}
        first: dict[tuple[str, str], int] = {}
        for cell, arm, seed in records:
            first.setdefault((cell, arm), seed)
        for (cell, arm), seed in first.items():
            if not _is_of(records[cell, arm, seed], cells[cell].run(arm, seed)):
                raise ValueError(self._changed(store, made, f"{arm} in {cell} had other settings"))

    def _changed(self, store: Store, made: CampaignFile, change: str) -> str:
        return (
            f"the study {self.name!r} is not the one that was made into {str(store.folder)!r} with reprise "
            f"{made.reprise}: {change}. Nothing is lost: {self._again(store)} makes what is missing"
        )

    def _again(self, store: Store) -> str:
        small = " --small" if self.small else ""
        part = f" --only {quote(self.only)}" if self.only else ""
        return f"`reprise study run {self.source or self.study.name}{small}{part} --out {store.folder}`"


def _is_of(record: Record, run: Run) -> bool:
    """Whether a record is of this run; one that was written before a setting existed had its default."""
    try:
        return Run.from_dict(record["run"]) == run
    except (ValueError, TypeError):  # of settings that are no longer known
        return False


def _not_needed(key: Key) -> Sequence[str]:
    """Parts of a record that a report does without: maps show the first seed, learning curves the first few."""
    seed = key[2]
    return () if seed == 0 else ("curves", "pairs") if seed < CURVE_SEEDS else BULKY


@dataclass(frozen=True)
class LoadedStudy:
    """A study read from a store: how it was made, and its records."""

    plan: StudyPlan
    file: CampaignFile
    runs: StudyRuns


def _smaller_than_before(plan: StudyPlan, store: Store) -> str:
    """What the store's campaign of this study had that is not asked for now, in a sentence; empty if it is nothing."""
    try:
        made = read_campaign(campaign_path(store, plan.name))
    except ValueError:
        return ""  # it is written anew
    if made is None or not {key for key, _ in made.runs} - {*plan.keys}:
        return ""
    before = max(made.seeds, made.error_seeds)
    had, has = f"had {before} seeds", f"has {plan.all_seeds}"
    if made.only != plan.only:
        had, has = f"was {_part(made.only)}, {before} seeds", f"is {_part(plan.only)}, {plan.all_seeds} seeds"
    return (
        f"The campaign {plan.name!r} of {str(store.folder)!r} {had} and now {has}; reports will be of these. No record "
        "is lost."
    )


def _part(only: str) -> str:
    return f"the part {only}" if only else "the whole study"


def campaign_path(store: Store, name: str) -> Path:
    """The file of a campaign."""
    return store.folder / "campaigns" / f"{name}.json"


class Executed:
    """Studies whose runs have ended, but for those that the time limit left out."""

    def __init__(self, runs: Sequence[Run], outcomes: Mapping[Run, RunOutcome]) -> None:
        self.outcomes = outcomes
        self.left = [run for run in runs if run not in outcomes]
        """Runs that were not begun."""

    @property
    def made(self) -> int:
        """How many runs have a record."""
        return sum(outcome.record is not None for outcome in self.outcomes.values())

    @property
    def failed(self) -> list[RunOutcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.error is not None]

    def runs(self, plan: StudyPlan) -> StudyRuns:
        """The records of a study; an error if some of its runs failed, or are still to be made."""
        asked = list(dict.fromkeys(plan.runs))
        mine = [self.outcomes[run] for run in asked if run in self.outcomes]
        left = len(asked) - len(mine)
        if failed := [outcome for outcome in mine if outcome.error is not None]:
            error = failed[0].error
            assert error is not None
            rest = f", and {left} are still to be made" if left else ""
            raise StudyFailed(
                f"{len(failed)} of {len(asked)} runs of study {plan.study.name!r} failed{rest}; the first, "
                f"{failed[0].name}: {reason(error)}" + (". The others are kept" if len(failed) < len(mine) else "")
            ) from error
        if left:
            kept = ". The others are kept" if mine else ""
            raise StudyFailed(f"{left} of {len(asked)} runs of study {plan.study.name!r} are still to be made{kept}")
        records: dict[Key, Record] = {}
        for key, run in zip(plan.keys, plan.runs, strict=True):
            record = self.outcomes[run].record
            assert record is not None
            records[key] = record
        return study_runs(plan.study, plan.small, plan.all_seeds, records)


def execute_plans(
    plans: Sequence[StudyPlan],
    store: Store,
    executor: Executor,
    *,
    images: ImageSource | None = None,
    time_limit: float | None = None,
    track: Tracking | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] | None = None,
) -> Executed:
    """Make the runs of several studies, each once, however many of them ask for it; some may have failed.

    `time_limit` is that of `reprise.lab.campaign`.
    """
    images = images or ImageSource()
    runs = list(dict.fromkeys(run for plan in plans for run in plan.runs))
    runs.sort(key=lambda run: not run.trains)  # what takes long comes first, so that times left are not too short
    identified = identify(runs, images)
    known = {run: found for run, found in identified.items() if isinstance(found, str)}
    for plan in plans:
        if warn is not None and (sentence := _smaller_than_before(plan, store)):
            warn(sentence)
        file = plan.campaign_file(known)
        # A command that makes no run is not how a study was made.
        (replace(file, command=()) if time_limit == 0 else file).write(store)
    ended = campaign(
        *(runs, executor, store),
        images=images,
        identities=identified,
        retries=RETRIES,
        time_limit=time_limit,
        track=track,
        watch=watch,
        warn=warn,
    )
    return Executed(runs, {outcome.run: outcome for outcome in ended})
