"""`reprise runs`: listed, shown, compared and exported from the records of a store."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from records import audit_record, record, run_of

from reprise.cli import main
from reprise.cli.runs_display import _made
from reprise.core.files import write_json

FINALS = {"iid": (0.20, 0.22, 0.21), "rpr": (0.25, 0.26, 0.27)}
RECORDS = [
    *(record(name, seed, final) for name, finals in FINALS.items() for seed, final in enumerate(finals)),
    audit_record("fixed"),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "records").mkdir(parents=True)
    for one in RECORDS:
        write_json(tmp_path / "store" / "records" / f"{one['identity']}.json", one)
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def said(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints, which must end well."""

    def run(*words: str) -> str:
        assert main(["runs", words[0], str(store), *words[1:]]) == 0
        return capsys.readouterr().out

    return run


def test_list_shows_a_line_for_each_run(said: Callable[..., str]) -> None:
    lines = said("list").splitlines()
    assert lines[0].split() == ["identity", "run", "seed", "ema", "live", "longest", "seconds", "made"]
    assert lines[-1] == "7 runs"
    rows = [line.split() for line in lines[1:8]]
    assert {row[0] for row in rows} == {one["identity"][:8] for one in RECORDS}
    first = next(line for line in lines if line.startswith(RECORDS[3]["identity"][:8]))
    assert first.split()[1:11] == ["er-ace", "on", "glyphs,", "reservoir", "500,", "rpr", "4", "0", "25.00%", "12.50%"]
    assert first.split()[11:13] == ["9", "12.5"]


def test_list_says_when_a_run_ended_wherever_its_record_lies(tmp_path: Path) -> None:
    one = {**RECORDS[0], "provenance": {**RECORDS[0]["provenance"], "ended": "2026-01-02T03:04:05+00:00"}}
    local = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc).astimezone()
    assert _made(tmp_path, one) == f"{local:%Y-%m-%d %H:%M}"
    assert _made(tmp_path, RECORDS[0]) == "–"  # neither does it say, nor is there a file


def test_list_chooses_and_sorts(said: Callable[..., str]) -> None:
    lines = said("list", "--where", "retrieval=rpr", "--sort", "ema.final").splitlines()
    assert [line.split()[9] for line in lines[1:4]] == ["25.00%", "26.00%", "27.00%"]
    assert lines[-1] == "3 runs"
    last = said("list", "--sort", "ema.final").splitlines()[7]
    assert "fixed" in last  # it has no accuracy
    rows = json.loads(said("list", "--where", "seed=1", "--json", "-"))
    assert [row["ema.final"] for row in rows] == [0.22, 0.26]


