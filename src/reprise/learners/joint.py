"""All at once: what the same network reaches when the stream is shuffled, so that nothing need be kept."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.learners.learner import Learner, Output, Step
from reprise.learners.losses import cross_entropy


@register("learner", "joint")
class Joint(Learner):
    """Loss = CE(incoming), on the stream's own examples in one shuffled order: every task at every step."""

    capturable = True
    draws = 0
    shuffled = True

    def forward(self, step: Step) -> Output:
        (incoming,) = self.outputs(step)
        return Output(cross_entropy(incoming, step.incoming), incoming)
