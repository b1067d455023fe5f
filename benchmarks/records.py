"""What it costs to read a store of thousands of records, beside the floor: parsing the same bytes as JSON.

    python benchmarks/records.py [--records N] [--check]

One run of 100 classes is trained, for seconds, and its record is copied under other seeds, with its figures in another
order. Ours reads and checks every file, or the rows of the packed file. The floor parses bytes that are in memory
already, and keeps what it parsed. They are timed in turn, in processor time of one thread, with garbage collection held
back.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _rows import Row, compared, environment

from reprise.core.files import Record, digest
from reprise.core.record_file import seal, text_of
from reprise.lab import run_all
from reprise.lab.packing import pack_store
from reprise.runs import Run, Store
from reprise.runs.record import BULKY

ROUNDS = 3
LIMIT = 1.6  # of the floor


def one_record() -> Record:
    """The record of a short run of 100 classes, tested on all of them ten times."""
    run = Run.of(dataset="glyphs", tasks=10, batch=2, replay=8, buffer=200, width=2, per_class=6, test_per_class=2)
    (outcome,) = run_all([run])
    assert outcome.record is not None, outcome.error
    return outcome.record


def fill(folder: Path, count: int) -> None:
    """Write copies of a record, each with a seed and an identity of its own."""
    record = copy.deepcopy(one_record())
    (folder / "records").mkdir(parents=True)
    for seed in range(count):
        record["run"]["seed"] = seed
        draw = random.Random(seed)
        for row in (*record["evaluations"]["accuracies"]["ema"], *record["curves"].values()):
            draw.shuffle(row)
        record["identity"] = digest([record["run"], record["data"]])[:24]
        Store(folder).record_file(record["identity"]).write_bytes(text_of(seal(record)))


def seconds(work: Callable[[], list[Record]]) -> float:
    """Processor time of some work; what it made is thrown away afterwards."""
    gc.collect()
    began = time.process_time()
    kept = work()
    taken = time.process_time() - began
    assert kept
    return taken


def rows(folder: Path, packed: Path) -> list[Row]:
    """Reading everything, and everything but the bulky parts, from files and from a packed file."""
    store = Store(folder)
    raw = [path.read_bytes() for path in folder.glob("records/*.json")]
    measured: dict[str, list[float]] = {"floor": [], "all": [], "figures": [], "packed": [], "packed figures": []}
    gc.disable()
    for _ in range(ROUNDS):
        measured["floor"].append(seconds(lambda: [json.loads(text) for text in raw]))
        measured["all"].append(seconds(store.all_records))
        measured["figures"].append(seconds(lambda: store.all_records(without=BULKY)))
        measured["packed"].append(seconds(lambda: Store(packed).all_records()))
        measured["packed figures"].append(seconds(lambda: Store(packed).all_records(without=BULKY)))
    gc.enable()
    facts = {"unit": "s", "steps": len(raw), "limit": LIMIT}
    return [
        compared("records", what, measured[key], measured["floor"], **facts)
        for key, what in (
            ("all", "read and checked"),
            ("figures", f"the same without {', '.join(BULKY)}"),
            ("packed", "read and checked from a packed file"),
            ("packed figures", f"the same without {', '.join(BULKY)}"),
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=5000, help="how many records the store holds")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if the limit is broken")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, packed = Store(Path(folder) / "store"), Store(Path(folder) / "packed")
        fill(store.folder, arguments.records)
        size = sum(path.stat().st_size for path in store.folder.glob("records/*"))
        began = time.process_time()
        (file,) = pack_store(store, packed, campaigns=[])
        packing = time.process_time() - began
        found = rows(store.folder, packed.folder)
    print(f"{arguments.records:,} records of {size / arguments.records / 1000:.0f} KB each")
    print(f"packed in {packing:.1f} s: {size / 1e6:.1f} MB become {len(file.content) / 1e6:.1f} MB")
    for row in found:
        print(f"{row.what}: {row.value:.2f} s, floor {row.floor:.2f} s, ratio {row.ratio:.2f}, limit {row.limit:g}")
    facts = environment()
    print(f"{facts['machine']}, Python {facts['versions']['python']}, one thread")
    return 1 if arguments.check and not all(row.within for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
