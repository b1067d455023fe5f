"""Kill -9: a run in a store that is killed at any moment, and asked for again, is in the store as if nothing had been.

One process imports torch and forks another for every run, so that each costs its own time alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
from train.tinyruns import ARMS, config, identity, images, result, run_to, same, thin_networks, weights

from reprise.execute import Here
from reprise.execute.one import ImageSource
from reprise.lab import campaign
from reprise.runs import Store
from reprise.train import make_record
from reprise.train.checkpoint import found

FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]


def make(run, folder, every=0, watch=None):
    """Have a run in a store."""
    given = ImageSource(images())
    executor, chosen = Here(given, watch=watch), {"keep_files": True, "checkpoint_every": every}
    (outcome,) = campaign([run], executor, Store(folder), images=given, **chosen)
    assert outcome.error is None, outcome.error


@cache
def uninterrupted(arm):
    """The record of a run that nothing happens to, and its weights."""
    with thin_networks():
        run = run_to(config(**ARMS[arm]))
    return json.dumps(result(make_record(run.result({})))), weights(run)


def same_result(arm, folder):
    """Whether the store holds the record and the weights of the uninterrupted run, and nothing unfinished."""
    record, learnt = uninterrupted(arm)
    store, name = Store(folder), identity(config(**ARMS[arm]))
    assert [json.dumps(result(one)) for one in store.records()] == [record]
    for part, prefix in (("live", "live.net."), ("ema", "ema.")):
        kept = safetensors.torch.load_file(store.files(name) / f"{part}.safetensors")
        wanted = {key: value for key, value in learnt.items() if key.startswith(prefix)}
        assert same({f"{prefix}{key}": value for key, value in kept.items()}, wanted)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    # The index is for people, and is written when all is done: a kill just before that leaves none.
    assert left - {"index.md"} == {*(f"files/{name}/{file}" for file in FILES), f"records/{name}.json"}
    return True


def forked(job):
    """Do a job in a process of its own; its number."""
    number = os.fork()
    if number:
        return number
    try:
        job()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(number):
    """How a process ended: its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def dawdle(run, trained):
    """Take time, and never reach the end, however late the killer comes."""
    time.sleep(0.005 if trained.step < 14 else 60)


def kill_at_random(folder):
    """For every arm: train, kill once a checkpoint is there and a little later, and resume."""
    for place, (arm, settings) in enumerate(ARMS.items()):
        out, every = folder / str(place), 1 + place % 3

        def begin(settings=settings, out=out, every=every):
            make(config(**settings), out, every, dawdle)

        victim = forked(begin)
        checkpoints = Store(out).unfinished(identity(config(**settings)))
        while not any(found(checkpoints)):
            assert os.waitpid(victim, os.WNOHANG) == (0, 0), f"{arm}: it ended before it was killed"
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.08))
        os.kill(victim, signal.SIGKILL)
        assert ended(victim) == -signal.SIGKILL, arm
        assert not list(Store(out).records()), arm
        assert ended(forked(lambda s=settings, o=out: make(config(**s), o))) == 0, arm


def kill_while_writing(folder):
    """Kill a run after its n-th touch of the disk, early, in the second checkpoint and at the end; and resume it."""
    settings, calls = config(**ARMS["er-ace"]), 0

    def begin(out, last):
        def counted(function):
            def wrapped(*args, **options):
                nonlocal calls
                done = function(*args, **options)
                calls += 1
                if calls == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return done

            return wrapped

        os.fsync, os.replace, os.unlink = counted(os.fsync), counted(os.replace), counted(os.unlink)
        shutil.rmtree, safetensors.torch.save_file = counted(shutil.rmtree), counted(safetensors.torch.save_file)
        make(settings, out, 5)
        (out / "calls").write_text(str(calls))

    assert ended(forked(lambda: begin(folder / "whole", -1))) == 0
    total = int((folder / "whole" / "calls").read_text())
    (folder / "whole" / "calls").unlink()
    for last in [2, *range(9, 18, 2), *range(total - 11, total, 2), total - 2]:
        out = folder / str(last)
        assert ended(forked(lambda o=out, n=last: begin(o, n))) == -signal.SIGKILL, last
        assert ended(forked(lambda o=out: make(settings, o))) == 0, last


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Where runs that were killed and resumed have left what they learnt: at random moments, and while they wrote."""
    folder = tmp_path_factory.mktemp("killed")
    code = f"""
import pathlib, lab.test_killed as t
with t.thin_networks():
    t.run_to(t.config(), 0)  # imports all that a run imports
    t.kill_at_random(pathlib.Path({str(folder / "random")!r}))
    t.kill_while_writing(pathlib.Path({str(folder / "writing")!r}))
"""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return folder


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@needs_fork
@pytest.mark.parametrize("arm", ARMS)
def test_a_run_killed_at_any_moment_ends_as_the_one_that_was_not(arm, killed):
    out = killed / "random" / str(list(ARMS).index(arm))
    (record,) = Store(out).records()
    assert 0 < record["timings"]["steps"] < 15, "it was resumed, neither begun again nor finished before"
    assert same_result(arm, out)


@needs_fork
def test_a_run_killed_while_it_writes_ends_as_the_one_that_was_not(killed):
    folders = list((killed / "writing").iterdir())
    assert len(folders) > 10
    for folder in folders:
        assert same_result("er-ace", folder), folder
