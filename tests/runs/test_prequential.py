"""Prequential accuracy: each batch predicted before it is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reprise.runs.metrics import prequential, prequential_by_task


def test_prequential() -> None:
    hits, sizes = [1, 2, 0, 3], [4, 4, 2, 4]
    assert prequential(hits, sizes) == 6 / 14
    np.testing.assert_allclose(prequential_by_task(hits, sizes, [2, 2, 4]), [3 / 8, math.nan, 3 / 6])
    np.testing.assert_allclose(prequential_by_task(hits, sizes, [4]), [6 / 14])


@pytest.mark.parametrize(
    ("hits", "sizes", "boundaries", "words"),
    [
        ([5], [4], [1], "got 5 of 4 at step 0"),
        ([-1], [4], [1], "got -1 of 4 at step 0"),
        ([1, 1], [4], [1], "got 2 and 1"),
        ([1, 1], [4, 4], [1], r"2 steps that were made, got \[1\]"),
        ([1, 1], [4, 4], [2, 1, 2], "must rise"),
        ([1, 1], [4, 4], [], "must rise"),
    ],
)
def test_prequential_refuses(hits: list[int], sizes: list[int], boundaries: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        prequential_by_task(hits, sizes, boundaries)


def test_prequential_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one example"):
        prequential([], [])
