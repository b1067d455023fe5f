"""The settings of a run as options and as files: both are made from its description."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch")

from reprise.cli import main
from reprise.cli.audit import Audit
from reprise.cli.config import Config
from reprise.cli.options import flag_name, read_hyper, read_seeds, read_time
from reprise.cli.train import Train
from reprise.runs import Run, from_file, to_json, to_toml
from reprise.runs.config import expand
from reprise.runs.run import SECTIONS, flat_names
from reprise.runs.settings import options, setting_of

SETTINGS = {option: (section, one) for section in SECTIONS for option, one in options(SECTIONS[section])}
HIDDEN = {"draws"}  # the learner decides
OWN = {"data", "out", "device", "jobs", "time_limit", "lanes", "checkpoint_every", "track", "track_every", "json"}
COMMON = {"mask", "seed", "seeds", "config"}
GIVEN: dict[str, Any] = {
    "dataset": "cifar100", "imbalance": 10.0, "imbalance_seed": 5, "learner": "er-ace", "head": "linear",
    "storage": "brs", "retrieval": "mir:50", "buffer": 100, "replay": 4, "precision": "bf16", "backbone": "vit_tiny",
    "width": 64, "pretrained": True, "bn_momentum": 0.25, "lr": 0.5, "optimizer": "adam", "batch": 16, "tasks": 5,
    "order": "permuted", "validation": True, "passes": "joint", "augment": "none", "size": 32, "holdout": 0.1,
    "per_class": 9, "test_per_class": 8, "evaluate_every": 3, "virtual_loss": "own", "scoring": "eval",
    "momentum": 0.0, "weight_decay": 0.25, "ema": 99, "disjoint": 0.5, "blur": 0.125, "hyper": {"mask": "present"},
}  # fmt: skip


@pytest.fixture(scope="module")
def help_text() -> str:
    """What `reprise train --help` prints, each option on a line."""
    environment = {**os.environ, "COLUMNS": "400", "PYTHONIOENCODING": "utf-8"}
    line = [sys.executable, "-m", "reprise", "train", "--help"]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", env=environment, check=True)
    return re.sub(r" *│\n│ {4,}", " ", done.stdout)


def words(given: Mapping[str, Any]) -> list[str]:
    """These settings, typed."""
    line = []
    for name, value in given.items():
        shown = ",".join(f"{key}={one}" for key, one in value.items()) if isinstance(value, Mapping) else str(value)
        line += [flag_name(name)] if value is True else [flag_name(name), shown]
    return line


def described(capsys: pytest.CaptureFixture[str], *line: str) -> Run:
    """The run that `reprise config` describes."""
    assert main(["config", *line, "--json"]) == 0
    return Run.from_dict(json.loads(capsys.readouterr().out))


def test_every_setting_is_an_option_of_its_own() -> None:
    assert [field.name for field in fields(Train) if field.name in SETTINGS] == [
        option for option in SETTINGS if option not in HIDDEN
    ]
    assert {field.name for field in fields(Train)} == (SETTINGS.keys() - HIDDEN) | COMMON | OWN
    assert {field.name for field in fields(Config)} == (SETTINGS.keys() - HIDDEN) | COMMON | {"json"}
    mine = {option for option, (section, _) in SETTINGS.items() if section in ("stream", "memory")}
    hidden = {"imbalance", "virtual_loss", "scoring"}
    assert {field.name for field in fields(Audit)} >= mine - hidden
    assert not {field.name for field in fields(Audit)} & (SETTINGS.keys() - mine | hidden)


@pytest.mark.parametrize("option", sorted(SETTINGS.keys() - HIDDEN))
def test_help_says_what_the_description_declares(option: str, help_text: str) -> None:
    declared = setting_of(SETTINGS[option][1])
    (line,) = (line for line in help_text.splitlines() if re.match(rf"│ {flag_name(option)}( |$)", line))
    assert declared.help in re.sub(r" +", " ", line)
    default = SETTINGS[option][1].default
    shown = declared.unset if default is None or not isinstance(default, (str, int, float)) else default
    if declared.kind is not bool:
        assert f"(default: {str(shown).removesuffix('.0')})" in line
        assert f"{flag_name(option)} {declared.metavar} " in line


def test_what_is_not_given_is_the_description_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert described(capsys) == Run.of()
    assert Train().runs() == [Run.of()]


def test_every_option_reaches_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert GIVEN.keys() == SETTINGS.keys() - HIDDEN
    run = described(capsys, *words(GIVEN), "--seed", "7")
    assert run == Run.of(**GIVEN, seed=7)
    assert {name: value for name, value in run.flat().items() if name in GIVEN} == GIVEN
    assert run.seed == 7
    usual = Run.of().flat()
    same = {"dataset", "learner", "hyper", "width"}  # the width of other networks is their own
    assert [name for name in GIVEN if GIVEN[name] == usual[name] and name not in same] == ["momentum"]
    assert described(capsys, "--width", "8", "--momentum", "0.5").flat() == {**usual, "width": 8, "momentum": 0.5}


@pytest.mark.parametrize("ending", ["toml", "json"])
@pytest.mark.parametrize(
    "given", [{}, GIVEN, {"learner": "der++", "hyper": {"alpha": 0.5}}], ids=["plain", "all", "der"]
)
def test_a_description_goes_through_a_file(
    given: dict[str, Any], ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.of(**given, seed=3)
    file = tmp_path / f"run.{ending}"
    assert main(["config", *words(given), "--seed", "3", *(["--json"] if ending == "json" else [])]) == 0
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == (to_json(run) if ending == "json" else to_toml(run))
    assert expand(from_file(file)) == [run]
    assert described(capsys, "--config", str(file)) == run


def test_options_go_before_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text('seed = 4\n[memory]\nretrieval = "iid"\nbuffer = 50\n[stream]\nimbalance = 10\n', encoding="utf-8")
    beside = ["--config", str(file), "--retrieval", "fixed", "--width", "8"]
    expected = Run.of(retrieval="fixed", buffer=50, imbalance=10, width=8, seed=4)
    assert described(capsys, *beside) == expected
    assert described(capsys, *beside, "--seed", "5") == expected.replace(seed=5)


def test_another_learner_beside_a_file_brings_its_own_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(to_toml(Run.of(dataset="cifar100", learner="er-ace", lr=0.5, seed=2)), encoding="utf-8")
    other = described(capsys, "--config", str(file), "--learner", "der++", "--dataset", "glyphs")
    assert other == Run.of(learner="der++", lr=0.5, seed=2)


def test_hyperparameters_of_the_file_stay_unless_they_or_the_learner_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[learner]\nname = "der++-ace"\nhyper = { alpha = 0.9, beta = 0.7 }\n', encoding="utf-8")
    for option, value in (("--hyper", "mask=present,beta=0.6"), ("--mask", "present"), ("--learner", "der++-ace")):
        hyper = {"alpha": 0.9, "beta": 0.7, **(read_hyper(value) if option == "--hyper" else {})}
        hyper |= {"mask": value} if option == "--mask" else {}
        found = described(capsys, "--config", str(file), option, value)
        assert found == Run.of(learner="der++-ace", hyper=hyper)
    other = described(capsys, "--config", str(file), "--learner", "der++", "--hyper", "beta=0.6")
    assert other == Run.of(learner="der++", hyper={"beta": 0.6})


def test_lists_in_files_and_options_make_every_combination(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    file.write_text(json.dumps({"seed": [0, 1], "memory": {"retrieval": ["iid", "rpr"], "buffer": 50}}))
    runs = Train(config=file).runs()
    assert [(run.memory.retrieval, run.seed) for run in runs] == [(name, k) for name in ("iid", "rpr") for k in (0, 1)]
    assert {run.memory.buffer for run in runs} == {50}
    more = Train(config=file, buffer="50,60", seeds="3").runs()
    assert len(more) == 2 * 2 * 3
    assert [run.memory.retrieval for run in Train(config=file, retrieval="fixed").runs()] == ["fixed"] * 2
    assert runs == Train(retrieval="iid,rpr", buffer="50", seeds="2").runs()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[memroy]\nbuffer = 3", "a run has no section 'memroy'; it has seed, data, stream"),
        ("[memory]\nbufer = 3", "the section 'memory' has no setting 'bufer'; it has storage, retrieval, buffer"),
        ("memory = 3", "the section 'memory' must hold settings, got 3"),
        ('[memory]\nbuffer = "many"', "buffer must be a whole number, got 'many'"),
        ("[memory", "is not TOML: "),
        ("seed = -1", "seed must be"),
        ("seed = []", "seed must have a value, got an empty list"),
        ("[memory]\nretrieval = []", "retrieval must have a value, got an empty list"),
    ],
)
def test_a_wrong_file_is_a_sentence(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text, encoding="utf-8")
    for name in ("config", "train"):
        assert main([name, "--config", str(file)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("reprise: ")
        assert said in err
        assert err.count("\n") == 1


def test_config_prints_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--retrieval", "iid,rpr", "--seeds", "2"]) == 2
    assert "config prints one run, and these settings make 4: give one value each" in capsys.readouterr().err


def test_hyperparameters() -> None:
    found = read_hyper("alpha=0.3, beta=1e-2,refresh=5000,mask=present")
    assert found == {"alpha": 0.3, "beta": 0.01, "refresh": 5000, "mask": "present"}
    assert [type(value) for value in found.values()] == [float, float, int, str]
    for given in ({"hyper": "mask=none"}, {"hyper": "mask=none", "mask": "none"}, {"mask": "none"}):
        assert Train(**given).runs() == [Run.of(hyper={"mask": "none"})]


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", [0]), ("3", [0, 1, 2]), ("2-4", [2, 3, 4]), ("0,2", [0, 2]), ("7-7, 1-2,1", [7, 1, 2])]
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert read_seeds(text) == seeds
    assert [run.seed for run in Train(seeds=text).runs()] == seeds


@pytest.mark.parametrize("text", ["", "-1", "a", "1-", "1,", "1-2-3", "0.5", "3-1"])
def test_wrong_seeds(text: str) -> None:
    with pytest.raises(ValueError, match=r"^--seeds"):
        read_seeds(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("0", 0), ("540", 540), ("0.5", 0.5), ("90s", 90), ("15m", 900)],
        *[("1.5h", 5400), ("1h30m", 5400), (" 1h0m5s ", 3605)],
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert read_time(text, "--time-limit") == seconds


@pytest.mark.parametrize("text", ["", " ", "soon", "1h30", "5m1h", "-3", "1e3", ".", "1.m", "5 m", "nan", "inf"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(ValueError, match="--time-limit takes a time as 540, 90s, 15m or 1h30m, got"):
        read_time(text, "--time-limit")


def test_a_time_ends() -> None:
    with pytest.raises(ValueError, match="--time-limit must be finite, got '9"):
        read_time("9" * 400, "--time-limit")


def test_flat_names_are_those_of_run_of() -> None:
    for option, (section, name) in flat_names().items():
        if option in GIVEN:
            assert Run.of(**GIVEN).to_dict()[section][name] == GIVEN[option]
