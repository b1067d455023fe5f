"""`reprise demo`: two schedules trained side by side, and a page that compares them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from reprise.cli.errors import WrongRequest, work
from reprise.cli.output import check_output, write_output
from reprise.cli.progress import Heartbeat, Pace, beating, progress_bar, say
from reprise.core.extras import not_installed
from reprise.core.files import sole_use
from reprise.core.workers import Pool

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.report.demo_result import Outcome
    from reprise.train import Images, Run, StepResult, TrainRun
    from reprise.train.run import Fingerprints

BASE, ARM = "iid", "rpr"
SETTING: dict[str, Any] = {
    "dataset": "glyphs",
    "learner": "er-ace",
    "width": 8,
    "per_class": 100,
    "test_per_class": 10,
    "batch": 16,
    "buffer": 500,
    "replay": 4,  # of 100 classes: few come back in a step, so that it matters which
    "augment": "none",  # every glyph is drawn in a place and shape of its own already
}
NEEDED = {
    "torch": "train",
    "safetensors": "train",
    "matplotlib": "plot",
    "jinja2": "plot",
    "scipy": "stats",
}  # and the extra of each
MOST_WORKERS = 8  # each holds the images and a torch of its own
TELL_EVERY = 0.5  # seconds between two words of a process


@dataclass(frozen=True)
class Demo:
    """Train the same network under two schedules, pair by pair, and draw a page that compares them.

    Images are drawn here, nothing is downloaded. On two cores it takes under five minutes. Every run is kept in the
    folder, so that a demo that was stopped goes on where it stood.

    Example: reprise demo --out demo
    """

    out: Annotated[str, arg(metavar="DIR")] = "demo"
    """Folder for the page, the pictures and the runs; it is made if it is not there."""
    seeds: Annotated[int, arg(metavar="N")] = 6
    """Pairs of runs; two or more, so that there is an interval."""

    def run(self) -> int:
        folder = self._folder()
        with sole_use(folder):
            return self._run(folder)

    def _run(self, folder: Path) -> int:
        started, made = time.perf_counter(), 0
        records: dict[TrainRun, Record] = {}
        with work():
            runs = self._runs()
            images = _draw_images(runs[0])
            print(f"{len(runs)} runs on {SETTING['dataset']}: {BASE} and {ARM}, {self.seeds} seeds each.", flush=True)
            with closing(_train_all(runs, images, folder / "runs")) as ended:
                for run, record, fresh in ended:
                    records[run] = record
                    made += fresh
                    print(f"[{len(records):2}/{len(runs)}] {_line(run, record, fresh=fresh)}", flush=True)
            outcome = _outcome({run: records[run] for run in runs})
            seconds = time.perf_counter() - started if made == len(runs) else None
            page, picture = self._draw(outcome, seconds)
        write_output(str(folder / "demo.html"), page.encode())
        write_output(str(folder / "demo.png"), picture)
        print()
        for sentence in outcome.sentences:
            print(sentence)
        print(f"\nOpen this page in a browser: {(folder / 'demo.html').resolve()}")
        return 0

    def _folder(self) -> Path:
        """The folder, made; all that can be wrong with the request is found here."""
        if self.seeds < 2:
            raise WrongRequest(f"--seeds must be 2 or more, got {self.seeds}: an interval needs two pairs")
        for module, extra in NEEDED.items():
            if find_spec(module) is None:
                raise WrongRequest(not_installed(f"demo needs {module}", extra))
        folder = Path(self.out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongRequest(f"--out: cannot make the folder {self.out!r}: {error.strerror}") from error
        check_output(str(folder / "demo.html"), "--out")
        return folder

    def _runs(self) -> list[TrainRun]:
        from reprise.train import TrainRun

        # Pair after pair, so that whatever is there when a demo is stopped can be compared.
        return [TrainRun(**SETTING, retrieval=name, seed=seed) for seed in range(self.seeds) for name in (BASE, ARM)]

    def _draw(self, outcome: Outcome, seconds: float | None) -> tuple[str, bytes]:
        from reprise import __version__
        from reprise.report.demo_page import page, picture

        command = shlex.join(["reprise", "demo", "--out", self.out, "--seeds", str(self.seeds)])
        return page(outcome, command, __version__, seconds), picture(outcome)


def _draw_images(run: TrainRun) -> Images:
    """Draw the images before the runs need them: they are kept, so this takes seconds the first time only."""
    from reprise.data import find_dataset, load
    from reprise.train import Images

    source = find_dataset(SETTING["dataset"])
    for split, count in (("train", source.train), ("test", source.test)):
        with progress_bar(count or 1, f"Drawing images, {split}") as show:
            load(source.name, split=split, progress=partial(_pass_on, show))
    return Images.load(run)


def _pass_on(show: Callable[[int], None], done: int, _: int) -> None:
    show(done)


def _train_all(
    runs: list[TrainRun], images: Images, folder: Path
) -> Generator[tuple[TrainRun, Record, bool], None, None]:
    """Every run with its record as it is done, and whether it was made now; a process for each core, a thread each."""
    from reprise.train import train

    data = images.fingerprints(runs[0])
    places = {run: _place(folder, run, data) for run in runs}
    known = [run for run in runs if (places[run] / "record.json").exists()]
    for run in known:
        yield run, train(run, images, out=places[run]), False
    missing = [run for run in runs if run not in known]
    if not missing:
        return
    standing = _Standing(len(runs), len(known))
    heart = Heartbeat(lambda: standing.line, say)
    try:
        pool: Pool[TrainRun] = Pool(
            partial(_trainer, folder, data), min(os.cpu_count() or 1, len(missing), MOST_WORKERS)
        )
        with beating(heart), pool:
            for run, found in pool.results(missing, standing.hear):
                if isinstance(found, Exception):
                    raise found
                standing.done += 1
                heart.rest()
                yield run, found, True
    except BaseException:
        for run in missing:
            _clear_up(places[run])
        raise


def _clear_up(folder: Path) -> None:
    """Remove what a process that was stopped left half written, unless somebody else is at work there."""
    from reprise.train.training import sweep

    if folder.is_dir():
        with suppress(ValueError), sole_use(folder):
            sweep(folder)


class _Standing:
    """How far all runs are, from what processes tell of theirs."""

    def __init__(self, runs: int, done: int) -> None:
        self.runs, self.done = runs, done
        self.steps: dict[str, int] = {}
        self.pace: Pace | None = None

    def hear(self, word: tuple[str, int, int]) -> None:
        """A run is at this step, of so many."""
        name, step, steps = word
        self.steps[name] = step
        if self.pace is None:
            self.pace = Pace(steps * (self.runs - self.done))  # those that had their record are not told of
        self.pace.reach(sum(self.steps.values()))

    @property
    def line(self) -> str:
        steps = "" if self.pace is None else f", steps {self.pace.line}"
        return f"{self.done} of {self.runs} runs{steps}"


def _place(folder: Path, run: TrainRun, data: Fingerprints) -> Path:
    """A run's folder; its name holds the identity, so that other settings and images never meet these records."""
    return folder / f"{run.retrieval}-{run.seed}-{run.identity(data)[:8]}"


