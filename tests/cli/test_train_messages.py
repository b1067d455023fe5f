"""`reprise train`: what it says of a run that is not kept, cannot be begun, or breaks off; and with which status."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

import reprise.train
from reprise.cli import main
from reprise.core.files import sole_use

LINE = [
    "train",
    "--dataset",
    "glyphs",
    "--width",
    "1",
    "--per-class",
    "2",
    "--test-per-class",
    "1",
    "--tasks",
    "2",
    "--device",
    "cpu",
]
KEPT = "nothing of this run is kept but what is printed: --out DIR keeps it"


def test_a_run_without_a_folder_says_once_that_nothing_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(LINE) == 0
    out, err = capsys.readouterr()
    assert err.splitlines().count(KEPT) == 1
    assert KEPT not in out
    assert main([*LINE, "--out", str(tmp_path)]) == 0
    assert KEPT not in capsys.readouterr().err


def test_a_backbone_of_timm_without_timm_is_a_wrong_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    out = tmp_path / "run"
    line = ["train", "--dataset", "glyphs", "--backbone", "vit_tiny", "--device", "cpu", "--out", str(out)]
    assert main(line) == 2
    assert capsys.readouterr().err == (
        "reprise: --backbone: the backbone 'vit_tiny' comes from timm, which is not installed; the extra 'vit' brings "
        "it: pip install '.[vit]' in the clone (a backbone that needs no timm is 'resnet18')\n"
    )
    assert not out.exists()


def test_a_file_with_a_checkpoints_name_is_a_wrong_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-00000009").touch()
    assert main([*LINE, "--out", str(tmp_path), "--resume"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("reprise: ")
    assert said.endswith("step-00000009 is a file, and checkpoints, which have such names, are folders: move it away")


def test_a_folder_where_somebody_is_at_work_is_a_wrong_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sole_use(tmp_path):
        assert main([*LINE, "--out", str(tmp_path), "--resume"]) == 2
    assert "is at work in" in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_bad_value_in_the_middle_of_training_is_a_failed_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(reprise.train.Run, "evaluate", fail)
    assert main(LINE) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(": no such thing")
