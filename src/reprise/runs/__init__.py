"""What one run is, from its settings to its record: description, plan, result, record, store."""

from reprise.runs.config import from_file, to_json, to_toml
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import Images, fingerprints
from reprise.runs.plan import RunPlan, make_plan
from reprise.runs.record import make_record
from reprise.runs.result import RunResult
from reprise.runs.run import Run
from reprise.runs.settings import (
    DataSettings,
    DescentSettings,
    EvaluationSettings,
    LearnerSettings,
    MemorySettings,
    NetworkSettings,
    ReadoutSettings,
    StillSettings,
    StreamSettings,
)
from reprise.runs.store import Claim, Store

__all__ = [
    "Claim",
    "DataSettings",
    "DescentSettings",
    "EvaluationSettings",
    "Images",
    "LearnerSettings",
    "MemorySettings",
    "NetworkSettings",
    "ReadoutSettings",
    "Run",
    "RunPlan",
    "RunResult",
    "StillSettings",
    "Store",
    "StreamSettings",
    "TrainingFailed",
    "fingerprints",
    "from_file",
    "make_plan",
    "make_record",
    "to_json",
    "to_toml",
]
