"""The benchmark of integrations runs, and prints a ratio for each comparison; it says so where a library is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_quick_benchmark(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "integrations_buffers.py"),
        "--quick",
        "--json",
        "figures.json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if any(importlib.util.find_spec(library) is None for library in ("avalanche", "torchrl")):
        assert done.returncode == 1
        assert "make integrations" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert len(rows) == 7
    assert all(row["ratio"] > 0 for row in rows)
