"""torchrl's own tests of composable buffers with our sampler and writer, where a clone of it is named.

TORCHRL_CLONE=path/to/rl pytest tests/integrations/test_torchrl_suite.py
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = os.environ.get("TORCHRL_CLONE")
HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torchrl") is None, reason="needs torchrl: make integrations"),
    pytest.mark.skipif(CLONE is None, reason="TORCHRL_CLONE does not name a clone of torchrl with its tests"),
]


@pytest.mark.parametrize(
    ("part", "which", "expected"),
    [
        # What is skipped is torchrl's test of torch.compile, which takes its RandomSampler only.
        ("sampler", "ScheduledSampler", "966 passed, 276 skipped"),
        # Left out are the test of torch.compile, which our writer refuses, and that of a cursor, which it does not
        # have.
        ("writer", "MemoryWriter and not recompile and not cursor", "1242 passed"),
    ],
)
def test_its_composable_buffers_pass(part: str, which: str, expected: str, tmp_path: Path) -> None:
    shutil.copytree(Path(str(CLONE)) / "test" / "rb", tmp_path / "rb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    places = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-c", "../pytest.ini", "--rootdir", "."]
    done = subprocess.run(
        [*command, "-p", "torchrl_in_place", "test_composable.py", "-k", f"TestComposableBuffers and {which}"],
        cwd=tmp_path / "rb",
        env={**os.environ, "PYTHONPATH": places, "PUT_IN_PLACE": part},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected in done.stdout