def test_runs_of_one_name_are_told_apart(
    store: Path, said: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    slow = record("rpr", 0, 0.3, run=run_of("rpr", 0, descent__lr=0.001))
    write_json(store / "records" / f"{slow['identity']}.json", slow)
    lines = said("list", "--where", "retrieval=rpr").splitlines()
    assert "er-ace on glyphs, reservoir 500, rpr 4, lr 0.001 " in " ".join(lines)
    assert [(" lr 0.001 " in line, " lr 0.03 " in line) for line in lines[1:5]] == [(True, False), *[(False, True)] * 3]
    assert " lr " not in said("list", "--where", "retrieval=iid")


def test_no_figure_is_cut_short(said: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert "…" not in said("compare", "retrieval=rpr", "retrieval=iid")
    assert "…" not in said("list")


def test_show_says_all(said: Callable[..., str]) -> None:
    text = said("show", RECORDS[3]["identity"][:8])
    for words in ("final task-mean accuracy", "25.00", "12.50", "Prequential", "memory.retrieval", "rpr", "2.13.0+cpu"):
        assert words in text
    assert all(name in text for name in RECORDS[3]["audit"])
    audit = said("show", "retrieval=fixed")
    assert "the longest wait took 5" in audit
    assert "accuracy" not in audit


def test_show_as_json_and_as_a_description(said: Callable[..., str]) -> None:
    assert json.loads(said("show", "retrieval=fixed", "--json")) == RECORDS[-1]
    assert said("show", "retrieval=fixed", "--config").startswith("seed = 0\n")


def test_compare_says_what_was_measured(said: Callable[..., str]) -> None:
    text = " ".join(said("compare", "retrieval=rpr", "retrieval=iid").split())
    for words in (
        "Over 3 pairs of runs, final task-mean accuracy of the averaged network is 26.0% under rpr and 21.0% under iid",
        "difference +5.0 +4.0 +6.0 +5.0 +2.5 to +7.5 8.66",
        "Longest wait under rpr: 9 steps (9 is proved for classes that stay).",
        "What differs memory.retrieval: rpr | iid",
    ):
        assert words in text
    assert "doubtful" not in text


def test_compare_as_json(said: Callable[..., str]) -> None:
    found = json.loads(said("compare", "retrieval=rpr", "retrieval=iid", "--readout", "live", "--json", "-"))
    assert found["difference"]["mean"] == pytest.approx(0.025)
    assert found["differs"] == [{"setting": "memory.retrieval", "a": "rpr", "b": "iid"}]
    assert found["a"]["bound"] == 9


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>")])
def test_compare_draws(said: Callable[..., str], tmp_path: Path, ending: str, begins: bytes) -> None:
    target = tmp_path / f"it.{ending}"
    assert f"Wrote {target}" in said("compare", "retrieval=rpr", "retrieval=iid", "--plot", str(target))
    assert target.read_bytes().startswith(begins)
    if ending == "html":
        assert "retrieval=rpr retrieval=iid --plot" in target.read_text(encoding="utf-8")


def test_export_writes_every_run(said: Callable[..., str], tmp_path: Path) -> None:
    target = tmp_path / "runs.csv"
    assert said("export", str(target)) == f"Wrote 7 runs to {target}\n"
    rows = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert {row["identity"] for row in rows} == {one["identity"] for one in RECORDS}
    assert said("export", str(tmp_path / "one.parquet"), "--where", "retrieval=fixed").startswith("Wrote 1 run to ")
    assert (tmp_path / "one.parquet").read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["list", "nowhere"], "there is no folder 'nowhere'; a store is the folder that runs were made into"),
        (["list", "{empty}"], "holds no record of a run"),
        (["list", __file__], "is a file; a store is the folder that runs were made into"),
        (["list", "{store}", "--sort", "weight"], "`reprise runs list STORE --json -` shows all of them"),
        (["list", "{store}", "--where", "retrieval=cycle"], "none of the 7 runs here is 'retrieval=cycle'"),
        (["list", "{store}", "--sort", "ema.finl"], "no column 'ema.finl': did you mean 'ema.final'?"),
        (["show", "{store}", "retrieval=rpr"], "3 runs are 'retrieval=rpr', name one of them: "),
        (["show", "{store}", "seed=0", "--json", "--config"], "--json and --config each print something else"),
        (["compare", "{store}", "seed=0", "seed=1"], "those of the first differ in"),
        (["compare", "{store}", "retrieval=rpr", "retrieval=iid", "--metric", "fin"], "did you mean 'final'?"),
        (["compare", "{store}", "seed=0", "seed=1", "--plot", "a.pdf"], "--plot draws files that end in .png, .svg"),
        (["export", "{store}", "runs.xls"], "a table is a file that ends in .csv or .parquet, got 'runs.xls'"),
        (["export", "{store}", "nowhere/runs.csv"], "there is no folder 'nowhere'"),
        (["lst"], "unknown command 'lst': did you mean 'list'?"),
    ],
)
def test_wrong_requests_are_sentences(
    words: list[str], sentence: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(store=store, empty=tmp_path) for word in words]
    assert main(["runs", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reprise: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_record_that_cannot_be_read_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store / "records" / f"{RECORDS[0]['identity']}.json"
    path.write_text("{", encoding="utf-8")
    assert main(["runs", "list", str(store)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "6 runs"
    assert str(path) in err
