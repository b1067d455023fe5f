"""Which files of the library one batch of training passes, and one study: in order of first call.

    python tools/way_through.py
    PYTHONPATH=../before/src python tools/way_through.py

The figures of docs/architecture.md come from here. Only calls count: a file that is merely imported is not passed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import reprise

ROOT = str(Path(reprise.__file__).parent)


@contextmanager
def passed(files: dict[str, None]) -> Iterator[None]:
    """Within it, the files of functions that are called are noted; what an import runs is not."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT) and frame.f_code.co_name != "<module>":
            files.setdefault(name[len(ROOT) + 1 :])

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def one_batch() -> dict[str, None]:
    """The files that the eighth batch of a run passes, where the memory replays and nothing is tested."""
    import reprise.train as room

    settings = {"dataset": "glyphs", "per_class": 8, "test_per_class": 1, "width": 2, "batch": 4, "replay": 2}
    if hasattr(room, "TrainRun"):
        run: Any = room.TrainRun(**settings)  # as older versions have it
        state: Any = room.Run(run, room.Images.load(run))
    else:
        run = room.Run.of(**settings)
        state = room.Training(run, room.Images.load(run))
    steps = room.steps(state)
    for _ in range(7):
        next(steps)
    files: dict[str, None] = {}
    with passed(files):
        next(steps)
    return files


def one_study() -> dict[str, None]:
    """The files that a study in its small form passes, from its declaration to its verdict, in this process."""
    from reprise.studies import find_study
    from reprise.studies.compare import compare

    files: dict[str, None] = {}
    with tempfile.TemporaryDirectory() as folder:
        with suppress(ImportError):
            from reprise.lab.campaign import Campaign

            with passed(files):
                made: Any = Campaign.in_folder(find_study("dyngaps"), Path(folder), small=True)
                print(compare(made, made.run(jobs=1)).verdict)
            return files
        from reprise.execute import Here
        from reprise.lab import StudyPlan
        from reprise.runs import Store

        with passed(files):
            plan = StudyPlan.of(find_study("dyngaps"), small=True)
            print(compare(plan, plan.execute(Store(folder), Here())).verdict)
    return files


def main() -> int:
    for what, files in (("one batch", one_batch()), ("one study", one_study())):
        rooms = dict.fromkeys(name.split("/")[0] for name in files)
        print(f"{what}: {len(files)} files in {len(rooms)} rooms")
        for room in rooms:
            inside = [name.removeprefix(f"{room}/") for name in files if name.split("/")[0] == room]
            print(f"  {room}: {', '.join(inside)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
