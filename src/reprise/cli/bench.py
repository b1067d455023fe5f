"""`reprise bench`: what a step of training costs on this machine."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, arg

from reprise.cli.errors import WrongRequest, work
from reprise.cli.output import check_output, write_output
from reprise.core.extras import not_installed

WHAT = ("fleet", "memory")


@dataclass(frozen=True)
class Bench:
    """Measure how many steps of training this machine does in a second, way by way.

    A loop as it is commonly written, the plain loop, and many runs at once: as captured steps on a GPU, where that
    takes about a minute, or by processes on a CPU. Only figures of one run are comparable.

    Example: reprise bench --json bench.json
    """

    what: Annotated[str, arg(metavar="fleet|memory")] = "fleet"
    """What to measure: training, or the replay memory alone, which needs a source checkout."""
    json: Annotated[str | None, arg(metavar="FILE|-", constructor=str, help_behavior_hint="")] = None
    """Write all figures to this file as JSON; - prints them instead of the tables."""
    quick: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """A few steps at small sizes: does it run at all?"""
    device: Annotated[
        str | None, arg(metavar="cpu|cuda", constructor=str, help_behavior_hint="(default: cuda if there is one)")
    ] = None
    """Where to train."""
    seconds: Annotated[float, arg(metavar="S")] = 60
    """What is not begun by then is skipped."""

    def run(self) -> int:
        self._check()
        from rich.console import Console

        from reprise.bench import as_tables, measure
        from reprise.cli.devices import device_for

        device = device_for(self.device)
        if "," in device:
            raise WrongRequest(f"--device {device}: one device is measured at a time")
        with work():
            report = measure(device, quick=self.quick, seconds=self.seconds, tell=_say)
        if self.json is not None:
            text = jsonlib.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
                return 0
            write_output(self.json, text.encode())
        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 180
        Console(width=wide, highlight=False).print(as_tables(report))
        return 0

    def _check(self) -> None:
        if self.what not in WHAT:
            raise WrongRequest(f"--what must be {' or '.join(WHAT)}, got {self.what!r}")
        if self.what == "memory":
            raise WrongRequest(
                "the memory is measured against other libraries, which the package does not bring: in a source "
                "checkout, python benchmarks/memory.py does it"
            )
        if not self.seconds > 0:
            raise WrongRequest(f"--seconds must be above 0, got {self.seconds:g}")
        if find_spec("torch") is None:
            raise WrongRequest(not_installed("training needs torch", "train"))
        if self.json is not None and self.json != "-":
            check_output(self.json, "--json")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
