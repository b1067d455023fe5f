"""What every network here can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeAlias

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from reprise.nets.heads import CosineHead, LinearHead

BatchNorm: TypeAlias = _BatchNorm
"""Any of torch's batch normalisation layers."""


class Network(nn.Module):
    """Features of an image, and a head `fc` that makes logits of them.

    `stackable`, `mixes_examples` and `output_stride` say how a network can be trained. A network that says nothing of
    them is trained by itself, on a GPU as a captured graph.
    """

    fc: CosineHead | LinearHead

    stackable: ClassVar[bool] = False
    """Whether the GPU engine can compute several of these together, by kernels of its own.

    Such a network is a 3×3 convolution `conv1` without bias and of stride 1, BatchNorm `bn1` and a ReLU; then
    `reprise.nets.resnet.BasicBlock`s, one after the other in the order of `modules()`, the last without a projection;
    then the mean over the image, and `fc`. BatchNorm has torch's usual settings, a momentum of 0.1 and an eps of 1e-5
    among them; where it does not, or where a parameter is not trained (its `requires_grad` is False), the networks are
    computed one by one.
    """

    output_stride: ClassVar[int | None] = None
    """How many pixels of an image, in height and in width, become one position of the last layer; None if not known."""

    @property
    def mixes_examples(self) -> bool:
        """Whether in training an image's features depend on the other images of its batch, as BatchNorm makes them."""
        return bool(batch_norms(self))

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """One row of features per image: what the head sees."""

    def published(self, name: str) -> str:
        """The name that published checkpoints use for the parameter or buffer `name`."""
        return name

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits

    def each(self, batches: list[Tensor]) -> list[Tensor]:
        """The logits of several batches, each passed by itself: BatchNorm sees them one at a time."""
        return [self(batch) for batch in batches]


def batch_norms(net: nn.Module) -> list[BatchNorm]:
    """The BatchNorm layers of a network."""
    return [module for module in net.modules() if isinstance(module, _BatchNorm)]
