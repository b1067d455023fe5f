"""Compare the results of two commits: tapes, metrics and accuracies of every learner, bit for bit.

    git worktree add ../before COMMIT
    python tools/same_results.py ../before/src src
    python tools/same_results.py ../before/src src --device cuda

Each side trains the same small runs with its own sources, in a process of its own, on images drawn here. On a GPU they
are sixteen runs on lanes. What is compared are the figures that a record holds. An older side may describe its runs by
another class, `TrainRun`, which this script knows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

LEARNERS = ("er", "er-ace", "der", "der++", "der++-ace", "refresh", "ocm", "none", "joint")
HYPER: dict[str, dict[str, Any]] = {
    "refresh": {"fisher_every": 20},
    "ocm": {"refresh": 20, "rotations": 4, "projection": 8},
}
COMPARED = ("tape", "metrics", "prequential", "evaluations", "audit", "diagnostics", "final_loss")
TINY = {"dataset": "tiny", "tasks": 5, "batch": 8, "buffer": 20, "replay": 4, "width": 4}


def cases(device: str) -> list[dict[str, Any]]:
    """The settings of every run."""
    if device != "cpu":
        arms = [{"learner": name, "hyper": {}} for name in ("er-ace", "der++", "er", "none")]
        return [{**TINY, **arm, "width": 16, "retrieval": "rpr", "seed": seed} for arm in arms for seed in range(4)]
    found = [{**TINY, "learner": name, "hyper": HYPER.get(name, {})} for name in LEARNERS]
    found += [
        {**TINY, "learner": "er", "retrieval": "mir:12"},
        {**TINY, "learner": "er-ace", "retrieval": "mir:12", "virtual_loss": "own", "scoring": "eval"},
        {**TINY, "learner": "er-ace", "head": "linear", "momentum": 0.9, "weight_decay": 0.01},
        {**TINY, "learner": "er-ace", "passes": "joint", "storage": "brs", "retrieval": "iid"},
        {**TINY, "learner": "er-ace", "validation": True, "evaluate_every": 4, "imbalance": 2.0, "augment": "none"},
        {**TINY, "learner": "der++", "blur": 0.3, "disjoint": 0.5, "order": "permuted", "seed": 3, "precision": "bf16"},
    ]
    return found


def pictures() -> Any:
    """Random pixels; a class's images are brighter the larger its number, so that something can be learnt."""
    import numpy as np

    from reprise.data import from_arrays
    from reprise.train import Images

    random = np.random.default_rng(5)

    def part(count: int) -> tuple[Any, Any]:
        labels = random.permutation(np.repeat(np.arange(10), count))
        pixels = random.integers(0, 100, (len(labels), 16, 16, 3)) + 15 * labels[:, None, None, None]
        return pixels.astype(np.uint8), labels

    train = from_arrays(*part(20), name="tiny")
    test = from_arrays(*part(4), name="tiny", split="test", mean=train.mean, std=train.std)
    return Images(train, test)


def one_side(device: str) -> None:
    """Train all runs with whatever version of reprise is on the path, and print their figures."""
    import torch

    import reprise.train as room

    torch.set_num_threads(1)
    describe = room.TrainRun if hasattr(room, "TrainRun") else room.Run.of
    images, runs = pictures(), [describe(**settings) for settings in cases(device)]
    records: dict[Any, Any] = {}
    if device == "cpu":
        records = {run: room.train(run, images) for run in runs}
    elif hasattr(room, "TrainRun"):
        from reprise.train.fleet import fleet

        for outcome in fleet(runs, images, device=device, lanes=16):
            records[outcome.config] = outcome.record
    else:
        from reprise.lab import run_all

        for outcome in run_all(runs, images, device=device, lanes=16):
            records[outcome.run] = outcome.record
    for number, run in enumerate(runs):
        found = {name: records[run][name] for name in COMPARED}
        print(json.dumps([number, found]))


def compare(before: list[Any], after: list[Any], settings: list[dict[str, Any]]) -> int:
    """Print a line for each run, and give how many differ."""
    different = 0
    for (_, old), (_, new), setting in zip(before, after, settings, strict=True):
        apart = [name for name in COMPARED for key in [name] if not _holds(old[key], new[key])]
        different += bool(apart)
        told = {name: value for name, value in setting.items() if TINY.get(name) != value and value != {}}
        final = new["metrics"]["ema"]["final"]
        print(f"{'differs in ' + ', '.join(apart) if apart else 'the same':10} {new['tape'][:12]} {final:.6f} {told}")
    return different


def _holds(old: Any, new: Any) -> bool:
    """Whether all that the older side says is said by the newer one, which may say more."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and _holds(value, new[key]) for key, value in old.items())
    return bool(old == new)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="sources of the older side")
    parser.add_argument("after", nargs="?", help="sources of the newer side")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    if asked.after is None:
        one_side(asked.device)
        return 0
    sides = []
    for path in (asked.before, asked.after):
        paths = os.pathsep.join(filter(None, [os.path.abspath(path), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        line = [sys.executable, __file__, path, "--device", asked.device]
        done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        sides.append([json.loads(row) for row in done.stdout.splitlines() if row.startswith("[")])
    settings = cases(asked.device)
    different = compare(*sides, settings)
    print(f"{len(settings) - different} of {len(settings)} runs are the same, bit for bit")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
