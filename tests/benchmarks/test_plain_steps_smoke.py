"""The benchmark of steps that lanes do not take runs to its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "plain_steps.py"


@pytest.mark.slow
def test_the_benchmark_of_plain_steps_runs() -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        str(SCRIPT),
        "--size",
        "8",
        "--width",
        "2",
        "--buffer",
        "64",
        "--rounds",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio") == 3
