"""The benchmark of reading records runs to its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "records.py"


@pytest.mark.slow
def test_the_benchmark_of_records_runs() -> None:
    pytest.importorskip("torch", reason="it trains a short run")
    command = [sys.executable, "-W", "error", str(SCRIPT), "--records", "20"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 records of ")
    assert done.stdout.count("ratio") == 4
