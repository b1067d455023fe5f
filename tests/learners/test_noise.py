"""Noise that follows from a key: SplitMix64 as published, and numbers that are standard normal and independent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from reprise.learners import noise
from reprise.learners.noise import standard_normal, word

MASK = (1 << 64) - 1


def split_mix(seed: int, count: int) -> list[int]:
    """The generator as it was published, with whole numbers that do not overflow."""
    found = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        bits = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(bits ^ (bits >> 31))
    return found


def key(value: int) -> torch.Tensor:
    """A 64-bit word as torch has it, with a sign."""
    return torch.tensor(value - (1 << 64) if value >> 63 else value)


@pytest.mark.parametrize("seed", [0, 1, 1234567, (1 << 63) - 1, 1 << 63, MASK])
def test_words_are_those_of_split_mix(seed):
    mine = word(key(seed), torch.arange(50))
    assert [one & MASK for one in mine.tolist()] == split_mix(seed, 50)


def test_words_are_the_published_ones():
    """The first of seed 1234567, which lists of such generators give as an example."""
    assert split_mix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_as_many_numbers_as_were_asked_for(count):
    found = standard_normal(key(5), count)
    assert found.shape == (count,)
    assert found.dtype == torch.float32


def test_numbers_are_standard_normal():
    found = standard_normal(key(7), 200_001).double().numpy()
    assert np.isfinite(found).all()
    assert stats.kstest(found, "norm").pvalue > 1e-3
    for half in (found[:100_000], found[100_001:]):  # cosines, sines
        assert stats.kstest(half, "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(found)) < 4 * np.sqrt(24 / len(found))
    assert 4 < np.abs(found).max() < 6.8


def test_numbers_of_a_word_of_neighbours_and_of_other_keys_are_not_correlated():
    count = 100_000
    found = standard_normal(key(1), 2 * count).double().numpy()
    first, second = found[:count], found[count:]
    keys = word(key(1), torch.arange(2))
    others = [standard_normal(one, count).double().numpy() for one in keys]
    neighbours = [(first[1:], first[:-1]), (first[2:], first[:-2])]
    for one, other in [(first, second), *neighbours, (others[0], others[1]), (first, others[0])]:
        for a, b in ((one, other), (one**2, other**2)):
            assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(count)


def test_the_ends_of_the_range_give_numbers(monkeypatch):
    """The least and the largest half of a word: no logarithm of 0."""
    for bits in (0, MASK, MASK << 32 & MASK, MASK >> 32):
        monkeypatch.setattr(noise, "word", lambda *_, bits=bits: key(bits)[None])
        found = standard_normal(key(0), 2)
        assert torch.isfinite(found).all()
        assert found.abs().max() < 6.8
