"""Planning a stream of ImageNet's size, in a process of its own so that its peak memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _rows import Row, compared
from _steps import collector_held, timer

EXAMPLES = 1_280_000
CLASSES = 1000
CAPACITY = 20_000
INCOMING = 128
REPLAY = 32
MOST_SECONDS = 30.0
MOST_MEGABYTES = 200.0


def peak_megabytes() -> float:
    """The most memory this process has had resident."""
    try:
        # getrusage would count the parent's memory too: a child inherits its high mark.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measure(examples: int, rounds: int) -> dict[str, list[float] | float]:
    """Seconds to plan, seconds merely to go through the stream and look up labels, and peak memory."""
    import reprise

    labels = np.arange(examples) % CLASSES
    stream = reprise.streams.from_labels(labels, seed=0, batch=INCOMING)
    before = peak_megabytes()
    seconds: list[float] = []
    floor: list[float] = []
    for _ in range(rounds):
        memory = reprise.Memory(CAPACITY, "reservoir", "rpr", seed=0)
        with collector_held(), timer() as planning:
            tape = reprise.plan(stream, memory, replay=REPLAY)
        seconds.append(planning())
        steps = len(tape)
        del tape, memory  # or the next round's peak would have two of each
        with timer() as bare:
            for batch in stream:
                stream.labels[batch]
        floor.append(bare())
    return {"seconds": seconds, "floor": floor, "megabytes": peak_megabytes(), "before": before, "steps": steps}


def rows(quick: bool) -> Iterator[Row]:
    examples, rounds = (EXAMPLES // 40, 1) if quick else (EXAMPLES, 3)
    command = [sys.executable, __file__, str(examples), str(rounds)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"{examples:,} examples, {CLASSES:,} classes, memory {CAPACITY:,}, incoming {INCOMING}, replay {REPLAY}"
    steps = found["steps"]
    yield compared(
        "planning", what, found["seconds"], found["floor"], unit="s", steps=steps, most=None if quick else MOST_SECONDS
    )
    yield Row(
        "planning",
        "peak memory of that process; floor: before planning",
        unit="MB",
        value=found["megabytes"],
        floor=found["before"],
        ratio=found["megabytes"] / found["before"],
        rounds=rounds,
        most=MOST_MEGABYTES,
    )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
