"""Experience replay: cross-entropy on what comes in, and on what returns."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.learners.learner import Learner, Output, Step
from reprise.learners.losses import cross_entropy


@register("learner", "er")
class ER(Learner):
    """Loss = CE(incoming) + CE(replay), each a mean over its batch; all classes compete in both."""

    capturable = True

    def forward(self, step: Step) -> Output:
        incoming, *replay = self.outputs(step)
        loss = cross_entropy(incoming, step.incoming)
        for logits, batch in zip(replay, step.replay, strict=True):
            loss = loss + cross_entropy(logits, batch)
        return Output(loss, incoming)
