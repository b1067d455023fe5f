"""Learners: one loss, one file. Importing this registers those of the library."""

from reprise.core.registry import register
from reprise.learners import der, derpp, derpp_ace, er, er_ace, joint, none, ocm, refresh  # noqa: F401
from reprise.learners.learner import Batch, Descent, Learner, LearnerContext, Output, Step
from reprise.learners.losses import MASKS, cross_entropy, masked_cross_entropy, open_classes
from reprise.learners.registry import LEARNERS, find_learner, hyperparameters, make_learner

__all__ = [
    "LEARNERS",
    "MASKS",
    "Batch",
    "Descent",
    "Learner",
    "LearnerContext",
    "Output",
    "Step",
    "cross_entropy",
    "find_learner",
    "hyperparameters",
    "make_learner",
    "masked_cross_entropy",
    "open_classes",
    "register",
]
