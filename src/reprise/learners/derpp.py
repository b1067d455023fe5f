"""DER++: stored logits for one draw, labels for another."""

from __future__ import annotations

from torch import Tensor

from reprise.core.arguments import as_float
from reprise.core.registry import register
from reprise.learners.der import StoredLogits
from reprise.learners.learner import Learner, LearnerContext, Output, Step
from reprise.learners.losses import cross_entropy, masked_cross_entropy
from reprise.nets import Network


@register("learner", "der++")
class DERpp(Learner):
    """Loss = CE(incoming) + α · MSE(first draw's logits, its stored logits) + β · CE(second draw).

    The MSE is a mean over batch and classes. All classes compete in both cross-entropies.
    """

    capturable = True
    draws = 2

    def __init__(self, net: Network, setting: LearnerContext, *, alpha: float = 0.1, beta: float = 0.5) -> None:
        super().__init__(net, setting)
        self.alpha = as_float(alpha, "alpha", 0)
        self.beta = as_float(beta, "beta", 0)
        self.mask = "none"
        self.stored = StoredLogits(setting)

    def forward(self, step: Step) -> Output:
        incoming, *replay = self.outputs(step)
        loss = masked_cross_entropy(incoming, step, self.mask)
        if replay:
            first, second = replay
            loss = loss + self.alpha * self.stored.distance(first, step.replay[0])
            loss = loss + self.beta * cross_entropy(second, step.replay[1])
        return Output(loss, incoming)

    def after(self, step: Step, logits: Tensor) -> None:
        self.stored.write(step.ids, logits)
