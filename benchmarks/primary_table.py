"""The CIFAR-100 part of the paper's primary table, all runs at once on one GPU.

    python benchmarks/primary_table.py --data DIR --out DIR [--seeds 10] [--lanes N] [--summary FILE]

Three streams, two storages, four retrievals: 24 cells of paired seeds. Records are kept in --out/runs, so that a run
that has ended is not made again. Without a GPU or CIFAR-100, the whole way can be gone at a small size:

    python benchmarks/primary_table.py --device cpu --dataset glyphs --small --seeds 2 --out DIR
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

STREAMS = {"balanced": 1.0, "lt10": 10.0, "lt100": 100.0}
STORAGES = ("reservoir", "brs")
RETRIEVALS = ("uniform", "iid", "fixed", "rpr")
# Final task-mean accuracy in per cent and its standard deviation over ten seeds, averaged read-out, by retrieval.
PAPER: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {
    ("balanced", "reservoir"): ((18.75, 0.40), (19.42, 0.58), (18.55, 0.44), (20.61, 0.67)),
    ("balanced", "brs"): ((18.90, 0.63), (19.33, 0.58), (18.64, 0.59), (20.55, 0.79)),
    ("lt10", "reservoir"): ((9.44, 0.46), (11.23, 0.46), (12.05, 0.42), (12.63, 0.41)),
    ("lt10", "brs"): ((11.30, 0.65), (11.43, 0.52), (11.78, 0.59), (12.81, 0.52)),
    ("lt100", "reservoir"): ((6.69, 0.73), (8.00, 0.64), (8.26, 0.72), (8.72, 0.34)),
    ("lt100", "brs"): ((7.57, 1.11), (8.36, 0.36), (8.80, 0.55), (8.95, 0.47)),
}
SMALL = {"width": 2, "per_class": 8, "test_per_class": 2, "tasks": 2, "buffer": 200}

Cell = tuple[str, str, str]
Finals = dict[Cell, dict[int, dict[str, float]]]  # by cell and seed, the final accuracy in per cent of each read-out


def runs_of(asked: argparse.Namespace) -> dict[Any, Cell]:
    """All runs, with the cell that each is of; the longest streams come first, so that none is left for the end."""
    from reprise.train import TrainRun

    common: dict[str, Any] = {"dataset": asked.dataset, "precision": asked.precision, **(SMALL if asked.small else {})}
    return {
        TrainRun(
            **common, imbalance=STREAMS[stream], storage=storage, retrieval=retrieval, seed=seed
        ): (stream, storage, retrieval)
        for stream, seed, storage, retrieval in product(
            asked.streams, range(asked.seeds), asked.storages, asked.retrievals
        )
    }  # fmt: skip


def train_all(asked: argparse.Namespace, runs: Mapping[Any, Cell]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The record of every run that ended well, and what it took."""
    from reprise.cli.fleet_display import fleet_screen
    from reprise.fleet import fleet

    records: dict[Any, Any] = {}
    failed, fresh = [], 0
    began, used = time.perf_counter(), time.process_time()
    about = f"{len(runs)} runs on {asked.dataset}, {asked.precision}, {asked.device}"
    with fleet_screen(about) as screen:
        for outcome in fleet(
            list(runs), data=asked.data, out=asked.out, device=asked.device, lanes=asked.lanes, jobs=asked.jobs,
            watch=screen,
        ):  # fmt: skip
            if outcome.record is None:
                failed.append(f"{outcome.name}: {outcome.error}")
                screen.say(f"failed: {failed[-1]}")
                continue
            records[outcome.config] = outcome.record
            fresh += 0 if outcome.known else int(outcome.record["stream"]["steps"])
    wall = time.perf_counter() - began
    host = (time.process_time() - used) / wall
    facts = {
        "runs": len(runs),
        "failed": failed,
        "steps": fresh,
        "seconds": round(wall, 2),
        "host_cores": round(host, 3),
    }
    return records, facts


def hardware(asked: argparse.Namespace) -> dict[str, Any]:
    import torch

    from reprise.bench.results import GIB, environment

    device = torch.device(asked.device)
    facts = environment(device)
    if device.type == "cuda":
        facts["peak_gib"] = round(torch.cuda.max_memory_reserved(device) / GIB, 2)
    return facts


def finals_of(records: Mapping[Any, Any], runs: Mapping[Any, Cell]) -> Finals:
    """The final accuracies, sorted into cells."""
    found: Finals = {cell: {} for cell in dict.fromkeys(runs.values())}
    for run, record in records.items():
        found[runs[run]][run.seed] = {name: 100 * read["final"] for name, read in record["metrics"].items()}
    return found


