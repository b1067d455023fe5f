"""`reprise study pack` and a packed store: every command finds there what it found before."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.pictures import command
from made_records import put_study
from records import audit_record, record

from reprise.cli import main
from reprise.lab import StudyPlan
from reprise.runs import Store
from reprise.studies import STUDIES

SMALL = ["--small", "--seeds", "1", "--error-seeds", "2", "--jobs", "1"]
Said = Callable[..., str]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two campaigns, one that trains and one that does not, of more seeds than have learning curves."""
    folder = tmp_path_factory.mktemp("made") / "out"
    for name, seeds in (("mask", 11), ("renewal-gaps", 3)):
        put_study(StudyPlan(STUDIES[name], seeds, seeds, small=True), Store(folder))
    for one in (record("rpr", 0), record("rpr", 1), record("iid", 0), record("iid", 1), audit_record("fixed")):
        Store(folder).put(one)
    return folder


@pytest.fixture(scope="module")
def packed(made: Path) -> Path:
    assert main(["study", "pack", "--out", str(made), "--into", str(made.parent / "packed")]) == 0
    return made.parent / "packed"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command prints, which must end well and complain of nothing."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        found = capsys.readouterr()
        assert found.err == ""
        return found.out

    return run


def test_pack_says_what_it_wrote(made: Path, tmp_path: Path, said: Said) -> None:
    lines = said("study", "pack", "--out", made, "--into", tmp_path).splitlines()
    assert lines[0].split() == ["file", "runs", "written", "missing", "kB"]
    written = {line.split()[0]: line.split()[1:4] for line in lines[1:]}
    assert written == {
        "renewal-gaps-small": ["12", "12", "0"],
        "mask-small": [str(count := STUDIES["mask"].count(11, small=True))] * 2 + ["0"],
        "others": ["5", "5", "0"],
    }
    assert count > 40
    assert [*written] == [*(f"{name}-small" for name in STUDIES if f"{name}-small" in written), "others"]


