"""Who makes runs: this process, a pool of processes, a GPU, several GPUs. Runs in, outcomes out as they end."""

from reprise.execute.choose import choose
from reprise.execute.executor import Executor, Job, RunOutcome, Start
from reprise.execute.here import Here
from reprise.execute.one import ImageSource
from reprise.execute.processes import Processes

__all__ = [
    "Executor",
    "Here",
    "ImageSource",
    "Job",
    "Processes",
    "RunOutcome",
    "Start",
    "choose",
]
