"""`reprise data`: what it prints, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.cli import main
from reprise.data import DATASETS


def test_list(cifar100: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--data", str(cifar100)]) == 0
    table = capsys.readouterr().out
    for name in DATASETS:
        assert name in table
    assert main(["data", "list", "--data", str(cifar100), "--json", "-"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(DATASETS)
    assert [name for name, row in rows.items() if row["present"]] == ["cifar100", "glyphs"]
    assert rows["cifar10"]["md5"] == "c58f30108f718f92721af3b95e74349a"
    assert (rows["cifar10"]["bytes"], rows["glyphs"]["bytes"]) == (170_498_071, None)


def test_check(cifar100: Path, small: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["data", "check", "cifar100", "--data", str(cifar100)]) == 1
    assert "3 classes instead of 100" in capsys.readouterr().err
    small("cifar100", classes=3, train=6, test=3, exact=False)
    assert main(["data", "check", "cifar100", "--data", str(cifar100), "--json", str(tmp_path / "out.json")]) == 0
    assert "cifar100 is whole: 3 classes, 6 training and 3 test images of 32×32" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())[0]["train"] == 6


def test_what_is_there_is_not_fetched(cifar100: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "cifar100", "--data", str(cifar100)]) == 0
    assert f"cifar100 is in {cifar100 / 'cifar-100-python'} already; `reprise data check" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "data list --data",
        "data fetch cifar100 --data",
        "data check cifar100 --data",
        "data check glyphs --data",
        "train --dataset cifar100 --data",
        "train --dataset glyphs --data",
    ],
)
def test_a_file_is_no_data_folder(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cifar.tar.gz"
    file.write_text("")
    assert main([*words.split(), str(file)]) == 2
    said = capsys.readouterr().err
    assert said == f"reprise: the data folder {str(file)!r} is a file; name the folder that holds the data sets\n"


@pytest.mark.parametrize("words", ["train --dataset", "audit --retrieval rpr --stream"])
def test_a_file_is_no_data_set(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pictures.zip"
    file.write_text("")
    name = f"{file}-balanced" if "audit" in words else str(file)
    assert main([*words.split(), name]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"reprise: {str(file)!r} is a file; a data set is a known name, or a folder of class folders"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("fetch mnist --data x", 2, "unknown data set 'mnist'. Known: cifar10, cifar100, tinyimagenet,"),
        ("fetch cifr --data x", 2, "unknown data set 'cifr': did you mean 'cifar10'?"),
        ("fetch glyphs --data x", 2, "there is nothing to fetch"),
        ("fetch cifar10 --data x --url ftp://x", 2, "--url must begin with https:// or http://, got 'ftp://x'"),
        ("fetch cifar10", 2, "--data"),
        (
            "check cifar10 --data x",
            1,
            "there is no folder cifar-10-batches-py of cifar10 in x; run `reprise data fetch",
        ),
        ("", 2, "reprise data is followed by list, fetch, check"),
        ("list --json nowhere/x", 2, "--json: there is no folder 'nowhere'"),
    ],
)
def test_errors_are_sentences(
    words: str,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", *words.split()]) == status
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
