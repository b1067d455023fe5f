"""`--import`: a learner, a storage and a data set in three files of their own, in a command and in a pool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

from processes import PYTHON

from reprise.checks import check_storage
from reprise.cli import main
from reprise.core import plugins, registry
from reprise.execute import Job, Processes
from reprise.runs import Run

APART = ("identity", "tape", "metrics", "evaluations", "final_loss")
FOLDER = Path(__file__).parents[2] / "examples" / "plugins"
FILES = [FOLDER / f"my_{name}.py" for name in ("learner", "storage", "dataset")]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})


def test_the_files_of_the_example_in_a_command_and_in_a_pool(tmp_path: Path) -> None:
    learner, storage, dataset = map(os.path.relpath, FILES)
    command = ["-m", "reprise", "train", "--import", f"{learner},{storage}", f"--import={dataset}"]
    command += ["--learner", "mine", "--storage", "mine", "--dataset", "mine"]
    command += ["--width", "2", "--per-class", "4", "--seed", "3", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], env={**os.environ, **PYTHON}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (record,) = [found for path in tmp_path.rglob("*.json") if "tape" in (found := json.loads(path.read_text()))]
    assert record["stream"]["name"] == "mine-balanced"

    plugins.load_modules(map(str, FILES))
    settings = {"learner": "mine", "storage": "mine", "dataset": "mine", "width": 2, "per_class": 4, "seed": 3}
    (outcome,) = Processes(1).execute([Run.of(**settings)], lambda _: Job(), lambda _: None)
    assert outcome.error is None
    assert {name: outcome.record[name] for name in APART} == {name: record[name] for name in APART}
    assert outcome.record["provenance"]["modules"] == [path.name for path in FILES]


def test_the_storage_of_the_example_keeps_its_contract() -> None:
    plugins.load_modules([str(FILES[1])])
    check_storage("mine")


def test_what_is_imported_is_known_to_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = f"--import={','.join(map(str, FILES[1:]))}"
    audit = ["audit", "--storage", "mine", "--stream", "mine-lt10", "--retrieval", "rpr", "--buffer", "30"]
    assert main([*audit, loaded]) == 0
    assert "mine-lt10 · mine of 30" in capsys.readouterr().out
    assert main([loaded, "data", "list"]) == 0
    assert "mine               10    1,000     200" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "--import MODULE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train --import", "--import needs a value, the name of a module or the path of a .py file"),
        ("train --import --learner mine", "--import needs a value"),
        ("audit --import=", "--import needs a value"),
        ("--import nowhere.py train", "--import: there is no file 'nowhere.py' to import"),
        ("data list --import no_such_module", "--import: 'no_such_module' cannot be imported: ModuleNotFoundError"),
        ("train --learner mine", "unknown learner 'mine'"),
    ],
)
def test_errors_are_sentences(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
