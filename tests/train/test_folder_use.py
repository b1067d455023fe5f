"""One folder, one run at a time: a second is refused in a sentence, and what the first writes stays."""

from __future__ import annotations

import os
import socket
import threading

import pytest
from processes import started
from train.tinyruns import config, images, result, thin_networks

from reprise.core.files import FolderBusy, sole_use
from reprise.train import train
from reprise.train.training import RESULTS


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_run_into_a_folder_is_refused_and_harms_nothing(tmp_path):
    refused = []

    def again(run, trained):
        if trained.step in (4, 10):
            scratch = tmp_path / "checkpoints" / ".step-00000099.1.part"
            scratch.mkdir(exist_ok=True)
            for resume in (True, False):
                with pytest.raises(FolderBusy, match="is at work in") as error:
                    train(config(), images(), out=tmp_path, resume=resume)
                refused.append(str(error.value))
            assert scratch.exists()  # the first run's, for all that the second can know

    record = train(config(), images(), out=tmp_path, watch=again)
    assert len(refused) == 4
    assert result(record) == result(train(config(), images()))
    assert names(tmp_path) == sorted(RESULTS)


def test_two_threads_into_a_folder_make_one_run(tmp_path):
    ends, both = [], threading.Barrier(2)

    def one():
        both.wait()
        try:
            ends.append(train(config(), images(), out=tmp_path, resume=True))
        except FolderBusy as error:
            ends.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = [end for end in ends if isinstance(end, dict)]
    assert records  # the second may come when the first has ended, and is given its record
    assert all(record == records[0] for record in records)
    assert names(tmp_path) == sorted(RESULTS)


def test_what_killed_processes_left_goes_when_a_run_begins(tmp_path):
    (tmp_path / "checkpoints" / ".step-00000003.77.part").mkdir(parents=True)
    (tmp_path / ".ema.safetensors.77.88.part").write_text("half")
    (tmp_path / ".lock").write_text("process 77 on nowhere")

    def stop(run, trained):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config(), images(), out=tmp_path, watch=stop)
    assert names(tmp_path) == ["checkpoints"]
    assert names(tmp_path / "checkpoints") == []


LINE = "-m reprise train --dataset glyphs --width 2 --per-class 8 --test-per-class 1 --resume --device cpu --out"


def test_of_two_commands_in_one_folder_one_says_that_another_is_at_work(tmp_path):
    line = [*LINE.split(), str(tmp_path)]
    with started(*line) as first, started(*line) as second:
        both = (first, second)
        said = {process.pid: process.communicate(timeout=200) for process in both}
    ended = sorted(process.returncode for process in both)
    refused = [said[process.pid][1].splitlines()[-1] for process in both if process.returncode]
    assert ended in ([0, 2], [0, 0]), said  # on a slow machine one may have ended before the other began
    assert len(refused) == ended.count(2)
    for words in refused:
        holder = next(process.pid for process in both if not process.returncode)
        assert words.startswith(f"reprise: process {holder} on ")
        assert f"is at work in '{tmp_path}': wait until it ends, or name another folder" in words
    assert names(tmp_path) == sorted(RESULTS)


def test_processes_that_share_a_run_are_all_refused(tmp_path):
    """The first of them asks, and the others hear what it was told."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    line = [*LINE.split(), str(tmp_path)]
    with (
        sole_use(tmp_path),
        started(*line, **shared, RANK="0", LOCAL_RANK="0") as first,
        started(*line, **shared, RANK="1", LOCAL_RANK="1") as second,
    ):
        words = [process.communicate(timeout=200)[1].splitlines()[-1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [2, 2]
    assert words[0].startswith(f"reprise: process {os.getpid()} on ")
    assert words[1] == f"reprise: the first process cannot use '{tmp_path}'"
    assert names(tmp_path) == []