def test_reports_of_a_packed_store_are_the_same_to_the_last_byte(made: Path, packed: Path, said: Said) -> None:
    told = [said("study", "report", "all", "--out", folder).replace(str(folder), "") for folder in (made, packed)]
    assert told[0] == told[1]
    folders = [sorted((folder / "reports").iterdir()) for folder in (made, packed)]
    assert len(folders[0]) == 8 + 7 + 1  # one has contrasts, and all have an index
    for one, other in zip(*folders, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


@pytest.mark.parametrize(
    "words",
    [
        ("study", "status", "mask-small", "--out", "{}"),
        ("study", "status", "--out", "{}", "--json", "-"),
        ("study", "plan", "renewal-gaps", "--small", "--no-time", "--out", "{}"),
        ("runs", "list", "{}", "--json", "-"),
        ("runs", "list", "{}", "--where", "retrieval=rpr,seed=1", "--sort", "ema.final", "--json", "-"),
        ("runs", "show", "{}", audit_record("fixed")["identity"][:10]),
        ("runs", "show", "{}", record("rpr", 1)["identity"], "--config"),
        ("runs", "show", "{}", record("rpr", 0)["identity"], "--json"),
        ("runs", "compare", "{}", "learner.hyper.alpha=0.3,retrieval=rpr", "learner.hyper.alpha=0.3,retrieval=iid"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_commands_say_the_same_of_a_packed_store(made: Path, packed: Path, words: tuple[str, ...], said: Said) -> None:
    told = [said(*(word.format(folder) for word in words)) for folder in (made, packed)]
    if words[:2] == ("study", "status"):  # how fast runs ended is not known of packed ones
        assert len(told[0].splitlines()) == len(told[1].splitlines())
        if "--json" in words:
            for one, other in zip(*map(json.loads, told), strict=True):
                differs = {key for key in one if one[key] != other[key]}
                assert differs <= {"runs_per_minute", "rate", "left"}
                assert other["state"] == "done"
    else:
        assert told[0] == told[1]
    assert told[0].strip()


def test_the_list_says_when_packed_runs_ended_if_they_do(made: Path, packed: Path, said: Said) -> None:
    told = [said("runs", "list", folder) for folder in (made, packed)]
    when = re.compile(r" +(\d{4}-\d\d-\d\d \d\d:\d\d|made|–)$", re.MULTILINE)
    assert when.sub("", told[0]) == when.sub("", told[1])
    silent = sum("ended" not in record["provenance"] for record in Store(packed).all_records())
    assert [one.count("–") for one in when.findall(told[1])].count(1) == silent < 61
    assert "–" not in when.findall(told[0])


def test_tables_of_a_packed_store_are_the_same(made: Path, packed: Path, tmp_path: Path, said: Said) -> None:
    for kind in ("csv", "parquet"):
        for folder in (made, packed):
            said("runs", "export", folder, tmp_path / f"{folder.name}.{kind}")
        assert (tmp_path / f"out.{kind}").read_bytes() == (tmp_path / f"packed.{kind}").read_bytes()


@pytest.mark.parametrize("kind", ["html", "png"])
def test_runs_without_loss_curves_are_compared_in_pictures(packed: Path, tmp_path: Path, kind: str, said: Said) -> None:
    sides = ("learner.hyper.alpha=0.3,retrieval=rpr", "learner.hyper.alpha=0.3,retrieval=iid")
    said("runs", "compare", packed, *sides, "--plot", tmp_path / f"both.{kind}")
    said("runs", "compare", packed, *(f"{side},seed=0" for side in sides), "--plot", tmp_path / f"one.{kind}")
    if kind == "html":
        titles = ["Loss along" in (tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("both", "one")]
        assert titles == [False, True]


def test_audits_without_their_tables_of_pairs_are_drawn(tmp_path: Path, said: Said) -> None:
    audit = ["audit", "--classes", "6", "--steps", "40", "--replay", "2", "--retrieval", "iid,rpr", "--jobs", "1"]
    both = [*audit, "--seeds", "0-2", "--out"]
    said(*both, tmp_path / "out", "--plot", tmp_path / "one.svg")
    said("study", "pack", "--out", tmp_path / "out", "--into", tmp_path / "into")
    said(*both, tmp_path / "into", "--plot", tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert not (tmp_path / "into" / "records").exists()
    said(*audit, "--seeds", "1-2", "--out", tmp_path / "into", "--plot", tmp_path / "three.html")
    assert "not in the records" in (tmp_path / "three.html").read_text(encoding="utf-8")
    assert "no two classes met" not in (tmp_path / "three.html").read_text(encoding="utf-8")


def test_a_study_is_not_run_again_over_a_packed_store(tmp_path: Path, said: Said) -> None:
    first = said("study", "run", "gaps", "--out", tmp_path / "out", *SMALL)
    said("study", "pack", "--out", tmp_path / "out", "--into", tmp_path / "into")
    again = [said("study", "run", "gaps", "--out", tmp_path / "into", *SMALL) for _ in range(2)]
    assert again[0] == again[1] == first.replace(str(tmp_path / "out"), str(tmp_path / "into"))
    assert not (tmp_path / "into" / "records").exists()


@pytest.mark.usefixtures("alone")
def test_a_trained_run_is_shown_and_not_made_again(
    tmp_path: Path, pictures: Path, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(pictures, "--out", str(tmp_path / "out"))) == 0
    first = capsys.readouterr().out.splitlines()
    said("study", "pack", "--out", tmp_path / "out", "--into", tmp_path / "into")
    assert main(command(pictures, "--out", str(tmp_path / "into"))) == 0
    again = capsys.readouterr()
    assert "this run was finished before; its record is shown" in again.err
    assert again.out.splitlines() == [*first[:-1], f"Store: {tmp_path / 'into'}"]
    assert first[-1].startswith(f"Record: {tmp_path / 'out' / 'records'}")
    assert not (tmp_path / "into" / "records").exists()


def test_an_incomplete_campaign_is_packed_and_what_is_missing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_study(StudyPlan(STUDIES["gaps"], 2, 2, small=True), Store(tmp_path / "out"), without=2)
    assert main(["study", "pack", "--out", str(tmp_path / "out"), "--into", str(tmp_path / "into")]) == 0
    out, err = capsys.readouterr()
    assert ["gaps-small", "6", "4", "2"] in [line.split()[:4] for line in out.splitlines()]
    again = f"`reprise study run gaps --small --seeds 2 --out {tmp_path / 'out'}` makes what is not there."
    assert err == f"2 runs are missing from gaps-small: {again}\n"
    assert main(["study", "report", "gaps", "--small", "--out", str(tmp_path / "into"), "--formats", "json"]) == 2
    assert "2 of 6 records of the study 'gaps-small' are not in" in capsys.readouterr().err


def test_the_index_counts_packed_runs(packed: Path, said: Said, tmp_path: Path) -> None:
    said("study", "index", "--out", packed, "--html", tmp_path / "index.html")
    assert "12 of 12" in (tmp_path / "index.html").read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "{made}", "--into", "{made}"], "--into must be another folder than --out"),
        (["--out", "{made}", "--into", "{made}/../out/."], "--into must be another folder than --out"),
        (["--out", "{made}", "--into", "{here}/file"], "file' is a file; a store is a folder"),
        (["--out", "{made}", "--into", "{here}/file/under"], "cannot be written to: "),
        (["--out", "{here}/none", "--into", "{here}/into"], "none' holds no record of a run"),
        (["--out", "{here}/damaged", "--into", "{here}/into"], "gaps.json is damaged"),
        (["--out", "{made}"], "reprise study pack needs --into;"),
    ],
    ids=lambda words: "",
)
def test_what_cannot_be_packed_is_said_and_nothing_is_written(
    made: Path, tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    Store(tmp_path / "damaged").put(audit_record())
    (tmp_path / "damaged" / "campaigns").mkdir()
    (tmp_path / "damaged" / "campaigns" / "gaps.json").write_text("{")
    assert main(["study", "pack", *(word.format(made=made, here=tmp_path) for word in words)]) == 2
    assert sentence in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"file", "damaged"}


def test_a_damaged_file_is_told_of_by_every_command(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(packed, tmp_path / "store")
    path = tmp_path / "store" / "packed" / "renewal-gaps-small.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    for status, words in (
        (0, ["study", "status", "--out", "{}"]),
        (0, ["study", "plan", "renewal-gaps", "--small", "--no-time", "--out", "{}"]),
        (2, ["study", "report", "renewal-gaps", "--small", "--out", "{}"]),
        (1, ["study", "verify", "renewal-gaps-small", "--out", "{}"]),
        (0, ["study", "pack", "--out", "{}", "--into", str(tmp_path / "into")]),
        (0, ["runs", "list", "{}"]),
    ):
        assert main([word.format(tmp_path / "store") for word in words]) == status, words
        assert capsys.readouterr().err.count(f"The file {path} cannot be read: ") == 1, words


def test_without_pyarrow_every_command_says_what_brings_it(
    made: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = sorted(packed.rglob("*"))
    for words in (
        f"study pack --out {made} --into {tmp_path / 'into'}",
        f"study status --out {packed}",
        f"study plan renewal-gaps --small --no-time --out {packed}",
        f"study run renewal-gaps {' '.join(SMALL)} --out {packed}",
        f"study report renewal-gaps --small --formats json --out {packed}",
        f"study report all --formats json --out {packed}",
        f"study verify all --out {packed}",
        f"study index --out {packed}",
        f"runs list {packed}",
        f"runs export {packed} {tmp_path / 'table.csv'}",
        f"audit --classes 6 --steps 40 --replay 2 --jobs 1 --out {packed}",
    ):
        assert main(words.split()) == 2, words
        assert "packed records need pyarrow, which is not installed; the extra 'table'" in capsys.readouterr().err
    assert not (tmp_path / "into").exists()
    assert main(["study", "status", "--out", str(made)]) == 0
    assert [path for path in sorted(packed.rglob("*")) if path not in before and path.suffix == ".json"] == []


def test_a_total_is_printed_of_several_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("renewal-gaps", "gaps"):
        put_study(StudyPlan(STUDIES[name], 2, 2), Store(tmp_path))
    options = ["--out", str(tmp_path), "--formats", "json"]
    counts = []
    for words in (["gaps"], ["renewal-gaps"], ["gaps,renewal-gaps"], ["renewal-gaps, gaps,gaps"], ["all"]):
        assert main(["study", "report", *words, *options]) == 0
        counts.append(capsys.readouterr().out)
    reports = [json.loads((tmp_path / "reports" / f"{name}.json").read_text()) for name in ("gaps", "renewal-gaps")]
    agreeing, judged = (sum(one[key] for one in reports) for key in ("agreeing", "judged"))
    assert judged > 50
    total = f"In all, {agreeing} of {judged} figures agree with the paper's."
    assert [total in said for said in counts] == [False, False, True, True, True]
    assert [said.count("Wrote") for said in counts] == [1, 1, 2, 2, 2]
    written = (tmp_path / "reports" / "gaps.json").stat().st_mtime_ns
    assert main(["study", "report", "gaps,none", *options]) == 2
    assert "unknown study 'none'" in capsys.readouterr().err
    assert main(["study", "report", "gaps,all", *options]) == 2
    assert "`all` stands alone" in capsys.readouterr().err
    assert (tmp_path / "reports" / "gaps.json").stat().st_mtime_ns == written
    assert main(["study", "report", "gaps,renewal-gaps", *options, "--json", "-"]) == 2
    assert "--html and --json are for the report of one campaign, and not of several" in capsys.readouterr().err
