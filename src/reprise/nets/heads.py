"""The last layer: from features to one logit per class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprise.core.arguments import as_int


class CosineHead(nn.Module):
    """Logit of class c = scale · cosine of the angle between the features and the class's weight vector.

    No bias, so no class is preferred for its length: neither that of its weights nor that of the features
    counts. A vector shorter than `eps` is divided by `eps` instead of its length, so features that are all zero
    give logits that are all zero. The default is a number that half precision can still hold.
    """

    def __init__(self, features: int, classes: int, scale: float = 10.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.scale = scale
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(classes, features))
        nn.init.uniform_(self.weight, -(features**-0.5), features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * F.linear(F.normalize(x, dim=1, eps=self.eps), F.normalize(self.weight, dim=1, eps=self.eps))

    def extra_repr(self) -> str:
        classes, features = self.weight.shape
        return f"{features}, {classes}, scale={self.scale:g}, eps={self.eps:g}"


class LinearHead(nn.Linear):
    """Logit of class c = weights of c · features + bias of c."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, bias=True)


HEADS: dict[str, type[CosineHead] | type[LinearHead]] = {"cosine": CosineHead, "linear": LinearHead}
"""All heads by name."""


def make_head(kind: str, features: int, classes: int) -> CosineHead | LinearHead:
    """The head of this name: 'cosine' or 'linear'."""
    if kind not in HEADS:
        raise ValueError(f"a head is one of {', '.join(HEADS)}, got {kind!r}")
    return HEADS[kind](features, as_int(classes, "the number of classes", 1))
