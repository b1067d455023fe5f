"""A learner of one's own: experience replay whose read-outs name the class with the nearest mean.

reprise train --import examples/plugins/my_learner.py --learner mine --width 8 --out run
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from reprise.learners import Batch, Learner, LearnerContext, Output, Step, cross_entropy, register
from reprise.nets import Network


@register("learner", "mine")
class NearestMean(Learner):
    """Loss = CE(incoming) + weight · CE(replay); tested by distances to the mean features of what is stored."""

    def __init__(self, net: Network, setting: LearnerContext, *, weight: float = 1.0) -> None:  # *: hyper-parameters
        super().__init__(net, setting)
        self.weight = weight

    def forward(self, step: Step) -> Output:
        incoming, *replay = self.outputs(step)
        loss = cross_entropy(incoming, step.incoming)
        for logits, batch in zip(replay, step.replay, strict=True):
            loss = loss + self.weight * cross_entropy(logits, batch)
        return Output(loss, incoming)

    def predictor(self, net: Network, stored: Iterable[Batch]) -> Callable[[Tensor], Tensor]:
        sums = torch.zeros_like(net.fc.weight, dtype=torch.float32)  # one row for each class
        counts = sums.new_zeros(len(sums), 1)
        for batch in stored:
            sums.index_add_(0, batch.y, net.features(batch.x).float())
            counts.index_add_(0, batch.y, counts.new_ones(len(batch.y), 1))
        means = (sums / counts).nan_to_num(nan=1e6)  # nothing lies near a class that is not stored
        return lambda x: -torch.cdist(net.features(x).float(), means)
