"""Which executor makes which runs."""

from __future__ import annotations

from collections.abc import Sequence

from reprise.execute.executor import Executor
from reprise.execute.here import Here
from reprise.execute.one import ImageSource
from reprise.execute.processes import Processes, cores
from reprise.runs.images import Images, Root
from reprise.runs.run import Run

FEW = 8  # audits that are over before other processes have started


def choose(
    runs: Sequence[Run],
    *,
    images: Images | None = None,
    data: Root = None,
    device: str = "cpu",
    jobs: int | None = None,
    lanes: int | None = None,
) -> Executor:
    """The executor for these runs: on a GPU lanes, elsewhere a process for each core, here if there is little to do.

    `images` are those of all runs, or each run's are read from the folder `data`. `device` may name several GPUs,
    separated by commas. `jobs` is the number of processes, `lanes` the number of runs that go at once on a GPU.
    """
    found = ImageSource(images, data)
    if any(run.trains for run in runs):
        devices = [one.strip() for one in device.split(",")]
        if devices != ["cpu"]:
            from reprise.execute.gpus import GPUs

            return GPUs(devices, found, lanes=lanes, jobs=jobs)
        many = len(runs) > 1
    else:
        many = len(runs) > FEW
    return Processes(jobs, found) if many and (jobs or len(cores())) > 1 else Here(found)
