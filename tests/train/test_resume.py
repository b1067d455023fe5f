"""Resuming: a run that was stopped, or robbed of its newest checkpoint, ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
import torch
from train.tinyruns import ARMS, config, go_to, images, result, run_to, same, thin_networks, weights

from reprise.train import Training, make_record, train
from reprise.train.checkpoint import KEPT, found, load, save

FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


@cache
def uninterrupted(arm):
    """The record of a run that nothing happens to, and its weights."""
    run = run_to(config(**ARMS[arm]))
    return json.dumps(result(make_record(run.result({})))), weights(run)


def go_on(out, arm="er-ace", **options):
    """Train with checkpoints and weights in a folder."""
    folders = {"checkpoints": out / "checkpoints", "keep": out / "kept"}
    return train(config(**ARMS[arm]), images(), **folders, **options)


def same_result(arm, found, out):
    """Whether a record, and the weights that were kept with it, are those of the uninterrupted run."""
    record, learnt = uninterrupted(arm)
    assert json.dumps(result(found)) == record
    for name, prefix in (("live", "live.net."), ("ema", "ema.")):
        kept = safetensors.torch.load_file(out / "kept" / f"{name}.safetensors")
        assert same({f"{prefix}{key}": value for key, value in kept.items()}, only(learnt, prefix))
    assert sorted(path.name for path in (out / "kept").iterdir()) == FILES
    return True


def only(learnt, prefix):
    return {key: value for key, value in learnt.items() if key.startswith(prefix)}


@pytest.mark.parametrize("arm", ARMS)
def test_a_stopped_run_ends_as_the_one_that_did_not_stop(arm, tmp_path):
    stop = random.Random(arm).randint(1, 14)
    first = run_to(config(**ARMS[arm]), stop)
    save(first, tmp_path)
    second = Training(config(**ARMS[arm]), images())
    assert load(second, tmp_path)
    assert second.step == stop
    assert same(weights(first), weights(second))
    go_to(second)
    record, learnt = uninterrupted(arm)
    assert json.dumps(result(make_record(second.result({})))) == record
    assert same(weights(second), learnt)


@pytest.mark.parametrize("stop", [0, 1, 3, 14, 15])
def test_any_step_is_good_to_stop_at_the_first_and_the_last_too(stop, tmp_path):
    arm = "er-ace, linear, momentum"
    save(run_to(config(**ARMS[arm]), stop), tmp_path)
    second = Training(config(**ARMS[arm]), images())
    assert load(second, tmp_path)
    go_to(second)
    assert json.dumps(result(make_record(second.result({})))) == uninterrupted(arm)[0]


def test_the_state_of_a_run_is_all_of_it(tmp_path):
    """A checkpoint of what was loaded from a checkpoint is the same file, byte for byte."""
    first = run_to(config(**ARMS["er, mir:12"]), 7)
    one = save(first, tmp_path / "one")
    second = Training(first.run, images())
    load(second, tmp_path / "one")
    two = save(second, tmp_path / "two")
    for name in ("state.safetensors", "state.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not show what is mapped")
def test_a_resumed_run_does_not_live_in_its_checkpoint(tmp_path):
    """Else it would break when the file goes: momentum and counts are taken over as they are read."""
    arm = ARMS["er-ace, linear, momentum"]
    save(run_to(config(**arm), 4), tmp_path)
    run = Training(config(**arm), images())
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
        go_on(out, arm, checkpoint_every=every, watch=watch)


def names(out):
    return sorted(path.name for path in (out / "checkpoints").iterdir())


def test_the_last_two_checkpoints_are_kept(tmp_path):
    assert KEPT == 2
    broken_off(tmp_path, at=11, every=2)
    assert names(tmp_path) == ["step-00000009", "step-00000010"]  # 9 is a task's end
    taken = []
    record = go_on(tmp_path, watch=lambda _, trained: taken.append(trained.step))
    assert taken == [11, 12, 13, 14, 15]
    assert names(tmp_path) == ["step-00000012", "step-00000015"]  # whoever keeps the record removes them
    assert same_result("er-ace", record, tmp_path)


def test_what_killed_processes_left_goes_when_a_run_begins(tmp_path):
    (tmp_path / "checkpoints" / ".step-00000003.77.part").mkdir(parents=True)
    broken_off(tmp_path, at=0, every=0)
    assert names(tmp_path) == []


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
    record = go_on(tmp_path, warn=said.append)
    assert record["timings"]["steps"] == 6
    assert len(said) == 1
    assert f"The checkpoint {newest} is damaged: " in said[0]
    assert same_result("er-ace", record, tmp_path)


def test_when_all_are_damaged_the_run_begins_again(tmp_path):
    broken_off(tmp_path, at=11, every=2)
    for path in found(tmp_path / "checkpoints"):
        DAMAGE["a byte of a tensor"](path)
    said = []
    record = go_on(tmp_path, warn=said.append)
    assert record["timings"]["steps"] == 15
    assert len(said) == 2
    assert same_result("er-ace", record, tmp_path)


def test_two_good_checkpoints_are_kept_beside_a_damaged_one(tmp_path):
    broken_off(tmp_path, at=14, every=7)
    assert names(tmp_path) == ["step-00000012", "step-00000014"]
    DAMAGE["a byte of a tensor"](tmp_path / "checkpoints" / "step-00000014")
    run = Training(config(**ARMS["er-ace"]), images())
    assert load(run, tmp_path / "checkpoints")
    go_to(run, 13)
    save(run, tmp_path / "checkpoints")
    assert names(tmp_path) == ["step-00000012", "step-00000013"]


def test_what_was_never_begun_is_begun(tmp_path):
    said = []
    record = go_on(tmp_path, warn=said.append)
    assert record["timings"]["steps"] == 15
    assert not said
    assert same_result("er-ace", record, tmp_path)


def begun(out):
    """A run that was stopped after its tenth step, with one thread."""
    save(run_to(config(), 10), out)
    return out


def test_a_resume_under_another_number_of_threads_says_so(tmp_path, request):
    begun(tmp_path)
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    said = []
    record = train(config(), images(), checkpoints=tmp_path, warn=said.append)
    assert len(said) == 1
    assert "threads 1, now 2" in said[0]
    assert record["provenance"]["threads"] == 2


def test_without_a_way_to_say_it_a_resume_warns(tmp_path, request):
    begun(tmp_path)
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    with pytest.warns(UserWarning, match="threads 1, now 2"):
        train(config(), images(), checkpoints=tmp_path)


def test_a_resume_under_the_same_conditions_says_nothing(tmp_path):
    said = []
    record = train(config(), images(), checkpoints=begun(tmp_path), warn=said.append)
    assert said == []
    assert record["provenance"]["threads"] == 1
    assert record["provenance"]["instructions"] == torch.backends.cpu.get_cpu_capability()
