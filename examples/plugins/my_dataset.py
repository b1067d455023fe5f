"""A data set of one's own: gratings, ten classes of stripes that differ in direction.

reprise train --import examples/plugins/my_dataset.py --dataset mine --width 8 --out run
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reprise.data import Dataset, register

CLASSES, SIDE = 10, 16


def load(split: str, root: Path | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images N×H×W, uint8, and a label each; `root` is the folder of --data, which this one does not need."""
    each = 100 if split == "train" else 20
    random = np.random.default_rng(0 if split == "train" else 1)
    labels = np.repeat(np.arange(CLASSES), each)
    angle = np.pi * (labels + random.uniform(-0.3, 0.3, len(labels))) / CLASSES
    phase = random.uniform(0, 2 * np.pi, (len(labels), 1, 1))
    y, x = np.mgrid[:SIDE, :SIDE]
    along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    noise = random.normal(0, 20, along.shape)
    return np.clip(127 + 80 * np.sin(along * 1.2 + phase) + noise, 0, 255).astype(np.uint8), labels


# `register("dataset", "mine")(load)` would do. With its sizes, streams of its labels are known without its images.
register("dataset", "mine")(Dataset("mine", classes=CLASSES, train=100 * CLASSES, test=20 * CLASSES, load=load))
