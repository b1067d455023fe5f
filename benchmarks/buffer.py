"""What a step of `reprise.ReplayBuffer` costs on its device, beside plain indexing of the same rows there.

    python benchmarks/buffer.py [--device cuda] [--rounds 15] [--steps 300]

A step draws 8 examples and stores 32. The floor reads and writes the same rows by index tensors that lie on the device
already; so what is left is what the memory decides, and its way to the device. Both are timed in turn; a ratio is the
median over rounds, with its quartiles. On a CPU times are processor time of one thread. On a GPU, `issued` is the time
until the host may go on and `done` the time until the device has finished as well: where the two are close, it is the
host that takes the time.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import reprise

CAPACITY, CLASSES, BATCH, REPLAY = 5120, 100, 32, 8
Step = Callable[[], object]


def images(device: torch.device) -> dict[str, Any]:
    """What CIFAR has: uint8 images, and labels on the host."""
    return {"x": torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, device=device)}


def nested(device: torch.device) -> dict[str, Any]:
    """What a language model has: two columns in a dict, and soft targets; the key on the host."""
    ids = torch.randint(30_000, (BATCH, 128), device=device)
    return {"x": {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, "y": torch.rand(BATCH, 10, device=device)}


def ragged(device: torch.device) -> dict[str, Any]:
    """Rows of 64 to 188 tokens, padded when they return; the floor has them padded in its table."""
    return {"x": [torch.randint(30_000, (64 + 4 * row,), device=device) for row in range(BATCH)]}


def leaves(part: Any) -> list[torch.Tensor]:
    return list(part.values()) if isinstance(part, dict) else [part]


class Case:
    """A buffer that is full, a batch to store again and again, and its floor: the rows of the last round."""

    def __init__(self, make: Callable[[torch.device], dict[str, Any]], device: torch.device, steps: int) -> None:
        self.batch, self.device, self.steps = make(device), device, steps
        self.buffer = reprise.ReplayBuffer(CAPACITY, "reservoir", "rpr", device=device, seed=0, record=False)
        self.source = np.random.default_rng(0)
        self.by_key = make is not images
        self.written: list[np.ndarray] = []
        self.drawn: list[np.ndarray] = []
        while len(self.buffer) < CAPACITY:
            self.store()

    def store(self) -> torch.Tensor:
        labels = self.source.integers(CLASSES, size=BATCH)
        return self.buffer.store(**self.batch, **{"key" if self.by_key else "y": labels})

    def ours(self) -> None:
        """The steps of a round; what they read and wrote is noted for the floor."""
        self.drawn, self.written = [], []
        for _ in range(self.steps):
            self.drawn.append(self.buffer.draw(REPLAY).slots.numpy())
            self.written.append(self.store().numpy())

    def floor(self) -> Step:
        """The same rows by plain indexing, with all indices on the device."""
        batches = [table for part in self.buffer.at(range(BATCH)) if part is not None for table in leaves(part)]
        tables = [batch.new_zeros(CAPACITY, *batch.shape[1:]) for batch in batches]
        rows = [np.flatnonzero(slots >= 0) for slots in self.written]
        plan = [
            (self.sent(drawn), self.sent(slots[kept]), self.sent(kept))
            for drawn, slots, kept in zip(self.drawn, self.written, rows, strict=True)
        ]

        def run() -> None:
            for drawn, slots, kept in plan:
                for table, source in zip(tables, batches, strict=True):
                    table.index_select(0, drawn)
                    if len(slots):
                        table.index_copy_(0, slots, source.index_select(0, kept))

        return run

    def sent(self, slots: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(slots).to(self.device)


def timed(run: Step, device: torch.device) -> tuple[float, float]:
    """Seconds until the host may go on, and until all is done."""
    if device.type != "cuda":
        start = time.process_time()
        run()
        return (time.process_time() - start,) * 2
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    issued = time.perf_counter() - start
    torch.cuda.synchronize(device)
    return issued, time.perf_counter() - start


def measure(what: str, case: Case, rounds: int) -> str:
    case.ours()
    timed(case.floor(), case.device)  # warm
    times = np.empty((rounds, 2, 2))
    gc.disable()
    for number in range(rounds):
        times[number, 0] = timed(case.ours, case.device)
        times[number, 1] = timed(case.floor(), case.device)
    gc.enable()
    times *= 1e6 / case.steps
    low, ratio, high = np.quantile(times[:, 0, 1] / times[:, 1, 1], [0.25, 0.5, 0.75])
    (issued, done), (floor_issued, floor_done) = np.median(times, axis=0)
    if case.device.type != "cuda":
        return (
            f"{what:24} {done:7.0f} µs a step, floor {floor_done:6.0f} µs, ratio {ratio:.2f} ({low:.2f} … {high:.2f})"
        )
    return (
        f"{what:24} issued {issued:6.0f} µs, done {done:6.0f} µs a step; floor {floor_issued:5.0f} and "
        f"{floor_done:5.0f} µs, ratio {ratio:.2f} ({low:.2f} … {high:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=300, help="steps a round")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    on = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    print(
        f"{on}; torch {torch.__version__}; {CAPACITY} slots, {CLASSES} classes, {REPLAY} drawn and {BATCH} offered a "
        f"step; n = {arguments.rounds} rounds of {arguments.steps} steps"
    )
    for what, make in [("images", images), ("nested, by key", nested), ("rows of any length", ragged)]:
        print(measure(what, Case(make, device, arguments.steps), arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
