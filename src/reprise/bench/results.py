"""What the benchmark reports: timings, the rows made of them, and the machine they were taken on."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np
import torch

from reprise import __version__

GIB = 1 << 30


@dataclass(frozen=True)
class Timing:
    """Rounds of equal length: the wall time and this process's processor time of each, in seconds."""

    run_steps: int
    """Steps of a round, counted over all runs that go at once."""
    wall: list[float]
    host: list[float] = field(default_factory=list)
    """Empty where other processes do the work."""


@dataclass(frozen=True)
class Row:
    """One way of training: medians over rounds. A row that could not be measured has a `skipped` reason alone."""

    part: str
    what: str
    at_once: int = 1
    steps: int = 0
    """Steps of each run that were timed in a round."""
    rounds: int = 0
    ms: float | None = None
    """Milliseconds a run-step: of wall time, shared by all runs that go at once."""
    low: float | None = None
    high: float | None = None
    """The quickest and the slowest round, in milliseconds a run-step."""
    ratio: float | None = None
    """Times the run-steps a second of the faithful loop on the same images."""
    host_ms: float | None = None
    """Milliseconds of this process's processor time a run-step."""
    gib: float | None = None
    """The most device memory that torch has held so far in this part."""
    skipped: str = ""

    @property
    def rate(self) -> float | None:
        """Run-steps a second."""
        return None if self.ms is None else 1000 / self.ms

    @classmethod
    def of(cls, part: str, what: str, timing: Timing, **facts: Any) -> Row:
        """The row of a timing; `base` is the faithful loop's milliseconds, if they are known."""
        base, at_once = facts.pop("base", None), facts.get("at_once", 1)
        each = [1000 * seconds / timing.run_steps for seconds in timing.wall]
        return cls(
            part,
            what,
            steps=timing.run_steps // at_once,
            rounds=len(each),
            ms=median(each),
            low=min(each),
            high=max(each),
            ratio=None if base is None else base / median(each),
            host_ms=1000 * median(timing.host) / timing.run_steps if timing.host else None,
            **facts,
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.rate}


@dataclass(frozen=True)
class Figure:
    """A figure that stands by itself."""

    what: str
    value: float | None = None
    unit: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class Share:
    """What one class of kernels takes of a step."""

    what: str
    ms: float
    launches: float


@dataclass
class Report:
    """All that was measured, and on what."""

    facts: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    kernels: list[Share] = field(default_factory=list)
    """Every kernel by name, the costliest first."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "environment": self.facts,
            "rows": [row.to_dict() for row in self.rows],
            "figures": [asdict(figure) for figure in self.figures],
            "shares": [asdict(share) for share in self.shares],
            "kernels": [asdict(share) for share in self.kernels],
        }


def environment(device: torch.device) -> dict[str, Any]:
    """The machine and the versions."""
    versions = {"python": platform.python_version(), "reprise": __version__, "numpy": np.__version__}
    versions["torch"] = torch.__version__
    facts: dict[str, Any] = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": "CPU",
        "versions": versions,
    }
    if device.type == "cuda":
        versions["cuda"] = str(torch.version.cuda)
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
        facts["device"] = torch.cuda.get_device_name(device)
        facts["device_gib"] = round(torch.cuda.get_device_properties(device).total_memory / GIB, 1)
    return facts


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
