"""Devices that are asked for on the command line, and processes that torchrun began."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from reprise.cli.errors import WrongRequest


@contextmanager
def joined(asked: str | None, runs: int) -> Iterator[tuple[str, bool]]:
    """The device to train on, and whether this process speaks; joined with the others where torchrun began several."""
    device = device_for(asked)
    if not {"RANK", "WORLD_SIZE"} <= set(os.environ):
        yield device, True
        return
    import torch
    import torch.distributed as dist

    from reprise.train.ranks import leave

    if runs > 1:
        raise WrongRequest(f"processes that torchrun began share one run, got {runs}; without torchrun all can be made")
    if device != "cpu":
        device = _own_device(device)
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("gloo" if device == "cpu" else "nccl")
    except ValueError as error:
        raise WrongRequest(f"RANK and WORLD_SIZE are set, as torchrun sets them, but {error}") from error
    try:
        yield device, dist.get_rank() == 0
    finally:
        leave()


def device_for(asked: str | None) -> str:
    """The device that was asked for, or the best there is; several GPUs are separated by commas."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = ("cuda" if count else "cpu") if asked is None else asked
    for one in device.split(","):
        if not re.fullmatch(r"cpu|cuda(:\d+)?", one) or (one == "cpu" and one != device):
            raise WrongRequest(f"--device must be cpu, cuda or cuda:N, several as cuda:0,cuda:1, got {device!r}")
        if one != "cpu" and not count:
            raise WrongRequest(f"--device {one}: torch finds no such device here; --device cpu does without")
        if int(one.partition(":")[2] or 0) >= max(count, 1):
            raise WrongRequest(f"--device {one}: this machine has {count}, numbered from 0")
    return device


def _own_device(device: str) -> str:
    """This process's device among those of the machine."""
    import torch

    if device != "cuda":
        raise WrongRequest(f"--device {device} is one device, and several processes share the run; write --device cuda")
    mine, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if mine >= count:
        raise WrongRequest(
            f"there are more processes here than devices: {count}, and process {mine}, counted from 0, has none"
        )
    return f"cuda:{mine}"
