"""Learners: one loss, one file. Importing this registers those of the library."""

from reprise.learners import der, derpp, derpp_ace, er, er_ace, joint, none, ocm, refresh  # noqa: F401
from reprise.learners.learner import Batch, Descent, Learner, LearnerContext, Output, Step
from reprise.learners.losses import MASKS
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
    "find_learner",
    "hyperparameters",
    "make_learner",
]
