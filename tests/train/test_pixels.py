"""Images are stored once, as uint8: shared, mapped, and never copied by what replays them."""

from __future__ import annotations

import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from train.tinyruns import config, go_to, images, thin_networks

from reprise.data import from_arrays
from reprise.train import Images, Training
from reprise.train.pixels import Pixels

CPU = torch.device("cpu")
IDS = torch.tensor([3, 0, 3, 17])
PLAN = torch.tensor([[4, 4, 0], [0, 8, 1], [7, 2, 0], [4, 4, 1]], dtype=torch.int8)


def forms(tmp_path):
    """The same images in every form in which an array may come."""
    train = images().train
    fixed = train.images.copy()
    fixed.setflags(write=False)
    np.save(tmp_path / "pixels.npy", train.images)
    back = train.images[::-1].copy()[::-1]
    apart = np.repeat(train.images, 2, axis=2)[:, :, ::2]
    return {
        "plain": train.images,
        "read-only": fixed,
        "view of a read-only one": fixed[:],
        "mapped, read-only": np.load(tmp_path / "pixels.npy", mmap_mode="r"),
        "mapped, copy on write": np.load(tmp_path / "pixels.npy", mmap_mode="c"),
        "backwards": back,
        "with gaps": apart,
    }


FORMS = ["plain", "read-only", "view of a read-only one", "mapped, read-only", "mapped, copy on write", "backwards"]


@pytest.mark.parametrize("form", [*FORMS, "with gaps"])
def test_every_form_gives_the_same_pixels(form, tmp_path):
    train = images().train
    pixels = Pixels(replace(train, images=forms(tmp_path)[form]), CPU)
    usual = Pixels(train, CPU)
    np.testing.assert_array_equal(pixels.gather(IDS).numpy(), train.images[IDS.numpy()])
    assert torch.equal(pixels.augmented(IDS, PLAN), usual.augmented(IDS, PLAN))
    assert pixels.augmented(IDS, PLAN).shape == (4, 3, 16, 16)


@pytest.mark.parametrize("form", ["plain", "read-only", "view of a read-only one", "with gaps"])
def test_on_the_cpu_the_array_is_shared(form, tmp_path):
    array = forms(tmp_path)[form]
    pixels = Pixels(replace(images().train, images=array), CPU)
    assert pixels.images.data_ptr() == array.__array_interface__["data"][0]


def test_a_mapped_array_stays_on_disk(tmp_path):
    pixels = Pixels(replace(images().train, images=forms(tmp_path)["mapped, read-only"]), CPU)
    assert not [one for one in tensors(pixels) if one.dtype == torch.uint8 and one.numel()]


def test_read_only_labels_will_do():
    labels = images().train.labels.copy()
    labels.setflags(write=False)
    assert Pixels(replace(images().train, labels=labels), CPU).labels.tolist() == labels.tolist()


def test_normalisation_is_that_of_the_set():
    train = images().train
    found = Pixels(train, CPU).normalised(torch.from_numpy(train.images)).numpy()
    expected = (train.images / 255 - np.array(train.mean)) / np.array(train.std)
    np.testing.assert_allclose(found, expected.transpose(0, 3, 1, 2), atol=1e-5)
    assert np.abs(found.mean((0, 2, 3))).max() < 1e-4
    assert np.abs(found.std((0, 2, 3)) - 1).max() < 1e-4


def tensors(root):
    """Every tensor, and array as a tensor, that can be reached from an object."""
    found, waiting, met = [], [root], set()
    while waiting:
        one = waiting.pop()
        if id(one) in met or isinstance(one, (str, bytes, int, float, type, types.ModuleType)) or one is None:
            continue
        met.add(id(one))
        if isinstance(one, torch.Tensor):
            found.append(one)
        elif isinstance(one, np.memmap):
            continue  # on disk
        elif isinstance(one, np.ndarray):
            found.append(torch.from_numpy(one if one.flags.writeable else one.copy()))
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
        elif isinstance(one, types.MethodType):
            waiting.append(one.__self__)
        elif isinstance(one, nn.Module) or hasattr(one, "__dict__") or hasattr(one, "__slots__"):
            waiting += [*vars(one).values()] if hasattr(one, "__dict__") else []
            slots = getattr(type(one), "__slots__", ())
            waiting += [getattr(one, name) for name in slots if hasattr(one, name)]
    return found


@pytest.mark.parametrize("settings", [{}, {"learner": "none"}, {"learner": "er", "retrieval": "mir:12"}])
def test_a_run_holds_no_second_copy_of_any_image(settings):
    with thin_networks():
        run = Training(config(**settings), images())
    go_to(run, 9)
    reached = tensors(run)
    assert any(one.dtype == torch.float32 and one.ndim == 4 for one in reached)  # the search does find the weights
    stored = {one.data_ptr() for one in reached if one.dtype == torch.uint8}
    assert stored == {images().train.images.ctypes.data, images().test.images.ctypes.data}
    side = images().train.images[0].size
    others = [one for one in reached if one.dtype != torch.uint8 and one.ndim > 1 and len(one)]
    large = [one.shape for one in others if one[0].numel() >= side]
    assert not large, "an image may hide in another type"


def test_a_run_over_mapped_images_is_the_same_run(tmp_path):
    np.save(tmp_path / "pixels.npy", images().train.images)
    mapped = replace(images().train, images=np.load(tmp_path / "pixels.npy", mmap_mode="c"))
    losses = []
    for train in (images().train, mapped):
        with thin_networks():
            run = Training(config(), Images(train, images().test))
        go_to(run, 5)
        losses.append(run.losses[:5].tolist())
    assert losses[0] == losses[1]


def test_grey_images_are_given_three_channels():
    grey = np.random.default_rng(0).integers(0, 256, (4, 6, 6), np.uint8)
    found = Pixels(from_arrays(grey, [0, 1, 0, 1]), CPU).gather(torch.arange(4)).numpy()
    np.testing.assert_array_equal(found, np.repeat(grey[..., None], 3, 3))
