"""Accuracies and bias displacements of plain training runs on CIFAR-100, beside the paper's figures.

    python benchmarks/accuracy.py --data DIR --device cuda --seeds 3 --processes 8

Two blocks: `primary` is the reservoir row of the paper's primary table (cosine head), `linear` its bias displacement
(linear head). Runs are plain loops in processes of their own, not on lanes. --out is a store: a run that has ended is
not made again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

PRIMARY = {"uniform": 9.44, "iid": 11.23, "fixed": 12.05, "rpr": 12.63}
DISPLACEMENT = {
    "iid": (-0.00191, -0.00340, -0.00480, -0.00663, -0.00926),
    "rpr": (-0.00211, -0.00311, -0.00418, -0.00565, None),
}
GAPS = {"iid": (6.63, 22.0, 37.1, 81.3), "fixed": (6.79, 12, 13, 13), "rpr": (6.81, 15.6, 19.6, 23.9)}


def train_all(asked: argparse.Namespace) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The records of all runs, by block, retrieval and seed."""
    from reprise.execute import Processes
    from reprise.execute.one import ImageSource
    from reprise.lab import campaign
    from reprise.runs import Run, Store

    keys = {
        Run.of(
            dataset="cifar100", imbalance=10, head="cosine" if block == "primary" else "linear", retrieval=retrieval,
            seed=seed, precision=asked.precision,
        ): (block, retrieval, seed)
        for block in asked.blocks.split(",")
        for retrieval in asked.retrievals.split(",")
        for seed in range(asked.seeds)
        if block == "primary" or retrieval in DISPLACEMENT
    }  # fmt: skip
    images, store = ImageSource(data=asked.data), Store(asked.out) if asked.out else None
    records = {}
    executor = Processes(asked.processes, images, asked.device)
    for outcome in campaign(list(keys), executor, store, images=images, keep_files=True):
        if outcome.record is None:
            raise outcome.error or RuntimeError(f"{outcome.name} has neither record nor error")
        records[keys[outcome.run]] = outcome.record
    return {key: records[key] for key in keys.values()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--blocks", default="primary,linear")
    parser.add_argument("--retrievals", default="uniform,iid,rpr")
    parser.add_argument("--out", help="the store: folder for records, weights and checkpoints")
    parser.add_argument("--records", help="file for all records as one JSON list")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    records = train_all(asked)
    one = next(iter(records.values()))
    print(f"{one['provenance']['device']}, torch {one['provenance']['torch']}, {asked.precision}, {asked.seeds} seeds")
    for block in asked.blocks.split(","):
        for retrieval in asked.retrievals.split(","):
            found = [records[key] for key in records if key[:2] == (block, retrieval)]
            if found:
                (primary if block == "primary" else linear)(retrieval, found)
    print("seconds of training a run:", *sorted({round(r["timings"]["train"], 1) for r in records.values()}))
    if asked.records:
        Path(asked.records).write_text(json.dumps(list(records.values())))


def primary(retrieval: str, found: list[dict[str, Any]]) -> None:
    ema, live = (100 * np.array([record["metrics"][name]["final"] for record in found]) for name in ("ema", "live"))
    paper = PRIMARY[retrieval]
    print(
        f"primary {retrieval:8} ema {ema.mean():6.2f}  paper {paper:6.2f}  difference {ema.mean() - paper:+.2f}"
        f"  sd {ema.std(ddof=1) if len(ema) > 1 else 0:.2f}  live {live.mean():6.2f}"
    )
    gaps = [np.mean([record["audit"][key] for record in found]) for key in ("mean", "p95", "p99", "max", "violations")]
    theirs = GAPS.get(retrieval)
    beside = "" if theirs is None else "   paper " + " ".join(f"{value:g}" for value in theirs)
    print("        gaps mean p95 p99 max violations:", " ".join(f"{value:.2f}" for value in gaps) + beside)


def linear(retrieval: str, found: list[dict[str, Any]]) -> None:
    ema = 100 * np.array([record["metrics"]["ema"]["final"] for record in found])
    print(f"linear  {retrieval:8} ema {ema.mean():6.2f}")
    bins = [record["diagnostics"]["bias_displacement"] for record in found]
    for name, paper in zip(bins[0], DISPLACEMENT[retrieval], strict=True):
        means = [one[name]["mean"] for one in bins if one[name]["mean"] is not None]
        if not means:
            print(f"        gap {name:6} no episode" + ("" if paper is None else f"   paper {paper:.5f}"))
            continue
        negative = min(one[name]["negative"] for one in bins if one[name]["negative"] is not None)
        ratio = "" if paper is None else f"   paper {paper:.5f}   ratio {np.mean(means) / paper:.3f}"
        print(f"        gap {name:6} {np.mean(means):.5f}   all negative: {negative:.2f}{ratio}")


if __name__ == "__main__":
    main()
