"""Resuming: a run that was stopped, killed or robbed of its newest checkpoint ends as if nothing had happened."""

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
import torch
from train.tinyruns import ARMS, config, go_to, images, result, run_to, same, thin_networks, weights

from reprise.train import Run, make_record, train
from reprise.train.checkpoint import KEPT, found, load, save
from reprise.train.training import RESULTS


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


@cache
def uninterrupted(arm):
    """The record of a run that nothing happens to, and its weights."""
    run = run_to(config(**ARMS[arm]))
    return json.dumps(result(make_record(run, {}))), weights(run)


def same_result(arm, out):
    """Whether the folder holds the record and the weights of the uninterrupted run, and nothing unfinished."""
    record, learnt = uninterrupted(arm)
    assert json.dumps(result(json.loads((out / "record.json").read_text()))) == record
    for name, prefix in (("live", "live.net."), ("ema", "ema.")):
        kept = safetensors.torch.load_file(out / f"{name}.safetensors")
        assert same({f"{prefix}{key}": value for key, value in kept.items()}, only(learnt, prefix))
    assert sorted(path.name for path in out.iterdir()) == sorted(RESULTS)
    return True


def only(learnt, prefix):
    return {key: value for key, value in learnt.items() if key.startswith(prefix)}


@pytest.mark.parametrize("arm", ARMS)
def test_a_stopped_run_ends_as_the_one_that_did_not_stop(arm, tmp_path):
    stop = random.Random(arm).randint(1, 14)
    first = run_to(config(**ARMS[arm]), stop)
    save(first, tmp_path)
    second = Run(config(**ARMS[arm]), images())
    assert load(second, tmp_path)
    assert second.step == stop
    assert same(weights(first), weights(second))
    go_to(second)
    record, learnt = uninterrupted(arm)
    assert json.dumps(result(make_record(second, {}))) == record
    assert same(weights(second), learnt)


@pytest.mark.parametrize("stop", [0, 1, 3, 14, 15])
def test_any_step_is_good_to_stop_at_the_first_and_the_last_too(stop, tmp_path):
    arm = "er-ace, linear, momentum"
    save(run_to(config(**ARMS[arm]), stop), tmp_path)
    second = Run(config(**ARMS[arm]), images())
    assert load(second, tmp_path)
    go_to(second)
    assert json.dumps(result(make_record(second, {}))) == uninterrupted(arm)[0]


def test_the_state_of_a_run_is_all_of_it(tmp_path):
    """A checkpoint of what was loaded from a checkpoint is the same file, byte for byte."""
    first = run_to(config(**ARMS["er, mir:12"]), 7)
    one = save(first, tmp_path / "one")
    second = Run(first.config, images())
    load(second, tmp_path / "one")
    two = save(second, tmp_path / "two")
    for name in ("state.safetensors", "state.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not show what is mapped")
def test_a_resumed_run_does_not_live_in_its_checkpoint(tmp_path):
    """Else it would break when the file goes: momentum and counts are taken over as they are read."""
    arm = ARMS["er-ace, linear, momentum"]
    save(run_to(config(**arm), 4), tmp_path)
    run = Run(config(**arm), images())
    load(run, tmp_path)
    assert run.step == 4
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


class Stopped(Exception):
    pass


def broken_off(out, at, every, arm="er-ace"):
    """Train until step `at`, then stop."""

    def watch(run, trained):
        if trained.step == at + 1:
            raise Stopped

    with pytest.raises(Stopped):
        train(config(**ARMS[arm]), images(), out=out, checkpoint_every=every, watch=watch)


def names(out):
    return sorted(path.name for path in (out / "checkpoints").iterdir())


def test_the_last_two_checkpoints_are_kept_and_none_after_the_end(tmp_path):
    assert KEPT == 2
    broken_off(tmp_path, at=11, every=2)
    assert names(tmp_path) == ["step-00000009", "step-00000010"]  # 9 is a task's end
    taken = []
    train(
        config(**ARMS["er-ace"]),
        images(),
        out=tmp_path,
        resume=True,
        watch=lambda _, trained: taken.append(trained.step),
    )
    assert taken == [11, 12, 13, 14, 15]
    assert same_result("er-ace", tmp_path)


def test_checkpoints_come_at_task_boundaries_even_if_not_asked_for(tmp_path):
    broken_off(tmp_path, at=8, every=0)
    assert names(tmp_path) == ["step-00000003", "step-00000006"]


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a byte of a tensor": lambda newest: flip(newest / "state.safetensors", -5),
    "a byte of the tensors' names": lambda newest: flip(newest / "state.safetensors", 20),
    "a byte of the state": lambda newest: flip(newest / "state.json", -200),
    "a byte of the configuration": lambda newest: flip(newest / "state.json", 80),
    "the end of the tensors": lambda newest: os.truncate(newest / "state.safetensors", 1000),
    "the end of the state": lambda newest: os.truncate(newest / "state.json", 1000),
    "all of the tensors": lambda newest: os.truncate(newest / "state.safetensors", 0),
    "all of the state": lambda newest: os.truncate(newest / "state.json", 0),
    "the file of tensors": lambda newest: (newest / "state.safetensors").unlink(),
    "the file of the state": lambda newest: (newest / "state.json").unlink(),
    "both files": lambda newest: [path.unlink() for path in newest.iterdir()],
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(what, tmp_path):
    broken_off(tmp_path, at=11, every=2)
    newest = tmp_path / "checkpoints" / "step-00000010"
    DAMAGE[what](newest)
    said = []
    record = train(config(**ARMS["er-ace"]), images(), out=tmp_path, resume=True, warn=said.append)
    assert record["timings"]["steps"] == 6
    assert len(said) == 1
    assert f"The checkpoint {newest} is damaged: " in said[0]
    assert same_result("er-ace", tmp_path)


