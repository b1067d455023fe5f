"""Wrong requests and failed runs: a sentence on standard error, an exit status, no traceback, nothing half done."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

import reprise.cli.progress
import reprise.execute.one
from reprise.cli import RunFailed, WrongRequest, main
from reprise.cli.output import check_output, write_output
from reprise.cli.tree import sentence

STREAM = "audit --stream cifar10-lt10"
STILL = "audit --classes 4 --steps 9"

WRONG = {
    "": "a command is missing: reprise is followed by audit, train, config, study, runs, demo",
    "adit": "unknown command 'adit': did you mean 'audit'?",
    "study": "reprise study is followed by list, show, plan, run, status, report, pack, verify, index",
    "study lst": "unknown command 'lst': did you mean 'list'?",
    "study show": "reprise study show needs NAME|FILE.py; see reprise study show --help",
    "--nonsense": "nonsense",
    "audit": "give either --stream NAME or --classes C and --steps T",
    "audit --stream cifar10-lt10 --classes 5 --steps 5": "give either",
    "audit --classes 5": "--classes goes with --steps, and --steps is not given",
    f"{STREAM} --steps 5": "--steps goes with --classes, and --classes is not given",
    "audit --classes 0 --steps 5": "classes must be 1 or more, got 0",
    "audit --classes 5 --steps -1": "steps must be 1 or more, got -1",
    f"{STILL} --buffer 10": "a balanced memory of 4 classes cannot hold 10 examples evenly",
    f"{STREAM} --retrieval rrp": "unknown retrieval 'rrp': did you mean 'rpr'?",
    f"{STREAM} --retrieval rpr,rrp": "unknown retrieval 'rrp': did you mean 'rpr'?",
    f"{STREAM} --retrieval reused": "'reused' lacks its argument: write 'reused:K'",
    f"{STREAM} --retrieval reused:x": "must be a whole number, got 'x'",
    f"{STREAM} --retrieval window:2": "2",
    f"{STREAM} --retrieval uniform+pass": "'+pass' goes with a schedule",
    f"{STREAM} --retrieval iid,,rpr": "--retrieval takes values separated by single commas, got 'iid,,rpr'",
    f"{STREAM} --retrieval mir:50": "'mir:50' asks a model, so its replay cannot be known before training",
    f"{STREAM} --storage lifo": "unknown storage 'lifo': did you mean 'fifo'?",
    "audit --stream cifar10-lt10,cifr": "unknown stream 'cifr': did you mean 'cifar10-lt10'?",
    "audit --stream cifar10-lt0.5": "must be 1 or more, got 0.5",
    "audit --stream imagenet-r-lt10": "stream 'imagenet-r-lt10' needs the class sizes",
    f"{STREAM} --seeds 0": "--seeds must be 1 or more, got 0",
    f"{STREAM} --seeds ten": "--seeds takes a number of seeds, or ranges such as 0-9 or 0,2,5-7, got 'ten'",
    f"{STREAM} --seeds 3-1": "--seeds: a range goes up, got '3-1'",
    f"{STREAM} --seeds 0,,2": "--seeds takes a number of seeds, or ranges",
    f"{STREAM} --first-seed -1": "--first-seed must be 0 or more, got -1",
    f"{STREAM} --seeds 2-3 --first-seed 5": "--first-seed goes with a number of seeds; --seeds 2-3 names them already",
    f"{STREAM} --draws 0": "--draws must be 1 or more, got 0",
    f"{STREAM} --replay 0": "--replay must be 1 or more, got 0",
    f"{STREAM} --replay -8": "--replay must be 1 or more, got -8",
    f"{STREAM} --replay 8,0": "--replay must be 1 or more, got 0",
    f"{STREAM} --replay 2.5": "--replay must be a whole number, got '2.5'",
    f"{STREAM} --replay": "--replay needs a value",
    f"{STREAM} --buffer 0": "--buffer must be 1 or more, got 0",
    f"{STREAM} --buffer 500,2.5": "--buffer must be a whole number, got '2.5'",
    f"{STREAM} --jobs 0": "--jobs must be 1 or more, got 0",
    f"{STREAM} --sed 3": "unknown options: --sed, 3; did you mean --seeds?",
    f"{STREAM} rpr": "unknown options: rpr",
    f"{STREAM} --plot audit.gif": "--plot draws files that end in .png, .svg, .html, got 'audit.gif'",
    f"{STREAM} --plot audit": "--plot draws files that end in .png, .svg, .html, got 'audit'",
    f"{STREAM} --plot nowhere/audit.png": "--plot: there is no folder 'nowhere' to write 'audit.png' into",
    f"{STREAM} --json nowhere/audit.json": "--json: there is no folder 'nowhere' to write 'audit.json' into",
    f"{STREAM} --json .": "--json: '.' is a folder; name a file",
    f"{STREAM} --plot a.svg --json a.svg": "--json and --plot cannot both write 'a.svg'",
    f"{STILL} --plot a.svg --buffer 4,8,12,16,20,24,28,32,36,40,44,48,52": "at most 48 combinations, got 52",
    f"{STREAM} --out file": "'file' is a file; a store is a folder",
    "demo --out file": "--out: 'file' is a file; name a folder",
}


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request that is wrong and begins all the same be a failure of the test."""

    def fail(*_: object, **__: object) -> NoReturn:
        pytest.fail("work was begun")

    monkeypatch.setattr(reprise.execute.one, "audit", fail)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("line", WRONG)
