"""Training under a schedule: the loop, its read-outs, metrics, checkpoints and records."""

from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.loop import Trained, steps
from reprise.train.record import make_record
from reprise.train.run import Images, Run
from reprise.train.training import train

__all__ = ["Images", "Run", "TrainRun", "Trained", "TrainingFailed", "make_record", "steps", "train"]
