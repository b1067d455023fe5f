"""The benchmark runs, reports every row, and its ratios are sane; the strict limits are for a quiet machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reprise

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "memory.py"
PAPER = ("uniform", "iid", "fixed", "rpr")


def run(folder: Path, *arguments: str) -> str:
    """Run the benchmark with the package that is tested here; what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(Path(reprise.__file__).parents[1])}
    command = [sys.executable, "-W", "error", str(SCRIPT), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "rows.md").write_text("before\n<!-- figures -->\nold\n<!-- end of figures -->\nafter\n")
    shown = run(folder, "--quick", "--json", "rows.json", "--markdown", "rows.md")
    print(shown)
    found: dict[str, Any] = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    found["shown"], found["markdown"] = shown, (folder / "rows.md").read_text(encoding="utf-8")
    return found


def rows(report: dict[str, Any], part: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in report["rows"] if row["part"] == part}


def test_every_row_is_there_and_has_its_floor(report: dict[str, Any]) -> None:
    steps = rows(report, "step")
    late = [f"reservoir, {name}, late" for name in (*PAPER, "window:0.25", "deadline:2", "rpr+pass")]
    assert list(steps) == [*late, *(f"{name}, rpr, late" for name in ("brs", "cbrs", "fifo"))]
    assert len(rows(report, "scaling")) == 19
    assert len(rows(report, "planning")) == 2
    assert len(rows(report, "peers")) == 4
    for row in report["rows"]:
        if not row["skipped"]:
            assert row["value"] > 0 < row["floor"]
            assert (
                0.2 < row["ratio"] / (row["value"] / row["floor"]) < 5
            )  # a median of ratios is not a ratio of medians
            assert row["low"] is None or row["low"] <= row["ratio"] <= row["high"]


def test_what_is_written_is_what_the_policies_write(report: dict[str, Any]) -> None:
    written = {what: row["written"] for what, row in rows(report, "step").items()}
    assert written["fifo, rpr, late"] == 32
    assert len({written[f"reservoir, {name}, late"] for name in PAPER}) == 1  # the same memory under every retrieval
    assert 1 < written["reservoir, rpr, late"] < 5


def test_a_step_is_a_few_times_its_floor(report: dict[str, Any], tmp_path: Path) -> None:
    ratios = {what: row["ratio"] for what, row in rows(report, "step").items()}
    if any(ratio > 8 for ratio in ratios.values()):  # a busy machine: once more
        run(tmp_path, "--quick", "--only", "step", "--json", "again.json")
        again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))
        ratios = {row["what"]: min(row["ratio"], ratios[row["what"]]) for row in again["rows"]}
    print(ratios)
    assert all(ratio > 0.8 for ratio in ratios.values())  # below its floor nothing can be
    assert {what: ratio for what, ratio in ratios.items() if ratio > 8} == {}


def test_memory_is_small(report: dict[str, Any]) -> None:
    bytes_a_slot = next(row for what, row in rows(report, "scaling").items() if what.startswith("memory"))
    assert 20 < bytes_a_slot["value"] < 200
    assert bytes_a_slot["within"] is True
    peak = next(row for what, row in rows(report, "planning").items() if what.startswith("peak"))
    assert peak["within"] is True


def test_peers_are_measured_or_skipped_with_a_reason(report: dict[str, Any]) -> None:
    for row in rows(report, "peers").values():
        assert row["skipped"] if row["ratio"] is None else row["ratio"] > 1


def test_the_table_and_the_machine_are_shown(report: dict[str, Any]) -> None:
    for text in (report["shown"], report["markdown"]):
        assert "reservoir, rpr, late" in text
        assert "torchrl RandomSampler" in text
    assert f"numpy {report['environment']['versions']['numpy']}" in report["shown"]
    page = report["markdown"]
    assert page.startswith("before\n<!-- figures -->\n| part |")
    assert page.endswith(".\n<!-- end of figures -->\nafter\n")
    assert "old" not in page
    assert page.count("\n|") == len(report["rows"]) + 2
    assert report["environment"]["cores"] >= 1


def test_a_broken_limit_is_told_by_the_exit_status(tmp_path: Path) -> None:
    broken = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import memory, _rows
memory.PARTS = {{"step": lambda quick: iter([_rows.Row("step", "slow", value=9.0, floor=1.0, ratio=9.0, limit=5.0)])}}
sys.argv = ["memory.py", "--check", "--only", "step"]
sys.exit(memory.main())
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(reprise.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", broken], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "over the limit: step: slow" in done.stdout
