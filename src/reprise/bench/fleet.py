"""Run-steps a second, way by way, within a limit of time."""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from reprise.bench.lanes import Lanes
from reprise.bench.loops import Size, faithful, noise, on_processes, plain
from reprise.bench.results import GIB, Figure, Report, Row, Timing, environment
from reprise.bench.show import line
from reprise.train import Images

Result = TypeVar("Result")
Tell = Callable[[str], None]

# Image side, precision, and how many runs go at once; what matters most comes first, should time run out.
PARTS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (32, "bf16", (1, 2, 4, 8, 16, 24)),
    (64, "bf16", (1, 8, 16)),
    (32, "tf32", (1, 8)),
    (32, "fp32", (1, 8)),
)
LONG = 300  # steps over which the host's share is taken
WIDE = 8  # runs that it is taken with


def measure(
    device: str | torch.device, *, quick: bool = False, seconds: float = 60, tell: Tell = lambda _: None
) -> Report:
    """Measure all there is to measure on a device; what was not begun within `seconds` is skipped, and says so."""
    where = torch.device(device)
    bench = _Bench(where, time.perf_counter() + seconds, seconds, tell, Report(environment(where)))
    if where.type == "cuda":
        bench.on_a_gpu(quick)
    else:
        bench.on_a_cpu(quick)
    # By image size, as they were measured within one.
    sides = list(dict.fromkeys(row.part for row in bench.report.rows))
    bench.report.rows.sort(key=lambda row: sides.index(row.part))
    return bench.report


@dataclass
class _Bench:
    """A report in the making."""

    device: torch.device
    until: float
    limit: float
    tell: Tell
    report: Report

    def on_a_gpu(self, quick: bool) -> None:
        few = {"steps": 10, "warm": 3, "rounds": 1, "each": 20} if quick else {}
        sizes = {side: Size(side, **few) for side in (32, 64)}
        images: dict[int, Images] = {}
        for side, precision, widths in PARTS[: 2 if quick else None]:
            size = sizes[side]
            if side not in images:
                images[side] = noise(size)
                with self._part():
                    self._loops(images[side], size, ("fp32", "bf16") if side == 32 else ("bf16",))
            with self._part():
                first = (side, precision) == PARTS[0][:2]
                self._lanes(images[side], size, precision, widths[: 2 if quick else None], with_figures=first)

    def on_a_cpu(self, quick: bool) -> None:
        size = Size(16, 2, 10, 50, 3, 10, 1) if quick else Size(32, 8, 80, 100, 5, 40, 2)
        images = noise(size)
        self._loops(images, size, ("fp32",))
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        jobs = min(jobs, 2) if quick else jobs
        self._row(size, f"fleet on {jobs} processes, fp32", lambda: on_processes(images, size, jobs), jobs)

    def _loops(self, images: Images, size: Size, precisions: tuple[str, ...]) -> None:
        self._row(size, "faithful loop, fp32", lambda: faithful(images, size, self.device))
        for precision in precisions:
            self._row(size, f"plain loop, {precision}", lambda name=precision: plain(images, size, self.device, name))  # type: ignore[misc]

    def _lanes(self, images: Images, size: Size, precision: str, widths: tuple[int, ...], with_figures: bool) -> None:
        rounds = replace(size, rounds=max(size.rounds, 3))  # they are short
        lanes, problem = self._try(lambda: Lanes(images, rounds, self.device, precision))
        for width in widths:
            what = f"{width} captured {'run' if width == 1 else 'runs'}, {precision}"
            if lanes is None:
                self._add(Row(size.part, what, skipped=problem))
            else:
                self._row(size, what, lambda count=width: lanes.timing(count), width)  # type: ignore[misc]
        if lanes is None or not with_figures:
            return
        wide = min(WIDE, max(widths))
        what = f"Host cores busy while {wide} runs replay {min(LONG, lanes.longest)} steps"
        self._figure(what, lambda: lanes.host_share(wide, LONG), "of one core")
        self._figure("Evaluation, both read-outs of one run", lanes.tested, "images/s")
        profile, problem = self._try(lambda: lanes.profile(wide))
        if profile is None:
            self.report.figures.append(Figure("Profile of a run-step", skipped=problem))
        else:
            self.report.shares, self.report.kernels = profile

    def _row(self, size: Size, what: str, time_it: Callable[[], Timing], at_once: int = 1) -> None:
        timing, problem = self._try(time_it)
        if timing is None:
            self._add(Row(size.part, what, at_once, skipped=problem))
            return
        own = [row.ms for row in self.report.rows if row.part == size.part and row.what.startswith("faithful")]
        memory = torch.cuda.max_memory_reserved(self.device) / GIB if self.device.type == "cuda" else None
        base = own[0] if own else None
        self._add(Row.of(size.part, what, timing, at_once=at_once, base=base, gib=memory))

    def _add(self, row: Row) -> None:
        self.report.rows.append(row)
        self.tell(line(row))

    def _figure(self, what: str, find: Callable[[], float], unit: str) -> None:
        value, problem = self._try(find)
        self.report.figures.append(Figure(what, value, unit, problem))

    def _try(self, work: Callable[[], Result]) -> tuple[Result | None, str]:
        """What came of the work; or None, and why."""
        if time.perf_counter() > self.until:
            return None, f"the {self.limit:g} seconds were up"
        try:
            return work(), ""
        except Exception as error:  # one way that fails leaves the others to be measured
            place = traceback.extract_tb(error.__traceback__)[-1]
            return None, f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"

    @contextmanager
    def _part(self) -> Iterator[None]:
        """Within it, device memory is counted anew; after it, it is free again."""
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            yield
        finally:
            gc.collect()
            torch.cuda.empty_cache()
