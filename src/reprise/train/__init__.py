"""Training under a schedule: the loop, its read-outs, metrics, checkpoints and records."""

from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.loop import StepResult, steps
from reprise.train.record import make_record
from reprise.train.run import Images, Run
from reprise.train.training import train

__all__ = ["Images", "Run", "StepResult", "TrainRun", "TrainingFailed", "make_record", "steps", "train"]
