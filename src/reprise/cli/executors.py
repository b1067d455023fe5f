"""Who makes the runs of a study: processes or GPUs of this machine, a Ray cluster, jobs of Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, arg

from reprise.cli.errors import WrongRequest

if TYPE_CHECKING:
    from reprise.execute import Executor
    from reprise.execute.one import ImageSource
    from reprise.runs import Run, Store

EXECUTORS = ("here", "ray", "slurm")
_OWN = {"gpus": "--gpus", "lanes": "--lanes", "folder": "--out, whose folder jobs it is", "images": "--data"}


@dataclass(frozen=True)
class ExecutorOptions:
    """Which executor makes runs, and where."""

    device: Annotated[
        str | None, arg(metavar="cpu|cuda", constructor=str, help_behavior_hint="(default: cuda if there is one)")
    ] = None
    """Where to train on this machine; several GPUs as cuda:0,cuda:1."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Processes to work with, or tasks of Ray: all cores unless told. The figures are the same."""
    lanes: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Runs at once on a GPU's lanes: as many as make all of them faster unless told. With fewer, each ends sooner. Runs
    that lanes cannot take go by --jobs."""
    executor: Annotated[str, arg(metavar="here|ray|slurm")] = "here"
    """Who makes the runs: this machine, a Ray cluster, or jobs of Slurm. The records are the same."""
    address: Annotated[str | None, arg(metavar="HOST:PORT|auto", constructor=str, help_behavior_hint="")] = None
    """With ray: the cluster to join; one is started on this machine unless told."""
    gpus: Annotated[int, arg(metavar="N")] = 0
    """With ray and slurm: GPUs of a task or job, each driven by a fleet of its own; 0 trains on CPUs."""
    shared: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """With ray: the store lies on storage that all nodes see under the same path. With slurm it always must."""
    time_limit: Annotated[str | None, arg(metavar="TIME", constructor=str, help_behavior_hint="")] = None
    """As 540, 90s, 15m or 1h30m: begin no run that would not end within this time, as far as those before it tell; with
    0, none. The same command with more time goes on. Jobs of Slurm have a limit of their own, timeout_min."""
    slurm: Annotated[str | None, arg(metavar="NAME=VALUE,...", constructor=str, help_behavior_hint="")] = None
    """With slurm: what submitit is told, as slurm_partition=gpu,timeout_min=240,cpus_per_task=8; cluster=local tries it
    on this machine."""


def make_executor(
    asked: ExecutorOptions, runs: Sequence[Run], images: ImageSource, store: Store, device: str
) -> Executor:
    """The executor that was asked for."""
    if asked.executor not in EXECUTORS:
        raise WrongRequest(f"--executor must be one of {', '.join(EXECUTORS)}, got {asked.executor!r}")
    for option, given, meant in (
        ("--device", asked.device is not None, ("here",)),
        ("--jobs", asked.jobs is not None, ("here", "ray")),
        ("--address", asked.address is not None, ("ray",)),
        ("--gpus", asked.gpus != 0, ("ray", "slurm")),
        ("--shared", asked.shared, ("ray",)),
        ("--time-limit", asked.time_limit is not None, ("here", "ray")),
        ("--slurm", asked.slurm is not None, ("slurm",)),
    ):
        if given and asked.executor not in meant:
            raise WrongRequest(f"{option} goes with --executor {' or '.join(meant)}, got --executor {asked.executor}")
    if asked.executor == "here":
        check_lanes(asked.lanes, runs, device)
    elif not asked.gpus:
        check_lanes(asked.lanes, runs, "cpu", "--gpus 1 or more")
    if asked.executor == "ray":
        from reprise.execute.ray import Ray

        return Ray(asked.address, images, gpus=asked.gpus, jobs=asked.jobs, lanes=asked.lanes, shared=asked.shared)
    if asked.executor == "slurm":
        from reprise.execute.slurm import Slurm

        folder = store.folder / "jobs"
        return Slurm(folder, images, gpus=asked.gpus, lanes=asked.lanes, **slurm_parameters(asked.slurm))
    from reprise.execute import choose

    return choose(runs, data=images.data, device=device, jobs=asked.jobs, lanes=asked.lanes)


def check_lanes(lanes: int | None, runs: Sequence[Run], device: str, wanted: str = "--device cuda") -> None:
    """Lanes are of a GPU, and for runs that train."""
    if lanes is not None and not any(run.trains for run in runs):
        raise WrongRequest("--lanes is for studies that train")
    if lanes is not None and device == "cpu":
        raise WrongRequest(f"--lanes goes with {wanted}: lanes are of a GPU")


def slurm_parameters(text: str | None) -> dict[str, Any]:
    """What submitit is told: whole numbers and numbers as such, all else as text.

    >>> slurm_parameters("slurm_partition=gpu,timeout_min=240")
    {'slurm_partition': 'gpu', 'timeout_min': 240}
    """
    found: dict[str, Any] = {}
    for item in (text or "").split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not item.strip():
            continue
        if not (name and equals):
            raise WrongRequest(f"--slurm takes name=value, several separated by commas, got {item!r}")
        if name in _OWN:
            raise WrongRequest(f"--slurm {name}=… has an option of its own: {_OWN[name]}")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
