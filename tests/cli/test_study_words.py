"""What `study run` says while runs are made, and before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprise.cli import main


def test_what_figures_need_is_said_before_runs_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    command = ["study", "run", "gaps", "--small", "--seeds", "2", "--error-seeds", "2", "--out", out]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "scipy.special", None)
        assert main(command) == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("paired statistics need SciPy, which is not installed; the extra 'stats' brings it")
    assert first.endswith("Runs are made and kept all the same; `reprise study report` has their figures later.")
    assert last.startswith("reprise: paired statistics need SciPy")
    assert main([*command, "--time-limit", "0"]) == 0  # they are all there
    assert capsys.readouterr().err == ""


def broken_scipy() -> object:
    raise ImportError("it was built for another NumPy")


@pytest.mark.parametrize("more", [["--seeds", "1"], ["--seeds", "2", "--time-limit", "0"]], ids=["one seed", "no run"])
def test_what_figures_need_is_said_only_where_it_is_needed(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprise.lab.distributions._special", broken_scipy)
    done = main(["study", "run", "gaps", "--small", *more, "--error-seeds", "2", "--out", str(tmp_path)])
    err = capsys.readouterr().err
    assert "another NumPy" not in err
    assert (done, "still to be made" in err) == ((0, False) if "0" not in more else (1, True))


def test_a_package_that_is_broken_stops_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprise.lab.distributions._special", broken_scipy)
    command = ["study", "run", "gaps", "--small", "--seeds", "2", "--error-seeds", "2", "--out", str(tmp_path)]
    assert main(command) != 0
    said = "it was built for another NumPy. Runs are made and kept all the same; "
    assert capsys.readouterr().err.splitlines()[0].startswith(said)
    assert len(list((tmp_path / "records").iterdir())) == 6


def test_what_is_said_while_runs_are_made_goes_through_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    command = ["study", "run", "gaps", "--small", "--out", str(tmp_path)]
    assert main([*command, "--seeds", "3", "--error-seeds", "3"]) == 0
    monkeypatch.setattr("reprise.cli.fleet_display.FleetLines.say", lambda _, sentence: said.append(sentence))
    assert main([*command, "--seeds", "1", "--error-seeds", "2"]) == 0
    assert any("had 3 seeds" in sentence for sentence in said)
