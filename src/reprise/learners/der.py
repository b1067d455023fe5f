"""DER: what returns is held to the logits it had when it came in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reprise.core.arguments import as_float
from reprise.core.registry import register
from reprise.learners.learner import Batch, Learner, LearnerContext, Output, Step
from reprise.learners.losses import cross_entropy
from reprise.nets import Network


class StoredLogits(nn.Module):
    """One row of logits per example id.

    An example comes in once, so its id is enough to find its logits again, whatever slot it takes.
    """

    logits: Tensor

    def __init__(self, setting: LearnerContext) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(setting.examples, setting.classes))

    def write(self, ids: Tensor, logits: Tensor) -> None:
        self.logits.index_copy_(0, ids, logits)

    def distance(self, logits: Tensor, batch: Batch) -> Tensor:
        """Mean over the batch, and over all classes, of (logits − stored logits)²."""
        return batch.mean((logits - self.logits[batch.ids]).square().mean(1))


@register("learner", "der")
class DER(Learner):
    """Loss = CE(incoming) + α · MSE(replay's logits, its stored logits), the MSE a mean over batch and classes."""

    capturable = True

    def __init__(self, net: Network, setting: LearnerContext, *, alpha: float = 0.3) -> None:
        super().__init__(net, setting)
        self.alpha = as_float(alpha, "alpha", 0)
        self.stored = StoredLogits(setting)

    def forward(self, step: Step) -> Output:
        incoming, *replay = self.outputs(step)
        loss = cross_entropy(incoming, step.incoming)
        for logits, batch in zip(replay, step.replay, strict=True):
            loss = loss + self.alpha * self.stored.distance(logits, batch)
        return Output(loss, incoming)

    def after(self, step: Step, logits: Tensor) -> None:
        self.stored.write(step.ids, logits)
