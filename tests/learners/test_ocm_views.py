"""OCM's views: turned images against NumPy, crops against a literal sampling, and the laws of chance in them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reprise.core.rng import Random
from reprise.learners import ocm_views

CLASSES, SIZE = 6, 8


def images(count: int, seed: int) -> torch.Tensor:
    numbers = Random(seed, "images").fractions(count * 3 * SIZE * SIZE)
    return torch.from_numpy(numbers).view(count, 3, SIZE, SIZE).float() * 4 - 2


def literal_positions(x: NDArray[np.float32], count: int) -> list[NDArray[np.float32]]:
    """Each position in turn, one image at a time, rows of pixels first."""
    found = []
    for quarters in range(4):
        for inner in range(count // 4):
            for image in x:
                picture = image.transpose(1, 2, 0).copy()
                middle = picture.shape[1] // 2
                if inner in (1, 2):
                    picture[:, middle:] = np.rot90(picture[:, middle:], 2)
                if inner in (2, 3):
                    picture[:, :middle] = np.rot90(picture[:, :middle], 2)
                found.append(np.rot90(picture, quarters).transpose(2, 0, 1))
    return found


@pytest.mark.parametrize("size", [8, 7])
@pytest.mark.parametrize("count", [4, 16])
def test_rotations_are_those_of_numpy(count: int, size: int) -> None:
    x = images(2, 0)[:, :, :size, :size]
    turned = ocm_views.rotations(x, count)
    expected = np.stack(literal_positions(x.numpy(), count))
    np.testing.assert_array_equal(turned.numpy(), expected)
    assert len({image.tobytes() for image in turned.numpy()}) == 2 * count  # all different
    assert torch.equal(turned[:2], x)


def test_pseudo_labels_tell_class_and_position() -> None:
    labels = ocm_views.pseudo_labels(torch.tensor([5, 0, 5]), 16, CLASSES)
    assert labels.tolist() == [y + CLASSES * position for position in range(16) for y in (5, 0, 5)]
    assert len(set(labels.tolist())) == 2 * 16


def test_an_oblong_image_cannot_be_turned() -> None:
    x = torch.zeros(1, 3, 4, 6)
    with pytest.raises(ValueError, match=r"square.*4×6"):
        ocm_views.rotations(x, 16)
    assert ocm_views.rotations(x, 1) is x


def test_crops_stay_inside_and_have_the_published_law() -> None:
    count, height, width = 4000, 32, 24
    maps = ocm_views.crop_maps(count, height, width, Random(0, "crops"))
    wide, high = np.abs(maps[:, 0, 0]), maps[:, 1, 1]
    across, down = maps[:, 0, 2], maps[:, 1, 2]
    assert (np.abs(across) + wide <= 1 + 1e-12).all()
    assert (np.abs(down) + high <= 1 + 1e-12).all()
    assert (maps[:, [0, 1], [1, 0]] == 0).all()
    pixels = np.stack([wide * width, high * height])
    np.testing.assert_allclose(pixels, np.rint(pixels), atol=1e-9)  # whole pixels
    assert (pixels >= 1).all()
    assert 0.27 < (wide * high).min() < 0.32  # as near .3 as whole pixels are
    shape = pixels[0] / pixels[1]
    assert 0.70 < shape.min() < 0.78
    assert 1.28 < shape.max() < 1.45
    assert abs((maps[:, 0, 0] < 0).mean() - 0.5) < 0.04
    touching = np.abs(down) + high > 1 - 1e-9
    assert touching.any()  # the edge is reached,
    assert not touching.all()  # and not always
    assert abs(down.mean()) < 0.02


def test_a_crop_too_large_is_the_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocm_views, "SCALE", (4.0, 5.0))
    maps = ocm_views.crop_maps(50, 8, 8, Random(0, "crops"))
    assert np.array_equal(np.abs(maps), np.broadcast_to(np.eye(2, 3), (50, 2, 3)))


def literal_sample(image: NDArray[np.float64], x: float, y: float) -> NDArray[np.float64]:
    """The image at a point given in pixels, between the four nearest, and as in a mirror beyond the edge."""
    size = image.shape[-1]

    def mirrored(at: int) -> int:
        return -at - 1 if at < 0 else 2 * size - 1 - at if at >= size else at

    value = np.zeros(3)
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            part = (1 - abs(y - row)) * (1 - abs(x - column))
            value += part * image[:, mirrored(row), mirrored(column)]
    return value


def test_views_are_the_crops_grey_and_flips_drawn() -> None:
    x = images(12, 4).double()
    seen = ocm_views.views(x, Random(5, "a view")).numpy()
    random = Random(5, "a view")
    grey = random.fractions(12) < 0.25
    maps = ocm_views.crop_maps(12, SIZE, SIZE, random)
    assert 0 < grey.sum() < 12
    for one, is_grey, crop, view in zip(x.numpy(), grey, maps, seen, strict=True):
        source = one.copy()
        if is_grey:
            source[:] = 0.299 * one[0] + 0.587 * one[1] + 0.114 * one[2]
        for row in range(SIZE):
            for column in range(SIZE):
                across, down = (2 * column + 1) / SIZE - 1, (2 * row + 1) / SIZE - 1
                at_x = ((crop[0, 0] * across + crop[0, 2] + 1) * SIZE - 1) / 2
                at_y = ((crop[1, 1] * down + crop[1, 2] + 1) * SIZE - 1) / 2
                np.testing.assert_allclose(view[:, row, column], literal_sample(source, at_x, at_y), atol=1e-9)


def test_a_quarter_of_the_views_is_grey() -> None:
    seen = ocm_views.views(images(600, 1), Random(0, "grey"))
    grey = (seen - seen.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-6
    assert abs(float(grey.float().mean()) - 0.25) < 0.06
