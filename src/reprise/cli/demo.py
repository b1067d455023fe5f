"""`reprise demo`: two schedules trained side by side, and a page that compares them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from reprise.cli.errors import RunFailed, WrongRequest, work
from reprise.cli.fleet_display import fleet_lines
from reprise.cli.output import check_output, write_output
from reprise.cli.progress import progress_bar
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.execute import RunOutcome
    from reprise.execute.one import ImageSource
    from reprise.lab.run_group import RunGroup
    from reprise.report.demo_result import Outcome
    from reprise.runs import Images, Run, Store

NEEDED = {"torch": "train", "safetensors": "train", "matplotlib": "plot", "jinja2": "plot", "scipy": "stats"}
"""What a demo needs, and the extra of each."""
MOST_WORKERS = 8  # each holds the images and a torch of its own


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
        from reprise.execute.one import ImageSource
        from reprise.report.demo_result import Outcome
        from reprise.runs.store import Store
        from reprise.studies.demo import ARM, BASE, STUDY

        started = time.perf_counter()
        runs = STUDY.runs(self.seeds)  # pair after pair, so that what is there when it is stopped can be compared
        with work():
            images = ImageSource(_draw_images(runs[0]))
            print(f"{len(runs)} runs on {runs[0].stream_name}: {BASE} and {ARM}, {self.seeds} seeds each.", flush=True)
            records, made = _make_all(runs, images, Store(folder))
            outcome = Outcome(*(_arm(name, records) for name in (BASE, ARM)))
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
        if folder.is_file():
            raise WrongRequest(f"--out: {self.out!r} is a file; name a folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongRequest(f"--out: cannot make the folder {self.out!r}: {error.strerror}") from error
        check_output(str(folder / "demo.html"), "--out")
        return folder

    def _draw(self, outcome: Outcome, seconds: float | None) -> tuple[str, bytes]:
        from reprise import __version__
        from reprise.report.demo_page import page, picture

        command = shlex.join(["reprise", "demo", "--out", self.out, "--seeds", str(self.seeds)])
        return page(outcome, command, __version__, seconds), picture(outcome)


def _draw_images(run: Run) -> Images:
    """Draw the images before the runs need them: they are kept, so this takes seconds the first time only."""
    from reprise.data import find_dataset, load
    from reprise.runs import Images

    assert run.data is not None
    source = find_dataset(run.data.name)
    for split, count in (("train", source.train), ("test", source.test)):
        with progress_bar(count or 1, f"Drawing images, {split}") as show:
            load(source.name, split=split, progress=partial(_pass_on, show))
    return Images.load(run)


def _pass_on(show: Callable[[int], None], done: int, _: int) -> None:
    show(done)


def _make_all(runs: list[Run], images: ImageSource, store: Store) -> tuple[dict[Run, Record], int]:
    """The record of every run, and how many were made now; a process for each core, each with one thread."""
    from reprise.execute import Processes
    from reprise.execute.processes import cores
    from reprise.lab.campaign import campaign

    records: dict[Run, Record] = {}
    made = 0
    # Each process reads the images itself: they are kept on disk, and mapped from there.
    executor = Processes(min(len(cores()), MOST_WORKERS))
    with fleet_lines() as shown, closing(campaign(runs, executor, store, images=images, watch=shown)) as ended:
        for outcome in ended:
            if outcome.record is None:
                raise outcome.error or RunFailed(f"{outcome.name} gave no record")
            records[outcome.run] = outcome.record
            made += not outcome.known
            shown.heart.rest()
            print(f"[{len(records):2}/{len(runs)}] {_line(outcome)}", flush=True)
    return records, made


def _arm(name: str, records: dict[Run, Record]) -> RunGroup:
    from reprise.lab.run_group import RunGroup

    chosen = {run.seed: record for run, record in records.items() if run.memory.retrieval == name}
    return RunGroup(name, dict(sorted(chosen.items())))


def _line(outcome: RunOutcome) -> str:
    from reprise.report.demo_result import FIRST

    record, run = outcome.record, outcome.run
    assert record is not None
    final = record["metrics"][FIRST]["final"]
    how = "kept from before" if outcome.known else f"{record['timings']['train']:.0f} s"
    return f"{run.memory.retrieval}, seed {run.seed}: {final:.1%} of test images named ({how})"
