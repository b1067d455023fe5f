"""`reprise demo`: a page at the end, pairs that are pairs, and no run made twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.tinystudies import result, scratch_files

import reprise.studies.demo
from reprise.cli import demo, main
from reprise.execute.processes import cores
from reprise.runs import Store

TINY = {"width": 1, "per_class": 1, "test_per_class": 1, "tasks": 2}  # ten steps


def smaller(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """Let the demo train with these settings."""
    study = reprise.studies.demo.STUDY
    (cell,) = study.cells
    cells = (replace(cell, settings={**cell.settings, **settings}),)
    monkeypatch.setattr(reprise.studies.demo, "STUDY", replace(study, cells=cells))
    # One process: what it imports takes longer than all these runs. Two are in the test of endings.
    monkeypatch.setattr("reprise.execute.processes.cores", lambda plain=cores: plain()[:1])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    smaller(monkeypatch, **TINY)


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("[")]


@pytest.mark.usefixtures("tiny")
def test_demo_ends_in_a_page_and_goes_on_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("4 runs on glyphs-balanced: iid and rpr, 2 seeds each.\n")
    assert [line[:7] for line in first.splitlines() if line.startswith("[")] == [f"[ {n}/4] " for n in (1, 2, 3, 4)]
    assert "Over 2 pairs of runs" in first
    assert first.endswith(f"Open this page in a browser: {out / 'demo.html'}\n")
    page = (out / "demo.html").read_text(encoding="utf-8")
    assert all(f"seed {seed}</th>" in page for seed in (0, 1))
    assert " seconds with" in page
    assert (out / "demo.png").read_bytes()[:4] == b"\x89PNG"

    store = Store(out)
    records = {(one["run"]["memory"]["retrieval"], one["run"]["seed"]): one for one in store.records(pytest.fail)}
    assert sorted(records) == [(arm, seed) for arm in ("iid", "rpr") for seed in (0, 1)]
    for seed in (0, 1):
        base, arm = records["iid", seed], records["rpr", seed]
        assert base["run"] == {**arm["run"], "memory": {**arm["run"]["memory"], "retrieval": "iid"}}
        assert base["tape"] != arm["tape"]
    assert scratch_files(out) == []

    files = {key: store.record_file(record["identity"]) for key, record in records.items()}
    lost = files.pop(("rpr", 1))
    lost.unlink()
    stamps = {path: path.stat().st_mtime_ns for path in files.values()}
    assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    second = capsys.readouterr().out
    assert second.count("kept from before") == 3
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert result(store.get(lost.stem)) == result(records["rpr", 1])
    assert said(second) == said(first)
    with monkeypatch.context() as patch:
        patch.setattr("reprise.execute.processes.Pool", lambda *_: pytest.fail("processes were started"))
        assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    assert capsys.readouterr().out.count("kept from before") == 4
    assert " seconds with" not in (out / "demo.html").read_text(encoding="utf-8")  # this time is not the demo's


def test_run_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smaller(monkeypatch, **TINY, lr=1e30)
    assert main(["demo", "--out", str(tmp_path), "--seeds", "2"]) == 1
    error = capsys.readouterr().err
    last = error.splitlines()[-1]  # on a slow machine "getting ready" comes first
    assert last.startswith("reprise: a run failed: the loss of step ")
    assert "a smaller learning rate than 1e+30" in error
    assert not (tmp_path / "demo.html").exists()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("--seeds 1", "--seeds must be 2 or more, got 1: an interval needs two pairs"),
        ("--seeds 0", "--seeds must be 2 or more, got 0"),
        ("--out file", "--out: 'file' is a file; name a folder"),
    ],
)
def test_wrong_requests(
    asked: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["demo", *asked.split()]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("module", "extra"), demo.NEEDED.items())
def test_what_is_not_installed_is_named(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = demo.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == module else found(name))
    assert main(["demo", "--out", str(tmp_path)]) == 2
    expected = f"demo needs {module}, which is not installed; the extra '{extra}' brings it: pip install '.[{extra}]'"
    assert expected in capsys.readouterr().err
