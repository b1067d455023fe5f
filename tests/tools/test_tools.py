"""The scripts that show what a refactoring must keep: a pool that is killed, and results that stay the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # single kills are in tests/lab and tests/execute
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the script finds processes under /proc")
def test_a_pool_that_is_killed_ends_with_all_records_and_leaves_nothing() -> None:
    line = [sys.executable, str(ROOT / "tools" / "kill_trial.py"), "--times", "3", "--seeds", "1", "--seed", "1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kills" in done.stdout
    assert "all records as undisturbed" in done.stdout