def test_when_all_are_damaged_the_run_begins_again(tmp_path):
    broken_off(tmp_path, at=11, every=2)
    for path in found(tmp_path / "checkpoints"):
        DAMAGE["a byte of a tensor"](path)
    said = []
    record = train(config(**ARMS["er-ace"]), images(), out=tmp_path, resume=True, warn=said.append)
    assert record["timings"]["steps"] == 15
    assert len(said) == 2
    assert same_result("er-ace", tmp_path)


def test_two_good_checkpoints_are_kept_beside_a_damaged_one(tmp_path):
    broken_off(tmp_path, at=14, every=7)
    assert names(tmp_path) == ["step-00000012", "step-00000014"]
    DAMAGE["a byte of a tensor"](tmp_path / "checkpoints" / "step-00000014")
    run = Run(config(**ARMS["er-ace"]), images())
    assert load(run, tmp_path / "checkpoints")
    go_to(run, 13)
    save(run, tmp_path / "checkpoints")
    assert names(tmp_path) == ["step-00000012", "step-00000013"]


def test_resuming_what_was_never_begun_begins_it(tmp_path):
    said = []
    record = train(config(**ARMS["er-ace"]), images(), out=tmp_path, resume=True, warn=said.append)
    assert record["timings"]["steps"] == 15
    assert not said
    assert same_result("er-ace", tmp_path)


# Kill -9. One process imports torch and forks another for every run, so that each costs its own time alone.


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
            train(config(**settings), images(), out=out, checkpoint_every=every, watch=dawdle)

        victim = forked(begin)
        while not any(found(out / "checkpoints")):
            assert os.waitpid(victim, os.WNOHANG) == (0, 0), f"{arm}: it ended before it was killed"
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.08))
        os.kill(victim, signal.SIGKILL)
        assert ended(victim) == -signal.SIGKILL, arm
        assert not (out / "record.json").exists(), arm
        assert ended(forked(lambda s=settings, o=out: train(config(**s), images(), out=o, resume=True))) == 0, arm


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
        train(settings, images(), out=out, checkpoint_every=5)
        (out / "calls").write_text(str(calls))

    assert ended(forked(lambda: begin(folder / "whole", -1))) == 0
    total = int((folder / "whole" / "calls").read_text())
    (folder / "whole" / "calls").unlink()
    for last in [2, *range(9, 18, 2), *range(total - 11, total, 2), total - 2]:
        out = folder / str(last)
        assert ended(forked(lambda o=out, n=last: begin(o, n))) == -signal.SIGKILL, last
        assert ended(forked(lambda o=out: train(settings, images(), out=o, resume=True))) == 0, last


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Where runs that were killed and resumed have left what they learnt: at random moments, and while they wrote."""
    folder = tmp_path_factory.mktemp("killed")
    code = f"""
import pathlib, train.test_resume as t
with t.thin_networks():
    t.Run(t.config(), t.images())  # imports all that a run imports
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


def begun(out):
    """A run that was stopped after its tenth step, with one thread."""
    save(run_to(config(), 10), out / "checkpoints")
    return out


def test_a_resume_under_another_number_of_threads_says_so(tmp_path, request):
    begun(tmp_path)
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    said = []
    record = train(config(), images(), out=tmp_path, resume=True, warn=said.append)
    assert len(said) == 1
    assert "threads 1, now 2" in said[0]
    assert record["provenance"]["threads"] == 2


def test_without_a_way_to_say_it_a_resume_warns(tmp_path, request):
    begun(tmp_path)
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    with pytest.warns(UserWarning, match="threads 1, now 2"):
        train(config(), images(), out=tmp_path, resume=True)


def test_a_resume_under_the_same_conditions_says_nothing(tmp_path):
    said = []
    record = train(config(), images(), out=begun(tmp_path), resume=True, warn=said.append)
    assert said == []
    assert record["provenance"]["threads"] == 1
    assert record["provenance"]["instructions"] == torch.backends.cpu.get_cpu_capability()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@needs_fork
@pytest.mark.parametrize("arm", ARMS)
def test_a_run_killed_at_any_moment_ends_as_the_one_that_was_not(arm, killed):
    out = killed / "random" / str(list(ARMS).index(arm))
    record = json.loads((out / "record.json").read_text())
    assert 0 < record["timings"]["steps"] < 15, "it was resumed, neither begun again nor finished before"
    assert same_result(arm, out)


@needs_fork
def test_a_run_killed_while_it_writes_ends_as_the_one_that_was_not(killed):
    folders = list((killed / "writing").iterdir())
    assert len(folders) > 10
    for folder in folders:
        assert same_result("er-ace", folder), folder
