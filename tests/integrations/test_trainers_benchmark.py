"""The benchmark of replay in Lightning and transformers runs to its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "integrations_trainers.py"


def test_the_benchmark_of_trainers_runs() -> None:
    pytest.importorskip("lightning", reason="needs lightning: make integrations")
    pytest.importorskip("transformers", reason="needs transformers: make integrations")
    command = [sys.executable, str(SCRIPT), "--steps", "4", "--rounds", "1", "--capacities", "64"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio") == 4
