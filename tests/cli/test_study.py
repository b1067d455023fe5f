"""`reprise study`, as a person types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from reprise.cli import main
from reprise.studies import STUDIES

SMALL = ["--small", "--seeds", "1", "--error-seeds", "2", "--jobs", "1"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, runs in (("gaps", 480), ("dyngaps", 360), ("renewal-gaps", 320), ("buffer-gaps", 400)):
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert line.split()[-2:] == [str(runs), "none"]
        assert STUDIES[name].table in line
    (line,) = (line for line in lines if line.startswith("demo "))
    assert line.split()[-1] == "needed"


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "show", "dyngaps"]) == 0
    shown = capsys.readouterr().out
    assert "Arms: iid, fixed, rpr" in shown
    words = [line.split() for line in shown.splitlines()]
    assert ["tinyimagenet-lt100", "reservoir", "5120", "8", "–"] in words
    assert ["cifar100-lt10", "iid", "6.63", "22.0", "37.1", "81.3", "81.3", "427.4", "0.0"] in words


def test_run_then_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "new" / "out")
    assert main(["study", "run", "gaps", "--out", out, *SMALL]) == 0
    shown = capsys.readouterr()
    assert "C=20 b=4" in shown.out
    assert "Beside the theory, not judged" in shown.out
    assert "Small form: not comparable with the paper" in shown.out
    assert shown.err == ""  # no bar where nobody looks

    page = tmp_path / "gaps.html"
    assert main(["study", "report", "gaps", "--small", "--out", out, "--html", str(page), "--json", "-"]) == 0
    shown = capsys.readouterr()
    rows = json.loads(shown.out)
    assert [row["retrieval"] for row in rows] == ["uniform", "iid", "rpr", "iid/rpr"]
    assert rows[0]["seeds"] == 1
    assert f"Wrote {page}" in shown.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert page.with_suffix(".md").read_text(encoding="utf-8").startswith("# Study `gaps`")
    table = list(csv.DictReader(page.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
    assert len(table) == 3 * 4 + 1 + 3
    assert {row["within"] for row in table} == {""}


def test_report_goes_beside_the_records_unless_told(tmp_path: Path) -> None:
    assert main(["study", "run", "gaps", "--out", str(tmp_path), *SMALL]) == 0
    notes = tmp_path / "notes.md"
    assert main(["study", "report", "gaps", "--small", "--out", str(tmp_path), "--markdown", str(notes)]) == 0
    made = {"gaps-small.json", "gaps-small.html", "gaps-small.csv"}
    assert {path.name for path in tmp_path.iterdir()} == {"records", "claims", "index.md", "notes.md", *made}


def test_run_again_reuses_records_and_names_a_damaged_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "run", "gaps", "--out", str(tmp_path), *SMALL]
    assert main(command) == 0
    first = capsys.readouterr().out
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    damaged = min(stamps)
    damaged.write_text("{")
    assert main([*command, "--json", str(tmp_path / "figures.json")]) == 0
    shown = capsys.readouterr()
    assert shown.out == first
    assert str(damaged) in shown.err
    assert "It is not used; its run is made again where it is needed." in shown.err
    again = {path for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp}
    assert again == {damaged}
    assert len(json.loads((tmp_path / "figures.json").read_text())) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "dyngap"], "unknown study 'dyngap': did you mean 'dyngaps'?"),
        (["run", "buffers", "--out", "x"], "did you mean 'buffer-gaps'?"),
        (
            ["report", "gaps", "--out", "x"],
            "'x' does not hold the study 'gaps': `reprise study run gaps --out x` makes",
        ),
        (["run", "gaps", "--out", "x", "--seeds", "0"], "seeds must be 1 or more, got 0"),
        (["run", "gaps", "--out", "x", "--error-seeds", "1"], "error seeds must be 2 or more, got 1"),
        (["run", "gaps", "--small", "--out", "x", "--jobs", "0"], "jobs must be 1 or more, got 0"),
        (["run", "gaps", "--out", "x", "--json", "no/such/file.json"], "no/such"),
        (["run", "gaps", "--out", "file"], "'file' is a file; a store is a folder"),
        (["run", "gaps"], "needs --out"),
        (["run", "--out", "x"], "needs NAME"),
    ],
)
def test_a_wrong_request_is_a_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["study", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert not Path("x").exists()


def test_a_failed_run_is_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(run: object) -> None:
        raise ZeroDivisionError("nothing by nothing")

    monkeypatch.setattr("reprise.execute.one.audit", broken)
    assert main(["study", "run", "gaps", "--out", str(tmp_path), *SMALL]) == 1
    shown = capsys.readouterr()
    assert (
        "6 of 6 runs of study 'gaps' failed; the first, 20 classes that stay, reservoir 1000, uniform 4, seed 0: "
        "nothing by nothing" in shown.err
    )
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("command", ["list", "show", "run", "report"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", command, "--help"]) == 0
    assert f"Example: reprise study {command}" in capsys.readouterr().out
