"""Avalanche's own tests with our buffer in place of its own, where a clone of it, of the installed version, is named.

AVALANCHE_CLONE=path/to/avalanche pytest tests/integrations/test_avalanche_suite.py
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = os.environ.get("AVALANCHE_CLONE")
HERE = Path(__file__).resolve().parent
REPLAY = (
    "tests/training/test_replay.py",
    "tests/training/test_dictionary_mbatches.py",
    "tests/benchmarks/utils/test_flat_data.py",
    "tests/benchmarks/utils/test_dataloaders.py",
)
STRATEGIES = "tests/training/test_strategies.py"
# These fail with Avalanche's own buffers as well: they need an older torch, a network, and a solver that is not
# installed.
CANNOT = {"test_bic", "test_expertgate", "test_gem"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("avalanche") is None, reason="needs avalanche-lib: make integrations"),
    pytest.mark.skipif(CLONE is None, reason="AVALANCHE_CLONE does not name a clone of Avalanche with its tests"),
]


def outcome(folder: Path, *files: str) -> tuple[int, set[str], str]:
    """How many of its tests passed with our buffer, which failed, and what was said."""
    (folder / "tests").symlink_to(Path(str(CLONE)).resolve() / "tests")
    (folder / "pytest.ini").write_text("[pytest]\n")
    places = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-c", "pytest.ini", "--rootdir", "."]
    done = subprocess.run(
        [*command, "-p", "avalanche_in_place", *files],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places, "FAST_TEST": "true"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    said = done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", said)
    return int(passed.group(1)) if passed else 0, set(re.findall(r"^FAILED \S+::(\w+)", said, re.MULTILINE)), said


def test_its_replay_tests_pass(tmp_path: Path) -> None:
    passed, failed, said = outcome(tmp_path, *REPLAY)
    assert (passed >= 24, failed) == (True, set()), said
    kinds = "ClassBalancedBuffer, ExperienceBalancedBuffer, ParametricBuffer, ReservoirSamplingBuffer"
    assert f"in place of Avalanche's: {kinds}" in said


def test_its_strategies_pass(tmp_path: Path) -> None:
    passed, failed, said = outcome(tmp_path, STRATEGIES)
    assert passed >= 32, said
    assert failed <= CANNOT, said
