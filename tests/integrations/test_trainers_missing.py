"""What is said where Lightning or transformers is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
sys.modules[{0!r}] = None  # makes the import fail
import reprise.integrations.{1}
"""


@pytest.mark.parametrize(
    ("library", "module", "words"),
    [
        ("lightning", "lightning", "needs lightning, which is not installed; the extra 'lightning' brings it"),
        (
            "transformers",
            "huggingface",
            "needs transformers, which is not installed; the extra 'huggingface' brings it",
        ),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(library: str, module: str, words: str) -> None:
    command = [sys.executable, "-c", SCRIPT.format(library, module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"reprise.core.extras.NotInstalled: reprise.integrations.{module} needs ")
    assert last.endswith(f"{words}: pip install '.[{module}]' in the clone")
