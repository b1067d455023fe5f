"""No replay: what forgetting costs when nothing is done about it."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.learners.learner import Learner, Output, Step
from reprise.learners.losses import cross_entropy


@register("learner", "none")
class NoReplay(Learner):
    """Loss = CE(incoming). Nothing is drawn; what the memory would hold does not matter."""

    capturable = True
    draws = 0

    def forward(self, step: Step) -> Output:
        (incoming,) = self.outputs(step)
        return Output(cross_entropy(incoming, step.incoming), incoming)
