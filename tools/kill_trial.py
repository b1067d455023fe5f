"""Kill a pool of small runs again and again, and see that nothing is lost, made twice, or left behind.

    python tools/kill_trial.py --times 300
    python tools/kill_trial.py --times 20 --seeds 2 --executor ray

Runs of several learners are made into a store by a pool of processes, or by a Ray cluster that is started for them,
from which results travel back (`ray`) or which shares the store's folder (`ray-shared`). At random moments the parent,
a worker, or both at once are killed (SIGKILL), of a Ray cluster also the raylet, and the same command is given again,
until the store is complete; then the next store is begun. A complete store must hold the records of an execution that
nobody disturbed, but for how and when they were made; no run may have been begun after its record was written; no
scratch file, claim or checkpoint may be left, and no process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARMS: list[dict[str, Any]] = [
    {"learner": "er-ace"},
    {"learner": "der++"},
    {"learner": "er", "retrieval": "mir:50"},
    {"learner": "ocm", "hyper": {"refresh": 20, "rotations": 4, "projection": 8}},
]
TINY = {"dataset": "tiny", "tasks": 5, "batch": 8, "buffer": 60, "replay": 8, "width": 4}
APART = ("provenance", "timings", "checksum")
GONE = {"processes": 5.0, "ray": 120.0, "ray-shared": 120.0}
"""Seconds within which all processes of a killed execution must have ended; the agents of a raylet take their time."""


def execute(store: str, seeds: int, log: str, by: str) -> int:
    """In a process that may be killed: make all runs that are not in the store, two at a time."""
    import numpy as np

    from reprise.data import from_arrays
    from reprise.execute import Executor, Here, Processes
    from reprise.execute.one import ImageSource
    from reprise.execute.ray import Ray
    from reprise.lab.campaign import campaign
    from reprise.runs import Images, Run, Store

    source = np.random.default_rng(5)

    def part(count: int) -> tuple[Any, Any]:
        labels = source.permutation(np.repeat(np.arange(10), count))
        pixels = source.integers(0, 100, (len(labels), 16, 16, 3)) + 15 * labels[:, None, None, None]
        return pixels.astype(np.uint8), labels

    train = from_arrays(*part(25), name="tiny")
    images = ImageSource(
        Images(train, from_arrays(*part(4), name="tiny", split="test", mean=train.mean, std=train.std))
    )
    kept = Store(store)

    class Logged(Executor):
        """Notes of every run that is begun whether its record was there."""

        def __init__(self, executor: Executor) -> None:
            self.executor = executor

        def execute(self, runs: Any, start: Any, tick: Any) -> Any:
            def noted(run: Any) -> Any:
                job = start(run)
                if job is not None:
                    identity = run.identity(images(run).fingerprints(run))
                    there = kept.record_file(identity).exists()
                    with open(log, "a", encoding="utf-8") as file:
                        file.write(json.dumps([run.name, there]) + "\n")
                return job

            yield from self.executor.execute(runs, noted, tick)

    executor: Executor
    if by == "processes":
        executor = Logged(Processes(2, images))
    else:
        executor = Ray(None, images, jobs=2, shared=by == "ray-shared")
        executor.on_cpu = lambda given: Logged(Here(given))  # on the node, so that what Ray begins again is noted
    runs = [Run.of(**TINY, **arm, seed=seed) for seed in range(seeds) for arm in ARMS]
    failed = [outcome for outcome in campaign(runs, executor, kept, images=images) if outcome.error is not None]
    for outcome in failed:
        print(f"{outcome.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0


class Trial:
    """Executions that are killed, one store after the other."""

    def __init__(self, folder: Path, seeds: int, seed: int, by: str) -> None:
        self.folder, self.seeds, self.by = folder, seeds, by
        self.random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.stores = self.begun = self.executions = 0
        self.span = 8.0  # seconds within which the next kill comes
        self.expected = self._undisturbed()

    def _undisturbed(self) -> dict[str, Any]:
        store = self.folder / "undisturbed"
        began = time.monotonic()
        done = self._begin(store).wait()
        self.span = time.monotonic() - began
        if done:
            raise SystemExit("the execution that nobody disturbed failed")
        return contents(store)

    def _begin(self, store: Path) -> subprocess.Popen[bytes]:
        self.executions += 1
        line = [sys.executable, __file__, "--execute", str(store), "--seeds", str(self.seeds)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        line += ["--log", str(self.folder / f"{store.name}.log"), "--executor", self.by]
        return subprocess.Popen(line, start_new_session=True, **quiet)

    def run(self, times: int) -> None:
        while sum(self.kills.values()) < times:
            self.stores += 1
            store = self.folder / f"store-{self.stores}"
            self._until_complete(store, times)
            self._check(store)
            shutil.rmtree(store)

    def _until_complete(self, store: Path, times: int) -> None:
        while True:
            process = self._begin(store)
            while process.poll() is None and sum(self.kills.values()) < times:
                with_end = time.monotonic() + self.random.uniform(0, 0.7 * self.span)
                while process.poll() is None and time.monotonic() < with_end:
                    time.sleep(0.01)
                if process.poll() is None:
                    self._kill(process)
            status = process.wait()
            left_alone(process.pid, GONE[self.by])
            if status == 0:
                return

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        parts = {"parent": [process.pid], "worker": list(workers(process.pid, b"spawn_main"))}
        if self.by != "processes":
            parts["worker"] = list(workers(process.pid, b"ray::make_share"))
            parts["raylet"] = list(workers(process.pid, b"/raylet/raylet"))
        kind = self.random.choice((*parts, "parent and worker"))
        if not all(parts[part] for part in kind.split(" and ")):
            kind = "parent"  # the others have not begun
        victims = [self.random.choice(parts[part]) for part in kind.split(" and ")]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.kills[kind] += 1
        if "parent" in kind:
            process.wait()

    def _check(self, store: Path) -> None:
        found = contents(store)
        if found != self.expected:
            apart = [name for name in {**found, **self.expected} if found.get(name) != self.expected.get(name)]
            raise SystemExit(f"{store}: these records differ from those of an undisturbed execution: {apart}")
        lines = [json.loads(line) for line in (self.folder / f"{store.name}.log").read_text().splitlines()]
        self.begun += len(lines)
        if twice := [name for name, there in lines if there]:
            raise SystemExit(f"{store}: begun again although their records were there: {twice}")
        left = [str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()]
        stray = [name for name in left if not name.startswith("records/") and name != "index.md"]
        if stray or any(".part" in name for name in left):
            raise SystemExit(f"{store}: left behind: {stray or left}")


def contents(store: Path) -> dict[str, Any]:
    """All records of a store, but for how and when they were made."""
    found = {}
    for path in (store / "records").glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = {name: value for name, value in record.items() if name not in APART}
    return found


def workers(session: int, name: bytes) -> Iterator[int]:
    """Processes of a session that have this in their command line."""
    for pid, found in _sessions():
        with contextlib.suppress(OSError):
            if found == session != pid and name in Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid


def left_alone(session: int, seconds: float) -> None:
    """See that no process of a session is left after so many seconds."""
    until = time.monotonic() + seconds
    while alive := [one for one in _sessions() if one[1] == session]:
        if time.monotonic() > until:
            raise SystemExit(f"processes are left: {[pid for pid, _ in alive]}")
        time.sleep(0.02)


def _sessions() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if state != "Z":
                yield int(entry.name), int(session)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each learner")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and kinds of kills")
    parser.add_argument("--executor", choices=list(GONE), default="processes")
    parser.add_argument("--execute", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.execute:
        return execute(asked.execute, asked.seeds, asked.log, asked.executor)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), asked.seeds, asked.seed, asked.executor)
        began = time.monotonic()
        trial.run(asked.times)
    told = ", ".join(f"{count} × {kind}" for kind, count in sorted(trial.kills.items()))
    print(
        f"{sum(trial.kills.values())} kills ({told}) in {trial.executions} executions over {trial.stores} stores of "
        f"{len(trial.expected)} runs, {time.monotonic() - began:.0f} s: all records as undisturbed, {trial.begun} "
        "begun, none after its record was written, nothing left behind"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
