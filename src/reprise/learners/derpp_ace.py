"""DER++ with ER-ACE's mask on the incoming batch."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.learners.derpp import DERpp
from reprise.learners.learner import LearnerContext
from reprise.learners.losses import check_mask
from reprise.nets import Network


@register("learner", "der++-ace")
class DERppACE(DERpp):
    """DER++ whose incoming cross-entropy is over the classes that the mask's rule leaves open."""

    def __init__(
        self,
        net: Network,
        setting: LearnerContext,
        *,
        alpha: float = 0.1,
        beta: float = 0.5,
        mask: str = "present_and_unseen",
    ) -> None:
        super().__init__(net, setting, alpha=alpha, beta=beta)
        self.mask = check_mask(mask)
