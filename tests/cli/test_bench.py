"""`reprise bench`: what it refuses, what it writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from reprise import bench
from reprise.bench.results import Figure, Report, Row, Share, Timing
from reprise.cli import main

FACTS: dict[str, Any] = {
    "processor": "a processor",
    "cores": 2,
    "threads": 1,
    "device": "a device",
    "device_gib": 139.8,
    "versions": {"torch": "9.9"},
}


def report() -> Report:
    """A report with everything in it."""
    rows = [
        Row.of("32×32", "faithful loop, fp32", Timing(60, [1.2, 1.5, 1.26], [1.2, 1.5, 1.26])),
        Row.of("32×32", "8 captured runs, bf16", Timing(480, [0.42], [0.048]), at_once=8, base=21.0, gib=9.5),
        Row("32×32", "12 captured runs, bf16", 12, skipped="out | of memory"),
    ]
    figures = [Figure("Host cores busy", 0.3, "of one core"), Figure("Evaluation", skipped="no time")]
    return Report(FACTS, rows, figures, [Share("convolution, forward", 0.3, 20), Share("rest", 0.1, 30)])


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the benchmark was asked for; it is not run."""
    monkeypatch.delenv("COLUMNS", raising=False)  # into a pipe a table is as wide as it needs to be
    asked: list[dict[str, Any]] = []

    def measure(device: str, **settings: Any) -> Report:
        settings.pop("tell")("a row is done")
        asked.append({"device": device, **settings})
        return report()

    monkeypatch.setattr(bench, "measure", measure)
    return asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--what", "speed"], "--what must be fleet or memory, got 'speed'"),
        (["--what", "memory"], "python benchmarks/memory.py"),
        (["--seconds", "0"], "--seconds must be above 0, got 0"),
        (["--device", "tpu"], "--device must be cpu, cuda or cuda:N"),
        (["--json", "/nowhere/at/all.json"], "there is no folder '/nowhere/at'"),
        (["--quik"], "unknown options: --quik"),
    ],
)
def test_a_wrong_request_is_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], measured: list[dict[str, Any]]
) -> None:
    assert main(["bench", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert measured == []


def test_without_torch_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = importlib.util.find_spec
    monkeypatch.setattr("reprise.cli.bench.find_spec", lambda name: None if name == "torch" else usual(name))
    assert main(["bench"]) == 2
    assert "pip install '.[train]'" in capsys.readouterr().err


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str], measured: list[dict[str, Any]]) -> None:
    assert main(["bench", "--device", "cpu", "--quick", "--seconds", "5"]) == 0
    assert measured == [{"device": "cpu", "quick": True, "seconds": 5.0}]
    shown = capsys.readouterr()
    assert shown.err == "a row is done\n"
    row = next(line for line in shown.out.splitlines() if "8 captured runs" in line)
    assert " ".join(row.replace("│", " ").split()) == (
        "32×32 8 captured runs, bf16 8 0.875 0.875 … 0.875 1,143 24.0 0.1 9.5 1 × 60"
    )
    assert "skipped: out | of memory" in shown.out
    assert "Host cores busy: 0.3 of one core." in shown.out
    assert "Evaluation: skipped, no time." in shown.out
    assert "convolution, forward" in shown.out
    assert "75%" in shown.out
    assert "a device, 139.8 GiB; a processor, 2 cores, 1 torch threads; torch 9.9." in shown.out


def test_figures_are_written_as_json(
    capsys: pytest.CaptureFixture[str], measured: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"
    assert main(["bench", "--device", "cpu", "--json", str(file)]) == 0
    assert "8 captured runs" in capsys.readouterr().out
    assert main(["bench", "--device", "cpu", "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads(file.read_text(encoding="utf-8")) == printed
    first, wide, lost = printed["rows"]
    assert first["ms"] == pytest.approx(21)  # the median round
    assert (first["low"], first["high"]) == (pytest.approx(20), pytest.approx(25))
    assert wide["ratio"] == pytest.approx(24)
    assert wide["rate"] == pytest.approx(480 / 0.42)
    assert wide["steps"] == 60
    assert lost["ms"] is None
    assert printed["shares"][0] == {"what": "convolution, forward", "ms": 0.3, "launches": 20}


def test_a_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- fleet table -->\nold\n<!-- end of fleet table -->\nafter\n", encoding="utf-8")
    bench.write_page(page, bench.as_markdown(report()))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- fleet table -->\n| images |")
    assert text.endswith("torch 9.9.\n<!-- end of fleet table -->\nafter\n")
    assert "old" not in text
    rows = [line for line in text.splitlines() if line.startswith("| 32×32")]
    assert len(rows) == 3
    assert {line.count("|") for line in rows} == {11}  # a bar in a cell does not make another
