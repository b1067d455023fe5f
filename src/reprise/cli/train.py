"""`reprise train`: runs from the command line, one or many, each with a record at its end."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from reprise.cli.devices import joined
from reprise.cli.errors import RunFailed, WrongRequest, request
from reprise.cli.options import (
    check_counts,
    choices,
    combinations,
    given_settings,
    read_seeds,
    read_time,
    run_options,
)
from reprise.cli.output import check_output, write_output
from reprise.core.arguments import as_int
from reprise.core.extras import not_installed
from reprise.runs.config import expand, from_file
from reprise.runs.run import SECTIONS

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.execute import RunOutcome
    from reprise.execute.one import ImageSource
    from reprise.runs import Run, Store
    from reprise.runs.settings import NetworkSettings
    from reprise.track import Tracking

_MASK = (
    "Short for the hyper-parameter mask of er-ace and der++-ace: which classes the incoming batch competes with: "
    "present_and_unseen, present, reference_max, none. (default: the learner's)"
)
_TRACK = (
    "Log loss, accuracy and waits of a run while it trains, to these trackers, several separated by commas. Files go "
    "to tracks/<identity> in the store, with csv:DIR or tensorboard:DIR to DIR/<identity>; wandb:PROJECT names a "
    "project."
)
_Settings: Any = run_options("RunOptions", SECTIONS, leave_out=["draws"])


@dataclass(frozen=True, kw_only=True)
class TrainOptions(_Settings):  # type: ignore[misc]
    """The settings of runs that train."""

    mask: Annotated[str | None, arg(metavar="RULE", help=_MASK, constructor=str, help_behavior_hint="")] = None
    seed: Annotated[int | None, arg(metavar="SEED", constructor=int, help_behavior_hint="(default: 0)")] = None
    """Decides every random choice of a run."""
    seeds: Annotated[str | None, arg(metavar="RANGES", constructor=str, help_behavior_hint="")] = None
    """Several seeds: how many, or which, as 0-9 or 0,2,5-7."""
    config: Annotated[Path | None, arg(metavar="FILE", constructor=Path, help_behavior_hint="")] = None
    """Read settings from a file (.toml or .json), as reprise config prints them; options beside it override it."""

    def runs(self) -> list[Run]:
        """Every run that was asked for, checked: each combination of the values given."""
        if find_spec("torch") is None:
            raise WrongRequest(not_installed("training needs torch", "train"))
        with request():
            settings = given_settings(self)
            if self.mask is not None:
                settings["hyper"] = self._masked(settings)
            seeds = self._seeds()
            if self.config is None:
                return list(dict.fromkeys(combinations(settings, seeds or [0])))
            description = {"learner": {}, **from_file(self.config), **({"seed": seeds} if seeds else {})}
            runs = expand(description)
            return list(dict.fromkeys(_changed(run, chosen) for chosen in choices(settings) for run in runs))

    def _seeds(self) -> list[int]:
        if self.seed is not None and self.seeds is not None:
            raise ValueError("--seed and --seeds say the same thing: give one of the two")
        if self.seeds is not None:
            return read_seeds(self.seeds)
        return [] if self.seed is None else [self.seed]

    def _masked(self, settings: dict[str, Any]) -> dict[str, Any]:
        from reprise.learners import LEARNERS, find_learner, hyperparameters
        from reprise.learners.losses import check_mask

        learners = settings.get("learner", "er-ace")
        masked = [name for name in LEARNERS if "mask" in hyperparameters(name)]
        for learner in learners if isinstance(learners, list) else [learners]:
            find_learner(learner)
            if learner not in masked:
                raise ValueError(f"--mask: learner {learner!r} has no mask; these have one: {', '.join(masked)}")
        hyper = dict(settings.get("hyper", {}))
        if hyper.setdefault("mask", check_mask(str(self.mask))) != self.mask:
            raise ValueError(f"--mask {self.mask} and --hyper mask={hyper['mask']} contradict each other")
        return hyper


@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions):
    """Train a learner on a stream under a replay schedule, and keep a record of the run; or many runs, side by side.

    Where an option takes several values separated by commas, every combination is trained: on a GPU as many at once as
    pay, elsewhere in a process for each core. What is in the store is not trained again; what was stopped goes on, to
    the very same record, when the same command is given.

    Example, without any download: reprise train --dataset glyphs --width 8 --retrieval rpr --out runs

    Example, twenty runs: reprise train --dataset glyphs --width 8 --retrieval iid,rpr --seeds 0-9 --out runs

    Example, the paper's: reprise train --dataset cifar100 --data data --imbalance 10 --learner er-ace --retrieval rpr
    --buffer 5120 --replay 8 --seeds 0-9 --precision bf16 --out runs

    Example, one run on two devices: torchrun --nproc-per-node 2 -m reprise train --dataset cifar100 --data data
    --out runs

    Example, with a learner of your own: reprise train --import mine.py --learner mine --out runs
    """

    data: Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")] = None
    """Folder that holds the data sets; glyphs and a folder of images need none."""
    out: Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")] = None
    """The store: folder for records, tapes, weights, and checkpoints on the way."""
    device: Annotated[
        str | None, arg(metavar="cpu|cuda", constructor=str, help_behavior_hint="(default: cuda if there is one)")
    ] = None
    """Where to train; several GPUs as cuda:0,cuda:1."""
    jobs: Annotated[int | None, arg(metavar="N", constructor=int, help_behavior_hint="(default: as many as pay)")] = (
        None
    )
    """Processes to work with, where there are several runs."""
    lanes: Annotated[int | None, arg(metavar="N", constructor=int, help_behavior_hint="(default: as many as pay)")] = (
        None
    )
    """Runs at once on a GPU."""
    time_limit: Annotated[str | None, arg(metavar="TIME", constructor=str, help_behavior_hint="")] = None
    """As 540, 90s, 15m or 1h30m: of several runs, begin none that would not end within this time, as far as those
    before it tell; with 0, none."""
    checkpoint_every: Annotated[int, arg(metavar="STEPS")] = 0
    """Keep a checkpoint also every so many steps, not at task boundaries alone; 0 for never."""
    track: Annotated[
        str | None, arg(metavar="csv|tensorboard|wandb", constructor=str, help=_TRACK, help_behavior_hint="")
    ] = None
    track_every: Annotated[int, arg(metavar="STEPS")] = 10
    """Log values every so many steps, beside those at tests."""
    json: Annotated[str | None, arg(metavar="FILE|-", constructor=str, help_behavior_hint="")] = None
    """Write the settings and all figures to this file as JSON; - prints them instead of the table."""

    def run(self) -> int:
        runs = self.runs()
        self._check(runs)
        from reprise.execute.one import ImageSource

        images, store = ImageSource(None, self.data), self._store()
        with joined(self.device, len(runs)) as (device, first):
            if len(runs) == 1 and "," in device:
                raise WrongRequest(f"--device {device}: one run trains on one device; torchrun shares it among several")
            if first and store is None:
                print("nothing of this is kept but what is printed: --out DIR keeps it", file=sys.stderr)
            records = self._train(runs, images, store, device, first)
            if first:
                self._report(records)
        return 0 if len(records) == len(runs) or not first else 1

    def _train(
        self, runs: list[Run], images: ImageSource, store: Store | None, device: str, first: bool
    ) -> list[Record]:
        from reprise.cli import training

        chosen: dict[str, Any] = {"store": store, "checkpoint_every": self.checkpoint_every, "track": self._tracking()}
        try:
            if not first or "RANK" in os.environ:
                found = training.shared(runs[0], images(runs[0]), device, **chosen)
                return [] if found is None else [found]
            if len(runs) == 1:
                return [training.one(runs[0], images, device, **chosen)]
            limit = None if self.time_limit is None else read_time(self.time_limit, "--time-limit")
            return training.many(runs, images, device, jobs=self.jobs, lanes=self.lanes, time_limit=limit, **chosen)
        except KeyboardInterrupt:
            if first and store is not None:
                print("the same command goes on from the last checkpoint, if there is one", file=sys.stderr)
            raise

    def _check(self, runs: Sequence[Run]) -> None:
        """What can be known to be wrong before any image is read."""
        from reprise.cli.checks import check_data

        with request():
            as_int(self.checkpoint_every, "--checkpoint-every", 0)
            self._tracking().make()
            if self.time_limit is not None:
                read_time(self.time_limit, "--time-limit")
                if len(runs) == 1:
                    raise ValueError("--time-limit is for several runs: one that is begun is ended")
            check_counts(jobs=self.jobs, lanes=self.lanes)
            for run in {run.data: run for run in runs}.values():
                check_data(run, self.data)
        for network in dict.fromkeys(run.network for run in runs if run.network is not None):
            _check_packages(network)
        if self.json is not None and self.json != "-":
            check_output(self.json, "--json")
        if self.checkpoint_every and self.out is None:
            raise WrongRequest("--checkpoint-every needs --out DIR, the folder of the checkpoints")

    def _tracking(self) -> Tracking:
        """Who is told of the runs."""
        from reprise.track import Tracking

        specs = [] if self.track is None else [spec.strip() for spec in self.track.split(",")]
        if not all(specs):
            raise ValueError(f"--track takes names separated by single commas, got {self.track!r}")
        as_int(self.track_every, "--track-every", 1)
        folder = Path("tracks") if self.out is None else self.out / "tracks"
        return Tracking(tuple(dict.fromkeys(specs)), self.track_every, folder)

    def _store(self) -> Store | None:
        if self.out is None:
            return None
        from reprise.runs.store import Store

        if self.out.exists() and not self.out.is_dir():
            raise WrongRequest(f"--out: {str(self.out)!r} is a file; name a folder")
        if (self.out / "record.json").exists():
            raise WrongRequest(
                f"--out: {str(self.out)!r} holds a run of an older version of reprise; name another folder, which may "
                "then hold any number of runs"
            )
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongRequest(f"--out: cannot make the folder {str(self.out)!r}: {error.strerror}") from error
        check_output(str(self.out / "index.md"), "--out")
        if find_spec("safetensors") is None:
            raise WrongRequest(not_installed("--out needs safetensors", "train"))
        return Store(self.out)

    def _report(self, records: list[Record]) -> None:
        if self.json is not None:
            text = jsonlib.dumps([as_json(record) for record in records], indent=1, allow_nan=False) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
                return
            write_output(self.json, text.encode())
        from rich.console import Console
        from rich.text import Text as Words

        from reprise.cli.display import results, several

        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
        console = Console(width=wide, highlight=False)
        if records:
            console.print(results(records[0]) if len(records) == 1 else several(records))
        record = None if self.out is None or not records else self.out / "records" / f"{records[0]['identity']}.json"
        alone = len(records) == 1 and record is not None and record.is_file()  # and not one of many in a packed file
        kept = ("Record", record) if alone else ("Store", self.out)
        log = None if self.track is None else self._tracking().folder
        if log is not None and len(records) == 1:
            log /= records[0]["identity"]
        for what, path in (("Figures", self.json), ("Log", log if log and log.is_dir() else None), kept):
            if path is not None:
                console.print(Words(f"{what}: {path}", style="dim"), soft_wrap=True)


def _changed(run: Run, settings: dict[str, Any]) -> Run:
    """A run of a file with the options given beside it; hyper-parameters that are not among them stay."""
    assert run.learner is not None
    if "hyper" in settings and settings.get("learner", run.learner.name) == run.learner.name:
        settings = {**settings, "hyper": {**run.learner.hyper, **settings["hyper"]}}
    return run.replace(**settings)


def _check_packages(network: NetworkSettings) -> None:
    from reprise.nets import lacking

    for option, pretrained in (("--backbone", False), ("--pretrained", network.pretrained)):
        if why := lacking(network.name, pretrained):
            raise WrongRequest(f"{option}: {why}")


def as_json(record: Record) -> dict[str, Any]:
    """A run as other commands report theirs: what it was, the audit's figures, and the metrics of both read-outs."""
    from reprise.audit import KEYS

    run = record["run"]
    figures = {key: record["audit"][key] for key in KEYS}
    found = {**figures, "prequential": record["prequential"]["accuracy"], "metrics": record["metrics"]}
    return {
        "stream": record["stream"]["name"],
        **{name: run["memory"][name] for name in ("storage", "retrieval", "buffer", "replay")},
        "seeds": 1,
        "learner": run["learner"]["name"],
        "split": record["split"],
        "run": run,
        **found,
        "per_seed": [{"seed": run["seed"], "identity": record["identity"], "tape": record["tape"], **found}],
    }


def failure(outcome: RunOutcome, device: str) -> Exception:
    """What went wrong with a run, as an error with a sentence."""
    import torch

    error = outcome.error
    assert error is not None
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        where = "this machine" if isinstance(error, MemoryError) else device
        return RunFailed(f"the run failed: the memory of {where} does not suffice; try a smaller --width")
    return error
