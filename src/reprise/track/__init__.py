"""Trackers: who is told of a run while it trains. CSV, TensorBoard, Weights & Biases, or one's own."""

from reprise.core.registry import register
from reprise.track.csv_log import CsvTracker
from reprise.track.follow import Follower, log_result
from reprise.track.tensorboard_log import TensorBoardTracker
from reprise.track.tracker import RunFacts, Tracker, Tracking, as_tracking
from reprise.track.values import Source
from reprise.track.wandb_log import WandbTracker

__all__ = [
    "CsvTracker",
    "Follower",
    "RunFacts",
    "Source",
    "TensorBoardTracker",
    "Tracker",
    "Tracking",
    "WandbTracker",
    "as_tracking",
    "log_result",
    "register",
]
