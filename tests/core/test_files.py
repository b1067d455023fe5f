"""Locks, and sole use of a folder: one holder at a time, none after it has ended, and nothing left behind."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from processes import started

from reprise.core.files import FolderBusy, Lock

fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")
CONTEND = """
import os, pathlib, sys
from reprise.core.files import FolderBusy, Lock

folder, held = pathlib.Path(sys.argv[1]), 0
while held < 150:
    try:
        with Lock(folder / ".lock"):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))  # nobody else is
            os.unlink(folder / "inside")
            held += 1
    except FolderBusy:
        pass
"""
HOLD = """
import pathlib, sys, time
from reprise.core.files import Lock

with Lock(pathlib.Path(sys.argv[1]) / ".lock"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_holder_is_told_of_the_first(tmp_path: Path) -> None:
    with Lock(tmp_path / ".lock"):
        for _ in range(2):
            with pytest.raises(FolderBusy, match=rf"process {os.getpid()} on .* is at work in '{tmp_path}'"):
                Lock(tmp_path / ".lock").__enter__()
    assert list(tmp_path.iterdir()) == []
    with Lock(tmp_path / ".lock"):
        pass


def test_a_lock_is_of_its_file_alone(tmp_path: Path) -> None:
    one, other = Lock(tmp_path / "one"), Lock(tmp_path / "other")
    with pytest.raises(FolderBusy, match=rf"process {os.getpid()} on "):
        Lock(tmp_path / "one")
    one.release()
    again = Lock(tmp_path / "one")
    one.release()  # a second time: it is not its own any more
    with pytest.raises(FolderBusy):
        Lock(tmp_path / "one")
    for lock in (again, other):
        lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path: Path) -> None:
    """And its first holder does not remove the second one's file."""
    first = Lock(tmp_path / "one")
    (tmp_path / "one").unlink()
    second = Lock(tmp_path / "one")
    first.release()
    assert (tmp_path / "one").exists()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_an_error_within_lets_go(tmp_path: Path) -> None:
    def broken() -> None:
        with Lock(tmp_path / ".lock"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_processes_that_contend_never_hold_it_together(tmp_path: Path) -> None:
    with started("-c", CONTEND, str(tmp_path)) as one, started("-c", CONTEND, str(tmp_path)) as other:
        for process in (one, other):
            assert process.communicate(timeout=100) == ("", "")
            assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_threads_that_contend_never_hold_it_together(tmp_path: Path) -> None:
    inside, most, held = 0, 0, 0

    def contend() -> None:
        nonlocal inside, most, held
        for _ in range(200):
            try:
                with Lock(tmp_path / ".lock"):
                    inside += 1
                    most, held = max(most, inside), held + 1
                    inside -= 1
            except FolderBusy:
                pass

    threads = [threading.Thread(target=contend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert held


def test_a_killed_holder_holds_no_longer(tmp_path: Path) -> None:
    with started("-c", HOLD, str(tmp_path)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderBusy, match=f"process {holder.pid} on "):
            Lock(tmp_path / ".lock").__enter__()
        holder.kill()
        holder.wait()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with Lock(tmp_path / ".lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_no_locks_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", unknown)
        with Lock(tmp_path / ".lock"), Lock(tmp_path / ".lock"):
            pass
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        with Lock(tmp_path / ".lock"), Lock(tmp_path / ".lock"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing' cannot be written to: No such file or directory"):
        Lock(tmp_path / "missing" / ".lock").__enter__()
