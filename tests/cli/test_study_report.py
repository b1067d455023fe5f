"""`reprise study report` and `study index`: files where they belong, and a sentence where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_records import put_study

from reprise.cli import main
from reprise.lab import StudyPlan
from reprise.runs import Store
from reprise.studies import STUDIES


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two campaigns of the small form; the second lacks a run."""
    folder = tmp_path_factory.mktemp("store") / "out"
    put_study(StudyPlan(STUDIES["renewal-gaps"], 2, 2, small=True), Store(folder))
    put_study(StudyPlan(STUDIES["gaps"], 2, 2, small=True), Store(folder), without=1)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """The same, without reports."""
    for part in ("records", "campaigns"):
        (tmp_path / "out" / part).mkdir(parents=True)
        for path in (made / part).iterdir():
            (tmp_path / "out" / part / path.name).write_bytes(path.read_bytes())
    return tmp_path / "out"


def test_report_writes_all_files_and_the_index(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "report", "renewal-gaps", "--small", "--out", str(store)]) == 0
    said = capsys.readouterr().out
    for name in ("html", "md", "csv", "tex", "json", "png", "svg"):
        path = store / "reports" / f"renewal-gaps-small.{name}"
        assert path.stat().st_size
        assert f"Wrote {path}" in said
    assert "renewal-gaps-small.html" in (store / "reports" / "index.html").read_text(encoding="utf-8")


def test_html_says_where_and_formats_say_what(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    options = ["--small", "--out", str(store), "--html", str(page), "--formats", "html,csv", "--json", "-"]
    assert main(["study", "report", "renewal-gaps", *options]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out", "page.html", "page.csv"}
    assert not (store / "reports").exists()
    assert json.loads(capsys.readouterr().out)


def test_missing_runs_are_an_error_unless_part_is_asked_for(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ["study", "report", "gaps", "--small", "--out", str(store), "--formats", "html,json"]
    assert main(request) == 2
    assert "1 of 6 records of the study 'gaps-small' are not in" in capsys.readouterr().err
    assert main([*request, "--partial"]) == 0
    assert "1 of 6 runs are missing." in capsys.readouterr().out
    assert "have no record" in (store / "reports" / "gaps-small.html").read_text(encoding="utf-8")


def test_all_reports_every_campaign_that_is_whole(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "report", "all", "--out", str(store), "--formats", "html,json"]) == 1
    end = capsys.readouterr()
    assert "No report of gaps-small: 1 of 6 records" in end.err
    assert "1 campaign has no report" in end.err
    assert {path.name for path in (store / "reports").iterdir()} == {
        "renewal-gaps-small.html",
        "renewal-gaps-small.json",
        "index.html",
    }


def test_several_are_reported_as_far_as_they_are_whole(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ["study", "report", "gaps,renewal-gaps", "--small", "--out", str(store), "--formats", "md"]
    assert main(request) == 1
    end = capsys.readouterr()
    assert "No report of gaps: 1 of 6 records" in end.err
    assert "1 campaign has no report" in end.err
    assert [path.name for path in (store / "reports").iterdir()] == ["renewal-gaps-small.md"]
    assert main([*request, "--partial"]) == 0


def test_a_damaged_campaign_takes_no_report_from_the_others(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "campaigns" / "gaps-small.json").write_text("{")
    assert main(["study", "report", "all", "--out", str(store), "--formats", "html,json"]) == 1
    assert "No report of gaps-small: " in (said := capsys.readouterr().err)
    assert "gaps-small.json is damaged" in said
    assert (store / "reports" / "renewal-gaps-small.html").exists()


def test_a_campaign_file_that_is_damaged_hides_no_other(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "campaigns" / "another.json").write_text("{")
    try:
        assert main(["study", "report", "all", "--partial", "--formats", "md", "--out", str(store)]) == 1
        out, err = capsys.readouterr()
        assert "Wrote " in out
        assert "No report of another: " in err
        assert main(["study", "status", "--out", str(store)]) == 0
        out, err = capsys.readouterr()
        assert "another.json is damaged" in err
        assert "runs have ended" in out
    finally:
        (store / "campaigns" / "another.json").unlink()


def test_index_alone(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "index", "--out", str(store)]) == 0
    assert main(["study", "index", "--out", str(store), "--html", str(tmp_path / "all.html")]) == 0
    for path in (store / "reports" / "index.html", tmp_path / "all.html"):
        assert f"Wrote {path}" in capsys.readouterr().out or path.exists()
        assert "No report yet." in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["renewal-gap", "--small"], "unknown study 'renewal-gap': did you mean 'renewal-gaps'?"),
        (["renewal-gaps"], "does not hold the study 'renewal-gaps'"),
        (["renewal-gaps", "--small", "--formats", "html,pdf"], "--formats are some of html,md,csv,tex,json,png,svg"),
        (["all", "--html", "x.html"], "--html and --json are for the report of one campaign"),
        (
            ["gaps,renewal-gaps", "--json", "-"],
            "--html and --json are for the report of one campaign, and not of several",
        ),
        (["gaps,,renewal-gaps"], "several studies are named with single commas between them"),
        (["renewal-gaps", "--small", "--html", "/nowhere/x.html"], "there is no folder '/nowhere'"),
    ],
)
def test_what_cannot_be_done_is_said(
    store: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "report", *words, "--out", str(store)]) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["report", "gaps"], ["index"]):
        assert main(["study", *words, "--out", str(tmp_path / "none")]) == 2
        assert "there is no folder" in capsys.readouterr().err
