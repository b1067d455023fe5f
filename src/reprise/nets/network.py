"""What every network here can do."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from reprise.nets.heads import CosineHead, LinearHead


class Network(nn.Module):
    """Features of an image, and a head `fc` that makes logits of them."""

    fc: CosineHead | LinearHead

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """One row of features per image: what the head sees."""

    @abstractmethod
    def published(self, name: str) -> str:
        """The name that published checkpoints use for the parameter or buffer `name`."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits

    def each(self, batches: list[Tensor]) -> list[Tensor]:
        """The logits of several batches, each passed by itself: BatchNorm sees them one at a time."""
        return [self(batch) for batch in batches]
