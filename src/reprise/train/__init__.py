"""Training under a schedule: the loop, its read-outs and checkpoints; one run at a time."""

from reprise.runs import Images, Run, TrainingFailed, make_record
from reprise.train.loop import StepResult, steps
from reprise.train.scoring import interference
from reprise.train.state import Training
from reprise.train.training import train

__all__ = [
    "Images",
    "Run",
    "StepResult",
    "Training",
    "TrainingFailed",
    "interference",
    "make_record",
    "steps",
    "train",
]
