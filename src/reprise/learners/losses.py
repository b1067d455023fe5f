"""Cross-entropy, and the rules for which classes the incoming batch competes with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from reprise.learners.learner import Batch, Step

MASKS = ("present_and_unseen", "present", "reference_max", "none")
"""The names of the mask rules."""


def check_mask(rule: str) -> str:
    """Return the name of a mask rule, or say which there are."""
    if rule not in MASKS:
        raise ValueError(f"a mask is one of {', '.join(MASKS)}, got {rule!r}")
    return rule


def open_classes(rule: str, step: Step) -> Tensor:
    """Which classes stay in the softmax of the incoming batch, as one bool per class.

    `present_and_unseen`: the batch's own and those that have never arrived. `present`: the batch's own.
    `reference_max`: the batch's own and every id from the largest seen on, as the authors' code has it: the largest
    seen stays open though it be absent, and an unseen id below it is closed. `none`: all.
    """
    present, seen = step.present, step.seen
    if rule == "present_and_unseen":
        return present | ~seen
    if rule == "present":
        return present
    if rule == "reference_max":
        ids = torch.arange(len(seen), device=seen.device)
        return present | (ids >= (ids * seen).max())
    return torch.ones_like(present)


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Mean over the batch of −log softmax(logits)[label]."""
    return batch.mean(F.cross_entropy(logits, batch.y, reduction="none"))


def masked_cross_entropy(logits: Tensor, step: Step, rule: str) -> Tensor:
    """Mean over the incoming batch of −log softmax[label], the softmax over the rule's open classes alone."""
    if rule == "none":
        return cross_entropy(logits, step.incoming)
    return cross_entropy(logits.masked_fill(~open_classes(rule, step), -torch.inf), step.incoming)
