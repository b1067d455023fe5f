"""ER-ACE: the incoming batch does not push down classes that have been seen and are absent."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.learners.learner import Learner, LearnerContext, Output, Step
from reprise.learners.losses import check_mask, cross_entropy, masked_cross_entropy
from reprise.nets import Network


@register("learner", "er-ace")
class ERACE(Learner):
    """Loss = CE over the open classes(incoming) + CE(replay), each a mean over its batch.

    Which classes stay open to the incoming batch is the mask's rule; replay competes with all. The mask holds from
    the first step on, and needs no task.
    """

    capturable = True

    def __init__(self, net: Network, setting: LearnerContext, *, mask: str = "present_and_unseen") -> None:
        super().__init__(net, setting)
        self.mask = check_mask(mask)

    def forward(self, step: Step) -> Output:
        incoming, *replay = self.outputs(step)
        loss = masked_cross_entropy(incoming, step, self.mask)
        for logits, batch in zip(replay, step.replay, strict=True):
            loss = loss + cross_entropy(logits, batch)
        return Output(loss, incoming)
