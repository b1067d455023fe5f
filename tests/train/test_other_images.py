"""Records and checkpoints of other images, or of an older format, are never taken for this run's."""

from __future__ import annotations

import pytest
from data.tinysets import save
from train.tinyruns import config, images, other_pixels, result, thin_networks

from reprise.cli import main
from reprise.train import Images, train


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def stop(run, trained):
    if trained.step == 4:
        raise KeyboardInterrupt


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_checkpoint_over_other_pixels_is_refused(part, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config(), images(), out=tmp_path, watch=stop)
    mine, theirs = (getattr(given, part).fingerprint()[:12] for given in (other_pixels(part=part), images()))
    with pytest.raises(ValueError) as found:
        train(config(), other_pixels(part=part), out=tmp_path, resume=True)
    assert str(found.value) == (
        f"the checkpoint {tmp_path / 'checkpoints' / 'step-00000003'} is of a run on other images: its "
        f"{'training' if part == 'train' else part} images have the fingerprint {theirs}, this run's have {mine}; "
        "give another --out, or the same images"
    )
    assert names(tmp_path / "checkpoints") == ["step-00000003"]
    assert result(train(config(), images(), out=tmp_path, resume=True)) == result(train(config(), images()))


def test_a_checkpoint_of_an_older_format_is_neither_believed_nor_removed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config(), images(), out=tmp_path, watch=stop)
    path = tmp_path / "checkpoints" / "step-00000003" / "state.json"
    path.write_text(path.read_text().replace("reprise-checkpoint/2", "reprise-checkpoint/1"))
    with pytest.raises(ValueError, match=r"written by another version of reprise: its format is .*/1', older than"):
        train(config(), images(), out=tmp_path, resume=True)
    assert names(tmp_path / "checkpoints") == ["step-00000003"]


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_folder_with_a_record_of_other_images_is_refused(part, tmp_path):
    first = train(config(), images(), out=tmp_path)
    other = other_pixels(part=part)
    mine, theirs = (getattr(given, part).fingerprint()[:12] for given in (other, images()))
    with pytest.raises(ValueError) as found:
        train(config(), other, out=tmp_path)
    assert str(found.value) == (
        f"{tmp_path / 'record.json'} is the record of a run on other images: its "
        f"{'training' if part == 'train' else part} images have the fingerprint {theirs}, this run's have {mine}; "
        "give another --out"
    )
    assert train(config(), images(), out=tmp_path) == first


def test_images_that_are_changed_where_they_lie_are_other_images(tmp_path):
    given = other_pixels()
    train(config(), given, out=tmp_path)
    given.train.images[0, 0, 0, 0] ^= 1
    with pytest.raises(ValueError, match="is the record of a run on other images"):
        train(config(), given, out=tmp_path)


def test_a_validation_run_does_not_depend_on_test_images(tmp_path):
    run = config(validation=True)
    first = train(run, images(), out=tmp_path)
    assert first["data"] == {"train": images().train.fingerprint()}
    assert train(run, other_pixels(part="test"), out=tmp_path) == first
    with pytest.raises(ValueError, match="other images: its training images"):
        train(run, other_pixels(), out=tmp_path)


def test_images_are_not_read_to_refuse_another_runs_record(tmp_path, monkeypatch):
    train(config(), images(), out=tmp_path)
    monkeypatch.setattr(Images, "load", lambda *_, **__: pytest.fail("images were read"))
    with pytest.raises(ValueError, match="is the record of another run"):
        train(config(seed=1), out=tmp_path)


def test_a_record_of_an_older_format_is_not_called_damaged(tmp_path):
    path = tmp_path / "record.json"
    path.write_text('{"format": "reprise-record/1"}')
    with pytest.raises(ValueError) as found:
        train(config(), images(), out=tmp_path)
    assert str(found.value) == (
        f"the record {path} was written by another version of reprise: its format is 'reprise-record/1', older than "
        "'reprise-record/2'; give another --out, or remove it to make the run again"
    )


def test_pictures_that_have_changed_are_another_run(tmp_path, capsys):
    folder = tmp_path / "pictures"
    for number, (part, name) in enumerate((part, name) for part in ("train", "test") for name in "ab"):
        for k in range(3):
            save(folder / part / name / f"{k}.png", 10 * number + k, (16, 16))
    line = f"train --tasks 2 --batch 2 --dataset {folder} --out {tmp_path / 'run'} --device cpu".split()
    assert main(line) == 0
    table = capsys.readouterr().out
    assert main(line) == 0
    assert capsys.readouterr() == (table, "this run was finished before; its record is shown\n")
    save(folder / "train" / "b" / "0.png", 99, (16, 16))
    assert main(line) == 2
    said = capsys.readouterr()
    assert "is the record of a run on other images: its training images have the fingerprint" in said.err
    assert said.out == ""
