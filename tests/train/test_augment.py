"""Crops and flips: against a crop written out image by image, and the law by which they are planned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory.sampling import ALPHA, uniform_fit
from train.tinyruns import cut_by_hand

from reprise.data import from_arrays
from reprise.runs.augmentation import AUGMENTS, PAD, plan_augmentation
from reprise.train.augment import augment
from reprise.train.pixels import Pixels

SPAN = range(2 * PAD + 1)


@st.composite
def batches(draw):
    """Images, which of them, and for each a crop; sides may be odd, unequal, and shorter than the padding."""
    count, height, width = draw(st.integers(1, 4)), draw(st.integers(1, 11)), draw(st.integers(1, 11))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    images = random.integers(1, 256, (count, height, width, 3), np.uint8)  # black is nowhere but in the padding
    row = st.tuples(st.integers(0, count - 1), st.sampled_from(SPAN), st.sampled_from(SPAN), st.integers(0, 1))
    return images, np.array(draw(st.lists(row, max_size=6)), np.int64).reshape(-1, 4)


@given(batches())
def test_a_batch_is_what_cutting_image_by_image_gives(batch):
    images, rows = batch
    plan = torch.from_numpy(rows[:, 1:].astype(np.int8))
    found = augment(torch.from_numpy(images), torch.from_numpy(rows[:, 0]), plan)
    assert found.dtype == torch.uint8
    assert found.shape == (len(rows), *images.shape[1:])
    for pixels, (chosen, *crop) in zip(found.numpy(), rows.tolist(), strict=True):
        np.testing.assert_array_equal(pixels, cut_by_hand(images[chosen], *crop))


def test_padding_is_black_before_normalisation_and_channels_keep_their_places():
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    image = np.zeros((1, 8, 8, 3), np.uint8) + np.array([10, 100, 200], np.uint8)
    pixels = Pixels(from_arrays(np.repeat(image, 2, 0), [0, 1], mean=mean, std=std), torch.device("cpu"))
    found = pixels.augmented(torch.tensor([0]), torch.tensor([[0, 2 * PAD, 0]], dtype=torch.int8))[0]
    black = -torch.tensor(mean) / torch.tensor(std)
    inside = (torch.tensor([10, 100, 200]) / 255 - torch.tensor(mean)) / torch.tensor(std)
    torch.testing.assert_close(found[:, :PAD, :], black[:, None, None].expand(3, PAD, 8))  # above: the crop lies high
    torch.testing.assert_close(found[:, :, PAD:], black[:, None, None].expand(3, 8, PAD))  # and far to the right
    torch.testing.assert_close(found[:, PAD:, :PAD], inside[:, None, None].expand(3, PAD, PAD))


def test_offsets_and_flips_are_uniform_and_independent():
    plan = plan_augmentation(3, "augmentation", (180, 90), "crop+flip").reshape(-1, 3)
    every = [(down, right, flip) for down in SPAN for right in SPAN for flip in (0, 1)]
    assert uniform_fit(map(tuple, plan.tolist()), every) > ALPHA
    following = zip(plan[:-1:2, 0].tolist(), plan[1::2, 0].tolist(), strict=True)
    assert uniform_fit(following, [(one, other) for one in SPAN for other in SPAN]) > ALPHA


def test_nothing_is_flipped_unless_asked_and_the_crops_are_the_same():
    flipped = plan_augmentation(1, "augmentation", (50, 8), "crop+flip")
    crops = plan_augmentation(1, "augmentation", (50, 8), "crop")
    assert not crops[..., 2].any()
    assert flipped[..., 2].any()
    np.testing.assert_array_equal(crops[..., :2], flipped[..., :2])


def test_none_leaves_every_image_as_it_is():
    plan = plan_augmentation(1, "augmentation", (7,), "none")
    images = np.random.default_rng(0).integers(0, 256, (7, 5, 9, 3), np.uint8)
    found = augment(torch.from_numpy(images), torch.arange(7), torch.from_numpy(plan))
    np.testing.assert_array_equal(found.numpy(), images)


@pytest.mark.parametrize("kind", AUGMENTS)
def test_a_plan_depends_on_seed_and_name_alone(kind):
    plan = plan_augmentation(4, "augmentation", (30, 8), kind)
    np.testing.assert_array_equal(plan, plan_augmentation(4, "augmentation", (30, 8), kind))
    np.testing.assert_array_equal(plan[:20], plan_augmentation(4, "augmentation", (20, 8), kind))
    if kind != "none":
        assert (plan != plan_augmentation(5, "augmentation", (30, 8), kind)).any()
        assert (plan != plan_augmentation(4, "augmentation of replay", (30, 8), kind)).any()
