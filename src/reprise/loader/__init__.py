"""Tapes for any DataLoader: a data set of whole steps, or a batch sampler."""

from __future__ import annotations

from reprise.loader.dataset import TapeBatch, TapeDataset
from reprise.loader.nested import split_batch
from reprise.loader.sampler import TapeBatchSampler

__all__ = ["TapeBatch", "TapeBatchSampler", "TapeDataset", "split_batch"]
