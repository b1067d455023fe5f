"""Do captured runs end where the plain loop's do? Final accuracies of both, seed by seed, on the same device.

    python benchmarks/agreement.py --data DIR --seeds 10 --processes 10 --summary FILE
    python benchmarks/agreement.py --setting glyphs --seeds 30 --processes 15 --summary FILE

The plain loop runs in processes that share the device, one thread each, and the fleet beside them, in each precision
of --fleet. Runs drift apart after a few steps, as any change of kernel makes them; what must agree is the mean over
seeds. The summary is written anew whenever a run ends. Without a GPU: --setting glyphs --device cpu --small --seeds 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "cifar100": {"dataset": "cifar100", "imbalance": 10},
    "glyphs": {  # that of `reprise demo`
        "dataset": "glyphs", "width": 8, "per_class": 100, "test_per_class": 10, "batch": 16, "buffer": 500,
        "replay": 4, "augment": "none",
    },
}  # fmt: skip
SMALL = {"width": 2, "per_class": 6, "test_per_class": 2, "tasks": 2, "buffer": 100}
READOUTS = ("ema", "live")
Finals = dict[str, dict[int, dict[str, float]]]  # by way and seed, the accuracy in per cent of each read-out


def runs_of(asked: argparse.Namespace, precision: str) -> list[Any]:
    from reprise.runs import Run

    setting = {**SETTINGS[asked.setting], **(SMALL if asked.small else {})}
    return [Run.of(**setting, retrieval="rpr", seed=seed, precision=precision) for seed in range(asked.seeds)]


class Findings:
    """Final accuracies so far; said, and kept in a file, as they come."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.began = time.perf_counter()
        self.finals: Finals = {}
        self.failed: list[str] = []
        self.provenance: dict[str, Any] = {}
        self.lock = threading.Lock()

    def add(self, way: str, run: Any, record: Any, error: BaseException | None) -> None:
        with self.lock:  # runs of the plain loop are told of by a thread
            if record is None:
                self.failed.append(f"{way}, seed {run.seed}: {error}")
                scores = f"FAILED: {error}"
            else:
                self.provenance = record["provenance"]
                found = {name: round(100 * record["metrics"][name]["final"], 4) for name in READOUTS}
                self.finals.setdefault(way, {})[run.seed] = found
                scores = "  ".join(f"{name} {value:6.2f}" for name, value in found.items())
            print(f"{time.perf_counter() - self.began:6.1f} s  {way:11} seed {run.seed:2}  {scores}", flush=True)
            self.write()

    def write(self, comparisons: list[dict[str, Any]] | None = None) -> None:
        if self.asked.summary:
            finals = {way: dict(sorted(found.items())) for way, found in self.finals.items()}
            content = {"failed": self.failed, "finals": finals, "comparisons": comparisons, **self.provenance}
            Path(self.asked.summary).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def train_all(asked: argparse.Namespace, findings: Findings) -> None:
    from reprise.execute import Processes
    from reprise.execute.one import ImageSource
    from reprise.lab import campaign, run_all

    def plainly() -> None:
        executor = Processes(asked.processes, ImageSource(data=asked.data), asked.device)
        for outcome in campaign(runs_of(asked, asked.precision), executor):
            findings.add(f"plain {asked.precision}", outcome.run, outcome.record, outcome.error)

    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(plainly)
        for precision in asked.fleet.split(","):
            chosen = {"device": asked.device, "lanes": asked.lanes, "jobs": asked.jobs}
            for outcome in run_all(runs_of(asked, precision), data=asked.data, **chosen):
                findings.add(f"fleet {precision}", outcome.run, outcome.record, outcome.error)
        plain.result()


def compare(finals: Finals, plain: str) -> list[dict[str, Any]]:
    """Every way of the fleet against the plain loop, pair by pair."""
    from reprise.lab.statistics import paired

    rows: list[dict[str, Any]] = []
    for way in (way for way in finals if way != plain):
        for name in READOUTS:
            arms = [{seed: found[name] for seed, found in finals.get(one, {}).items()} for one in (way, plain)]
            try:
                found = paired(*arms)
            except (ValueError, ModuleNotFoundError) as error:  # too few pairs, or no SciPy
                print(f"{way} − {plain}, {name}: {error}")
                continue
            means, sds = ([of(arm.values()) for arm in arms] for of in (fmean, stdev))
            print(
                f"{way} − {plain}, {name:4}: {means[0]:.2f} (sd {sds[0]:.2f}) − {means[1]:.2f} (sd {sds[1]:.2f})"
                f" = {found.mean:+.2f}, 95% from {found.low:+.2f} to {found.high:+.2f}, p {found.p:.3f}, "
                f"{found.positive} of {found.n} above 0; sd of differences {found.sd:.2f}"
            )
            rows.append({"fleet": way, "plain": plain, "readout": name, "means": means, "sds": sds, **vars(found)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=list(SETTINGS), default="cifar100")
    parser.add_argument("--data", help="folder that holds the data set; glyphs needs none")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1, help="processes of the plain loop")
    parser.add_argument("--precision", default="fp32", help="of the plain loop")
    parser.add_argument("--fleet", default="fp32", metavar="A,B", help="precisions of the fleet")
    parser.add_argument("--lanes", type=int, help="runs at once on a GPU; as many as pay unless told")
    parser.add_argument("--jobs", type=int, help="processes of the fleet")
    parser.add_argument("--small", action="store_true", help="a thin network and few images: does it run at all?")
    parser.add_argument("--summary", metavar="FILE", help="write what was found as a small JSON")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of all processes: there is one to a core
    findings = Findings(asked)
    train_all(asked, findings)
    print(", ".join(f"{key} {value}" for key, value in findings.provenance.items() if isinstance(value, str)))
    findings.write(compare(findings.finals, f"plain {asked.precision}"))
    return 1 if findings.failed else 0


if __name__ == "__main__":
    sys.exit(main())
