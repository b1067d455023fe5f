"""Records and checkpoints of other images, or of an older format, are never taken for this run's."""

from __future__ import annotations

import pytest
from data.tinysets import save
from train.tinyruns import config, identity, images, other_pixels, result, thin_networks

from reprise.cli import main
from reprise.runs import Store
from reprise.runs.images import other_images
from reprise.train import train


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
        train(config(), images(), checkpoints=tmp_path, watch=stop)
    mine, theirs = (getattr(given, part).fingerprint()[:12] for given in (other_pixels(part=part), images()))
    with pytest.raises(ValueError) as found:
        train(config(), other_pixels(part=part), checkpoints=tmp_path)
    assert str(found.value) == (
        f"the checkpoint {tmp_path / 'step-00000003'} is of a run on other images: its "
        f"{'training' if part == 'train' else part} images have the fingerprint {theirs}, this run's have {mine}; "
        "give another folder, or the same images"
    )
    assert names(tmp_path) == ["step-00000003"]
    assert result(train(config(), images(), checkpoints=tmp_path)) == result(train(config(), images()))


def test_a_checkpoint_of_an_older_format_is_neither_believed_nor_removed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config(), images(), checkpoints=tmp_path, watch=stop)
    path = tmp_path / "step-00000003" / "state.json"
    path.write_text(path.read_text().replace("reprise-checkpoint/3", "reprise-checkpoint/2"))
    with pytest.raises(ValueError, match=r"written by another version of reprise: its format is .*/2', older than"):
        train(config(), images(), checkpoints=tmp_path)
    assert names(tmp_path) == ["step-00000003"]


def test_images_that_differ_in_a_bit_make_another_run():
    usual = identity(config())
    assert len({usual, identity(config(), other_pixels()), identity(config(), other_pixels(part="test"))}) == 3
    given = other_pixels()
    before = identity(config(), given)
    given.train.images[0, 0, 0, 0] ^= 1  # where they lie
    assert identity(config(), given) not in (before, usual)
    assert other_images(images().fingerprints(config()), images().fingerprints(config())) is None


def test_a_validation_run_does_not_depend_on_test_images():
    run = config(validation=True)
    assert train(run, images())["data"] == {"train": images().train.fingerprint()}
    assert identity(run, other_pixels(part="test")) == identity(run)
    assert identity(run, other_pixels()) != identity(run)


def test_a_record_of_an_older_format_is_neither_used_nor_called_damaged(tmp_path):
    store, said = Store(tmp_path), []
    path = store.record_file(identity(config()))
    path.parent.mkdir()
    path.write_text('{"format": "reprise-record/2"}')
    assert store.get(identity(config()), said.append) is None
    assert said == [
        f"The record {path} was written by another version of reprise: its format is 'reprise-record/2', older than "
        "'reprise-record/4'. It is not used; its run is made again where it is needed."
    ]


def test_pictures_that_have_changed_are_another_run(tmp_path, capsys):
    folder = tmp_path / "pictures"
    for number, (part, name) in enumerate((part, name) for part in ("train", "test") for name in "ab"):
        for k in range(3):
            save(folder / part / name / f"{k}.png", 10 * number + k, (16, 16))
    line = f"train --tasks 2 --batch 2 --dataset {folder} --out {tmp_path / 'runs'} --device cpu".split()
    assert main(line) == 0
    table = capsys.readouterr().out
    assert main(line) == 0
    again = capsys.readouterr()
    assert again.out == table
    assert again.err.endswith("this run was finished before; its record is shown\n")
    save(folder / "train" / "b" / "0.png", 99, (16, 16))
    assert main(line) == 0
    assert "finished before" not in capsys.readouterr().err
    one, other = (record["data"] for record in Store(tmp_path / "runs").records())
    assert other_images(one, other).startswith("its training images have the fingerprint")
