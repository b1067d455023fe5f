"""`reprise train --track`: logs beside the records, by trackers that come with the library and by one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

from cli.pictures import command

from reprise.cli import main
from reprise.core import plugins, registry
from reprise.runs import Store

pytestmark = pytest.mark.usefixtures("alone")

MINE = """
from reprise.core.registry import register
from reprise.track import Tracker

@register("tracker", "mine")
class Mine(Tracker):
    def log(self, step, values):
        with open(self.argument, "a") as file:
            print(step, values["gaps/open_max"], file=file)
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})


def test_one_run_is_logged_beside_its_record_and_by_a_tracker_of_ones_own(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    store, mine = Store(tmp_path / "runs"), tmp_path / "mine.txt"
    line = command(pictures, "--import", str(tmp_path / "mine.py"), "--out", str(store.folder))
    assert main([*line, "--track", f"csv, mine:{mine}", "--track-every", "2"]) == 0
    (record,) = store.records(pytest.fail)
    steps = record["stream"]["steps"]
    due = sorted({*range(2, steps + 1, 2), *record["evaluations"]["steps"]})
    rows = (store.tracks / record["identity"] / "log.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == due
    told = [tuple(map(int, row.split())) for row in mine.read_text().splitlines()]
    assert [step for step, _ in told] == due
    assert told[-1][1] == record["audit"]["open_max"]
    assert f"Log: {store.tracks / record['identity']}" in capsys.readouterr().out


def test_several_runs_have_a_log_each(pictures: Path, tmp_path: Path) -> None:
    line = command(pictures, "--seeds", "2", "--out", str(tmp_path / "runs"), "--jobs", "1")
    assert main([*line, "--track", f"csv:{tmp_path / 'logs'}"]) == 0
    names = {record["identity"] for record in Store(tmp_path / "runs").records(pytest.fail)}
    assert {path.parent.name for path in (tmp_path / "logs").glob("*/log.csv")} == names
    assert len(names) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--track", "cvs"], "unknown tracker 'cvs': did you mean 'csv'?"),
        (["--track", "csv,,wandb"], "--track takes names separated by single commas, got 'csv,,wandb'"),
        (["--track", "csv", "--track-every", "0"], "--track-every must be 1 or more, got 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_begun(
    given: list[str], words: str, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(pictures, *given, "--out", str(tmp_path / "runs"))) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
