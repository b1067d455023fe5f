"""Contrastive terms of OCM: how far rows of the same pseudo-label stand out from all others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-8
"""Added to every share and every sum, as published: no pair can cost more than −log 10⁻⁸, about 18.4."""


def unit(rows: Tensor) -> Tensor:
    """Each row at length one, in single precision or better."""
    return F.normalize(rows if rows.dtype == torch.float64 else rows.float(), dim=1)


def similarity(rows: Tensor, *columns: Tensor) -> Tensor:
    """Inner products of every row with every column vector, added up over the given sets of columns.

    Never in reduced precision: divided by a temperature of .07, an error of .004 would be one of 6% in a share.
    """
    with torch.autocast(rows.device.type, enabled=False):
        return torch.stack([rows @ one.T for one in columns]).sum(0)


def costs(similarities: Tensor, temperature: float, *, itself: bool) -> Tensor:
    """−log of the share that each column has in its row's softmax; `itself` says whether the diagonal takes part.

    A diagonal that does not take part has share 0, so it costs the constant −log EPS.
    """
    # The largest of the row is taken off before the diagonal is left out, as published: it decides what EPS weighs.
    shifted = (similarities - similarities.detach().amax(1, keepdim=True)) / temperature
    weights = shifted.exp()
    if not itself:
        weights = weights * (1 - torch.eye(len(weights), dtype=weights.dtype, device=weights.device))
    return -(weights / (weights.sum(1, keepdim=True) + EPS) + EPS).log()


def same_label(costs: Tensor, labels: Tensor) -> Tensor:
    """The mean over rows of the mean cost of the row's own label, the diagonal included."""
    same = (labels[:, None] == labels[None, :]).to(costs.dtype)
    return ((costs * same).sum(1) / same.sum(1)).mean()


def incoming_term(similarities: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Contrast of what comes in: twice the cost of the own label, and once that of the image's other view.

    Rows are the images and then their second views, so `labels` is given for one half. A row is not compared with
    itself.
    """
    half = len(labels)
    cost = costs(similarities, temperature, itself=False)
    other = torch.cat([cost[:half, half:].diagonal(), cost[half:, :half].diagonal()])
    return 2 * same_label(cost, labels.repeat(2)) + other.mean()


def memory_term(similarities: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Contrast of what returns, images and then their second views: the cost of the own label."""
    return same_label(costs(similarities, temperature, itself=True), labels.repeat(2))


def previous_term(similarities: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Contrast of what returns, in rows as it is seen now and in columns as the previous model sees it."""
    return same_label(costs(similarities, temperature, itself=True), labels)
