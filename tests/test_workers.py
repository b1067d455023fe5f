"""Worker processes: none outlives the process that began it, however that one ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

AUDITS = """
from reprise.lab.audits import AuditRun, audit_all

if __name__ == "__main__":
    runs = [AuditRun("rpr", classes=50, steps=2000, seed=seed) for seed in range(500)]
    audit_all(runs, jobs=2, progress=lambda done: print(done, flush=True))
"""
STUDY = """
import pathlib, sys
from reprise.lab.campaign import Campaign
from reprise.studies import STUDIES

if __name__ == "__main__":
    campaign = Campaign.in_folder(STUDIES["gaps"], pathlib.Path(sys.argv[1]), seeds=3, error_seeds=40)
    campaign.run(jobs=2, progress=lambda done: print(done, flush=True))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("script", [AUDITS, STUDY], ids=["audits", "study"])
def test_workers_end_with_their_parent(script: str, end: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    line = [sys.executable, str(file), str(tmp_path / "out")]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=given, start_new_session=True) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == "1\n"
            parent.send_signal(end)
            parent.communicate(timeout=30)  # which ends when nobody is left who could write
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
    assert parent.returncode == -end