def _trainer(folder: Path, data: Fingerprints, _: int) -> Callable[[TrainRun, Callable[[object], None]], Record]:
    """In a process: trains one run after the other, with one thread."""
    import torch

    from reprise.train import train

    torch.set_num_threads(1)

    def task(run: TrainRun, tell: Callable[[object], None]) -> Record:
        place, told = _place(folder, run, data), time.monotonic()

        def watch(now: Run, trained: StepResult) -> None:
            nonlocal told
            if trained.step == now.steps or time.monotonic() - told > TELL_EVERY:
                tell((str(place), trained.step, now.steps))
                told = time.monotonic()

        return train(run, out=place, resume=True, watch=watch)

    return task


def _line(run: TrainRun, record: Record, *, fresh: bool) -> str:
    from reprise.report.demo_result import FIRST

    final = record["metrics"][FIRST]["final"]
    how = f"{record['timings']['train']:.0f} s" if fresh else "kept from before"
    return f"{run.retrieval}, seed {run.seed}: {final:.1%} of test images named ({how})"


def _outcome(records: dict[TrainRun, Record]) -> Outcome:
    from reprise.lab.run_group import RunGroup
    from reprise.report.demo_result import Outcome

    def arm(name: str) -> RunGroup:
        return RunGroup(name, {run.seed: record for run, record in records.items() if run.retrieval == name})

    return Outcome(arm(BASE), arm(ARM))
