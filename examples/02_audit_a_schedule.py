"""Plan replay sequences, audit them, set them beside the theory, save one and read it back.

Prints three tables: the gaps of four schedules on a memory that stands still, beside what the theory says; the gaps and
the co-occurrence of the same schedules on a long-tailed stream, where classes come and go; and one tape, written to a
file, read back, and refused when a single bit of it has changed.

    python examples/02_audit_a_schedule.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import reprise
from reprise.audit import theory
from reprise.streams import StillStream

CLASSES, REPLAY, STEPS, PER_CLASS = 100, 8, 3000, 50
RETRIEVALS = ("uniform", "iid", "fixed", "rpr")


def standing_still() -> None:
    """A fixed, balanced memory: the setting of the exact laws."""
    ratio = theory.sd_ratio(CLASSES, REPLAY)
    expected = {
        "uniform": f"no bound, p = {theory.uniform_inclusion(CLASSES, PER_CLASS, REPLAY):.4f} a step",
        "iid": f"no bound, longest about {theory.extreme_value_scale(CLASSES, REPLAY, STEPS):.0f}",
        "fixed": f"at most {theory.floor(CLASSES, REPLAY)}, the least any schedule can have",
        "rpr": f"at most {theory.fixed_set_bound(CLASSES, REPLAY)}, spread 1/{ratio:.2f} of iid's",
    }
    print(f"{CLASSES} classes that stay, {REPLAY} replayed a step, {STEPS} steps")
    print("           mean   sd    p99  longest   theory")
    for retrieval in RETRIEVALS:
        memory = reprise.Memory(CLASSES * PER_CLASS, "reservoir", retrieval, seed=0)
        memory.store(np.arange(CLASSES * PER_CLASS) % CLASSES)
        audit = reprise.audit.measure(reprise.plan(StillStream(STEPS), memory, REPLAY))
        figures = f"{audit.mean:6.2f} {audit.gaps.std():5.2f} {audit.p99:5.0f} {audit.longest:8}"
        print(f"{retrieval:8} {figures}   {expected[retrieval]}")


def on_a_stream() -> dict[str, reprise.Tape]:
    """A long-tailed stream of ten tasks: classes arrive and are evicted, and the bound follows them."""
    stream = reprise.streams.label_stream("cifar100-lt10", seed=0)
    print(f"\n{stream.name}: {len(stream)} steps, memory of 5120, {REPLAY} replayed a step")
    print("           mean   p99  longest  over the churn bound  pairs met")
    tapes = {}
    for retrieval in RETRIEVALS:
        memory = reprise.Memory(5120, "reservoir", retrieval, seed=0)
        tapes[retrieval] = tape = reprise.plan(stream, memory, REPLAY)
        audit = reprise.audit.measure(tape)
        figures = f"{audit.mean:6.2f} {audit.p99:5.1f} {audit.longest:8} {audit.violations + audit.overdue:21}"
        print(f"{retrieval:8} {figures} {audit.pair_coverage:10.0%}")
    assert all(np.array_equal(tape.written, tapes["rpr"].written) for tape in tapes.values())
    print("All four wrote the same examples to the same slots at every step.")
    return tapes


def on_disk(tape: reprise.Tape) -> None:
    """A tape is one file, with a hash that is the same on every machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rpr.tape"
        tape.save(path)
        again = reprise.Tape.load(path)
        assert again == tape
        print(f"\n{path.name}: {path.stat().st_size / 1e6:.1f} MB, hash {again.hash[:16]}…")

        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.write_bytes(damaged)
        try:
            reprise.Tape.load(path)
        except ValueError as error:
            print(f"with one bit flipped: {str(error).replace(folder, '…')}")


def main() -> None:
    standing_still()
    tapes = on_a_stream()
    on_disk(tapes["rpr"])


if __name__ == "__main__":
    main()