def table(finals: Finals, beside_the_paper: bool) -> list[str]:
    """One line for each stream and storage: every retrieval ours and the paper's, then rpr − iid, then live."""
    retrievals = list(dict.fromkeys(cell[2] for cell in finals))
    lines = [
        "final task-mean accuracy, per cent, averaged read-out: mean ± sd over seeds" + _paper_note(beside_the_paper)
    ]
    for stream, storage in dict.fromkeys(cell[:2] for cell in finals):
        lines.append(f"{stream}, {storage}")
        for retrieval in retrievals:
            cell = finals[stream, storage, retrieval]
            ema, live = ([one[name] for one in cell.values()] for name in ("ema", "live"))
            theirs = ""
            if beside_the_paper and ema:
                mean, sd = PAPER[stream, storage][RETRIEVALS.index(retrieval)]
                theirs = f"   paper {mean:5.2f} ± {sd:.2f}   difference {fmean(ema) - mean:+.2f}"
            lines.append(f"  {retrieval:8} {_spread(ema)}  n {len(ema):2}{theirs}   live {_spread(live)}")
        if {"rpr", "iid"} <= set(retrievals):
            theirs = ""
            if beside_the_paper:
                means = [mean for mean, _ in PAPER[stream, storage]]
                theirs = f"   paper {means[RETRIEVALS.index('rpr')] - means[RETRIEVALS.index('iid')]:+.2f}"
            for name in ("ema", "live"):
                arms = [
                    {seed: one[name] for seed, one in finals[stream, storage, arm].items()} for arm in ("rpr", "iid")
                ]
                lines.append(f"  rpr − iid, {name}: {_difference(*arms)}{theirs if name == 'ema' else ''}")
    return lines


def _paper_note(beside: bool) -> str:
    return "; beside the paper's" if beside else ""


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "   no run"
    return f"{fmean(values):6.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def _difference(rpr: Mapping[int, float], iid: Mapping[int, float]) -> str:
    from reprise.lab.statistics import paired

    try:
        found = paired(rpr, iid)
    except (ValueError, ModuleNotFoundError) as error:  # too few pairs, or no SciPy
        return f"none: {error}"
    missing = f"; pairs are missing, rpr being a and iid b: {found.missing}" if found.missing else ""
    interval = f"95% from {found.low:+.2f} to {found.high:+.2f}"
    return f"{found.mean:+.2f}, {interval}, {found.positive} of {found.n} above 0{missing}"


def summary(records: Mapping[Any, Any], runs: Mapping[Any, Cell], facts: dict[str, Any]) -> dict[str, Any]:
    """All final metrics of all runs, one short row each, with what they were made on."""
    first = next(iter(records.values()), {"metrics": {}})
    columns = [f"{name}.{key}" for name, found in first["metrics"].items() for key in found]
    rows = [
        [*runs[run], run.seed, record["tape"][:12]]
        + [None if value is None else round(value, 5) for read in record["metrics"].values() for value in read.values()]
        for run, record in sorted(records.items(), key=lambda item: (*runs[item[0]], item[0].seed))
    ]
    return {"facts": facts, "columns": ["stream", "storage", "retrieval", "seed", "tape", *columns], "rows": rows}


def _write(path: str, content: dict[str, Any]) -> None:
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in content["rows"])
    head = json.dumps({name: content[name] for name in ("facts", "columns")}, indent=1)
    Path(path).write_text(f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n', encoding="utf-8")


def _several(known: Sequence[str], what: str) -> Any:
    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{what} must be of {', '.join(known)}, got {name!r}")
        return names

    return read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder that holds the data set; glyphs needs none")
    parser.add_argument("--out", required=True, help="folder for the records")
    parser.add_argument("--dataset", default="cifar100")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--lanes", type=int, help="runs at once on a GPU; as many as pay unless told")
    parser.add_argument("--jobs", type=int, help="processes that plan, or that train on a CPU")
    parser.add_argument("--small", action="store_true", help="a thin network and few images: does it run at all?")
    for name, known in (("streams", list(STREAMS)), ("storages", STORAGES), ("retrievals", RETRIEVALS)):
        parser.add_argument(f"--{name}", type=_several(list(known), name), default=list(known), metavar="A,B")
    parser.add_argument("--summary", metavar="FILE", help="write all final metrics as a small JSON")
    asked = parser.parse_args()
    if asked.data is None and asked.dataset != "glyphs":
        parser.error(f"--dataset {asked.dataset} needs --data DIR; only glyphs needs no files")
    if asked.seeds < 1:
        parser.error(f"--seeds must be 1 or more, got {asked.seeds}")
    if asked.summary and not Path(asked.summary).parent.is_dir():
        parser.error(f"--summary: there is no folder for {asked.summary!r}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the planning processes: there is one to a core
    runs = runs_of(asked)
    records, facts = train_all(asked, runs)
    facts |= hardware(asked)

    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print(f"{facts['device']}; {facts['processor']}, {facts['cores']} cores; {versions}; {asked.precision}")
    known = "" if facts["steps"] else " (every run was known already)"
    print(f"{len(records)} of {len(runs)} runs, {facts['steps']:,} steps in {facts['seconds']:.1f} s{known}", end="")
    print(f", planning and evaluation included: {facts['steps'] / facts['seconds']:,.0f} run-steps/s")
    print(f"host: {facts['host_cores']:.2f} cores on average, in this process", end="")
    print(f"; device memory at most {facts['peak_gib']} GiB" if "peak_gib" in facts else "")
    for line in table(finals_of(records, runs), asked.dataset == "cifar100" and not asked.small):
        print(line)
    for line in facts["failed"]:
        print(f"FAILED {line}")
    if asked.summary:
        _write(asked.summary, summary(records, runs, facts))
    return 1 if facts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
