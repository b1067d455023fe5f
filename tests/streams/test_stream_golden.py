"""Streams that have been used must never change: their hashes stand here.

A change that fails these tests changes every figure made with a stream. If it is meant, say so in the change log.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from reprise.streams import LabelStream, label_stream

BLURRED = {"disjoint": 0.5, "blur": 0.1}
GOLDEN: list[tuple[str, int, dict[str, Any], str]] = [
    ("cifar10-balanced", 4, {}, "cc121ba4588fd8c7"),
    ("cifar10-lt10", 1, {"tasks": 5}, "be505d791c7fcddc"),
    ("cifar100-balanced", 0, {}, "c909dbc5e498a100"),
    ("cifar100-lt10", 0, {}, "69b0506c9ab785a7"),
    ("cifar100-lt10", 1, {}, "f70ee724d248b1e4"),
    ("cifar100-lt100", 9, {}, "90026847eed0b7b4"),
    ("cifar100-lt10", 0, {"order": "permuted"}, "9c9256deb793b36e"),
    ("cifar100-lt10", 0, {"validation": True}, "9c54a83616e4219c"),
    ("cifar100-lt10", 0, {"imbalance_seed": 101}, "e5a15a25c802ea76"),
    ("cifar100-lt10", 0, BLURRED, "87718320eae3dde1"),
    ("tinyimagenet-lt10", 0, {}, "38fc9a656bf072f0"),
    ("tinyimagenet-lt100", 3, {"batch": 10}, "3723bc18216ce0a3"),
    ("glyphs-lt2.5", 2, {"order": "permuted", "validation": True, "tasks": 7} | BLURRED, "a85e3a560d21b9a9"),
]


def digest(stream: LabelStream) -> str:
    """A short hash of the order of arrival, its cuts and what is held out."""
    whole = hashlib.sha256()
    for array in (stream.ids, stream.offsets, stream.boundaries, stream.heldout):
        whole.update(array.astype("<i8").tobytes() + b"|")
    return whole.hexdigest()[:16]


@pytest.mark.parametrize(("name", "seed", "options", "expected"), GOLDEN)
def test_a_stream_never_changes(name: str, seed: int, options: dict[str, Any], expected: str) -> None:
    assert digest(label_stream(name, seed, **options)) == expected
