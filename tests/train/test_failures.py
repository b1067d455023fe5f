"""How training fails: with a sentence that says where and why, and the last good checkpoint in its place."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from data.tinysets import save as save_image
from safetensors import SafetensorError
from train.tinyruns import CLASSES, config, go_to, images, result, run_to, thin_networks

from reprise.data import DataError, from_arrays
from reprise.train import Images, Run, Training, TrainingFailed, train
from reprise.train import training as training_module
from reprise.train.checkpoint import load, save

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def spoil(step):
    """After this step, make the weights something that is not a number."""

    def watch(run, trained):
        if trained.step == step:
            run.net.fc.weight.data[0, 0] = torch.nan

    return watch


def never(run, trained):
    raise AssertionError("it is being trained")


# A loss that is not a number.


def test_a_loss_that_is_not_a_number_names_its_step():
    broken = replace(images().train, std=(float("nan"), 1.0, 1.0))
    with pytest.raises(TrainingFailed, match=r"the loss of step 1 of 15 is nan.*learning rate than 0\.03"):
        train(config(), Images(broken, images().test))


@pytest.mark.parametrize("settings", [{}, {"head": "linear"}, {"learner": "er", "retrieval": "mir:12"}], ids=str)
def test_a_learning_rate_beyond_all_bounds_is_a_failure_with_a_step(settings):
    with pytest.raises(TrainingFailed, match=r"step \d+ of 15.*diverged"):
        train(config(lr=1e38, **settings), images())


@pytest.mark.parametrize("settings", [{}, {"learner": "er", "retrieval": "mir:12"}], ids=str)
def test_the_last_good_checkpoint_outlives_a_diverged_run(settings, tmp_path):
    with pytest.raises(TrainingFailed, match="step 8 of 15"):
        train(config(**settings), images(), checkpoints=tmp_path, watch=spoil(7))
    assert names(tmp_path) == ["step-00000003", "step-00000006"]
    record = train(config(**settings), images(), checkpoints=tmp_path)
    assert record["timings"]["steps"] == 9
    assert result(record) == result(train(config(**settings), images()))


@pytest.mark.parametrize("step", [7, 9, 15])
def test_weights_that_are_not_numbers_are_neither_saved_nor_tested(step, tmp_path):
    """The loss of that very step was still in order."""
    with pytest.raises(TrainingFailed, match=rf"after step {step} of 15 net\.fc\.weight is not finite"):
        train(config(), images(), checkpoints=tmp_path, checkpoint_every=1, watch=spoil(step))
    assert names(tmp_path) == [f"step-{step - 2:08d}", f"step-{step - 1:08d}"]


def test_weights_that_overflow_in_the_last_step_make_no_record(monkeypatch):
    run = run_to(config(), 14)
    run.optimizer.param_groups[0]["lr"] = float("inf")
    with pytest.raises(TrainingFailed, match="after step 15 of 15"):
        go_to(run)


# A checkpoint of something else.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learner.name", "er"),
        ("memory.retrieval", "iid"),
        ("seed", 1),
        ("descent.lr", 0.5),
        ("learner.hyper", {"mask": "none"}),
        ("memory.buffer", 21),
        ("network.width", 3),
        ("readout.ema", 7),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_the_setting_that_differs(name, value, tmp_path):
    save(run_to(config(), 4), tmp_path)
    flat = {"learner.name": "learner"}.get(name, name.rpartition(".")[2])
    other = Training(config(**{flat: value}), images())
    before = {key: tensor.clone() for key, tensor in other.learner.state_dict().items()}
    shown = repr(value)[1:-1] if isinstance(value, dict) else repr(value)
    with pytest.raises(ValueError) as found:
        load(other, tmp_path)
    for word in (f"its {name} is", shown, "step-00000004", "another run"):
        assert word in str(found.value)
    assert other.step == 0
    assert all(torch.equal(tensor, before[key]) for key, tensor in other.learner.state_dict().items())
    assert names(tmp_path) == ["step-00000004"]


@pytest.mark.parametrize("settings", [{}, {"learner": "er", "retrieval": "mir:12"}], ids=str)
def test_a_checkpoint_over_other_data_is_refused(settings, tmp_path):
    """By the images' fingerprints; and, should a later version plan the same run otherwise, by its tape's hash."""
    run = run_to(config(**settings), 4)
    save(run, tmp_path)
    train_set = images().train
    other = Training(
        config(**settings), Images(replace(train_set, labels=(train_set.labels + 1) % CLASSES), images().test)
    )
    with pytest.raises(ValueError, match=r"is of a run on other images: its training images have the fingerprint"):
        load(other, tmp_path)
    other.data = run.data
    with pytest.raises(ValueError, match=r"does not fit: its .* is another one"):
        load(other, tmp_path)


# A folder that will not do.


def test_checkpoints_cannot_be_written_every_minus_one_steps(tmp_path):
    with pytest.raises(ValueError, match="checkpoint every must be 0 or more, got -1"):
        train(config(), images(), checkpoints=tmp_path, checkpoint_every=-1)


def test_a_file_with_a_checkpoints_name_is_refused_before_training(tmp_path):
    wrong = tmp_path / "step-00000009"
    wrong.write_text("mine")
    with pytest.raises(ValueError, match=r"step-00000009 is a file, and checkpoints, .* are folders: move it away"):
        train(config(), images(), checkpoints=tmp_path, watch=never)
    assert wrong.read_text() == "mine"
    wrong.unlink()
    assert train(config(), images(), checkpoints=tmp_path)["timings"]["steps"] == 15


def test_a_bad_value_in_the_middle_of_training_is_a_failure_of_the_run(tmp_path, monkeypatch):
    def fail(run):
        raise ValueError("no such thing")

    monkeypatch.setattr(Training, "evaluate", fail)
    with pytest.raises(TrainingFailed, match="the run failed after step 3 of 15: no such thing"):
        train(config(), images(), checkpoints=tmp_path)


def test_a_bad_value_of_whoever_watches_is_their_own(tmp_path):
    def watch(run, trained):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        train(config(), images(), checkpoints=tmp_path, watch=watch)


# A disk that is full.


def full_from(monkeypatch, place, name, call, error):
    """Let a function fail from this call of it on."""
    function, calls = getattr(place, name), 0

    def failing(*args, **options):
        nonlocal calls
        calls += 1
        if calls >= call:
            raise error
        return function(*args, **options)

    monkeypatch.setattr(place, name, failing)


@pytest.mark.parametrize(
    ("place", "name", "call", "error"),
    [
        (os, "fsync", 9, FULL),
        (os, "fsync", 10, FULL),
        (os, "replace", 3, FULL),
        (safetensors.torch, "save_file", 3, FULL),
        (safetensors.torch, "save_file", 3, SafetensorError("Error while serializing: No space left on device")),
    ],
)
def test_a_full_disk_keeps_the_last_good_checkpoint(place, name, call, error, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        full_from(patch, place, name, call, error)
        with pytest.raises(TrainingFailed) as found:
            train(config(), images(), checkpoints=tmp_path)
    last = tmp_path / "step-00000006"
    for words in ("checkpoint of step 9", "No space left on device", f"the last good one is {last}"):
        assert words in str(found.value)
    assert names(tmp_path) == ["step-00000003", "step-00000006"]
    record = train(config(), images(), checkpoints=tmp_path)
    assert record["timings"]["steps"] == 9
    assert result(record) == result(train(config(), images()))


def test_a_disk_that_is_full_at_the_end_keeps_the_whole_run(tmp_path, monkeypatch):
    folders = {"checkpoints": tmp_path / "checkpoints", "keep": tmp_path / "kept"}
    with monkeypatch.context() as patch:
        full_from(patch, training_module, "write_atomic", 1, FULL)
        with pytest.raises(TrainingFailed, match=r"results cannot be written.*No space left"):
            train(config(), images(), **folders)
    assert names(tmp_path / "checkpoints") == ["step-00000012", "step-00000015"]
    assert train(config(), images(), **folders)["timings"]["steps"] == 0
    assert names(tmp_path / "kept") == ["ema.safetensors", "live.safetensors", "tape.safetensors"]


def test_a_really_full_disk(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    probe = Training(config(), images())
    size = sum(path.stat().st_size for path in save(probe, tmp_path / "probe").iterdir())
    room = -(-size // 4096) * 4096 * 5 // 2  # for two and a half
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(small)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        with pytest.raises(TrainingFailed, match=r"checkpoint of step 9 cannot be written.*step-00000006"):
            train(config(), images(), checkpoints=small)
        assert names(small) == ["step-00000003", "step-00000006"]
        again = Training(config(), images())
        assert load(again, small)
        assert again.step == 6
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


# Data that will not do.


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRISE_CACHE", str(tmp_path / "cache"))
    for part in ("train", "test"):
        for number, name in enumerate(("ant", "bee")):
            for k in range(3):
                save_image(tmp_path / "pictures" / part / name / f"{k}.png", 10 * number + k, (16, 16))
    return tmp_path / "pictures"


def test_a_folder_of_pictures_is_learnt(pictures):
    settings = config(dataset=str(pictures), tasks=2)
    assert train(settings)["stream"]["examples"] == 6


def test_a_truncated_image_is_named(pictures):
    victim = pictures / "train" / "bee" / "1.png"
    os.truncate(victim, 60)
    with pytest.raises(DataError) as found:
        train(config(dataset=str(pictures), tasks=2))
    assert str(victim) in str(found.value)
    assert "damaged" in str(found.value)


def test_a_data_set_of_one_class_is_refused(pictures, tmp_path):
    for part in ("train", "test"):
        for path in (pictures / part / "bee").iterdir():
            path.unlink()
        (pictures / part / "bee").rmdir()
    with pytest.raises(ValueError, match="one class, 'ant'"):
        train(config(dataset=str(pictures), tasks=1))
    with pytest.raises(ValueError, match="one class"):
        from_arrays(np.zeros((4, 8, 8, 3), np.uint8), [0, 0, 0, 0])


def test_more_tasks_than_classes_are_refused():
    with pytest.raises(ValueError, match="tasks must be at most the number of classes, 10, got 11"):
        train(config(tasks=11), images())


def test_a_named_data_set_with_other_classes_is_refused():
    some = images().train.labels < 7
    few = replace(images().train, images=images().train.images[some], labels=images().train.labels[some])
    with pytest.raises(ValueError, match="cifar10 has 10 classes, but labels has"):
        train(Run.of(dataset="cifar10", width=2), Images(few, images().test))


def test_a_test_set_of_other_classes_is_refused():
    other = from_arrays(images().test.images, np.arange(len(images().test)) % 12, split="test")
    with pytest.raises(ValueError, match="12"):
        train(config(), Images(images().train, other))


@pytest.mark.parametrize("settings", [{"replay": 1}, {"batch": 19}], ids=str)
def test_one_small_image_in_a_batch_is_a_sentence_before_training(settings):
    """Twenty images a task in batches of nineteen leave one; at 4×4 it shrinks to a single position."""
    small = Images(*(replace(one, images=one.images[:, :4, :4].copy()) for one in (images().train, images().test)))
    with pytest.raises(ValueError, match=r"a batch of one image of 4×4 leaves BatchNorm a single number.* than 4×4"):
        Training(config(**settings), small)
    Training(config(**settings), images())  # at 16×16 sixteen positions are left
    with thin_networks(batchnorm=False):
        Training(config(**settings), small)


@pytest.mark.parametrize("what", ["checkpoints", "keep"])
def test_a_file_as_folder_is_said_to_be_none_before_training(what, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file cannot be made for the run's files: File exists"):
        train(config(), images(), watch=never, **{what: str(tmp_path / "file")})
