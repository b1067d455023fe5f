"""The benchmark of EfficientNet-lite runs to its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "efficientnet.py"


@pytest.mark.slow
def test_the_benchmark_of_efficientnet_runs() -> None:
    pytest.importorskip("torch", reason="it trains a network")
    command = [sys.executable, "-W", "error", str(SCRIPT), "--size", "32", "--rounds", "2", "--images", "40"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio") == 3