def test_wrong_request(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reprise: ")
    assert WRONG[line] in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures("no_work")
def test_pictures_need_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*STILL.split(), "--plot", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err == (
        "reprise: --plot needs matplotlib, which is not installed; the extra 'plot' brings it: "
        "pip install '.[plot]' in the clone\n"
    )


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("the tape contradicts itself"), 1, "a run failed: the tape contradicts itself"),
        (MemoryError(), 1, "a run failed: this machine's memory does not suffice; try a smaller buffer"),
        (KeyError("x"), 1, "a run failed: 'x'"),
        (KeyboardInterrupt(), 130, "stopped before it was done"),
    ],
)
def test_failed_run(
    error: BaseException,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(reprise.execute.one, "audit", fail)
    assert main([*STILL.split(), "--json", str(tmp_path / "a.json")]) == status
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"reprise: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_foresaw_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise LookupError

    monkeypatch.setattr("reprise.report.summarise", fail)
    monkeypatch.setattr("reprise.cli.audit.work", lambda: io.StringIO())  # lets everything through
    monkeypatch.delenv("REPRISE_DEBUG", raising=False)
    assert main(STILL.split()) == 1
    err = capsys.readouterr().err
    assert err == "reprise: this went wrong, unforeseen: LookupError (REPRISE_DEBUG=1 shows where)\n"
    monkeypatch.setenv("REPRISE_DEBUG", "1")
    with pytest.raises(LookupError):
        main(STILL.split())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full, a file that is always full")
def test_full_disk_is_a_failed_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STILL.split(), "--json", "/dev/full"]) == 1
    assert capsys.readouterr().err.startswith("reprise: cannot write '/dev/full': ")


def test_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    write_output(str(target), b"old")

    def fail(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RunFailed, match="No space left"):
        write_output(str(target), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert target.read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    check_output(str(pipe), "--json")
    write_output(str(pipe), b"figures")
    reader.join(10)
    assert found == [b"figures"]
    assert pipe.is_fifo()


def test_empty_file_name() -> None:
    with pytest.raises(WrongRequest, match="--json needs the name of a file"):
        check_output("", "--json")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("terminal", "seconds", "shown"), [(True, 0.3, True), (True, 0.0, False), (False, 0.3, False)])
def test_progress_bar_shows_late_and_on_a_terminal_only(
    terminal: bool, seconds: float, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(reprise.cli.progress, "PATIENCE", 0.1)
    with reprise.cli.progress.progress_bar(4, "Auditing") as progress:
        progress(1)
        time.sleep(seconds)
        progress(4)
    assert ("Auditing" in stderr.getvalue()) == shown
    assert bool(stderr.getvalue()) == shown


def test_plain_frame_is_read_too() -> None:
    box = """ Unrecognized options
 --------------------------
  Unrecognized options: --sed, 3
  --------------------------
  Perhaps you meant:
      --seeds N
  --------------------------
  For full helptext, run reprise audit --help
"""
    assert sentence(box) == "unknown options: --sed, 3; did you mean --seeds? See reprise audit --help"
    assert sentence("") == "these arguments cannot be read; see reprise --help"
