"""What is each run's own and small, side by side."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Branches:
    """A stream for every run of a lane but the first, which has the lane's own; without a GPU there are none."""

    def __init__(self, runs: int, device: torch.device) -> None:
        self.device = device
        self.streams = [torch.cuda.Stream(device) if device.type == "cuda" else None for _ in range(1, runs)]

    def each(self, do: Callable[[int], None]) -> None:
        """Do something for every run. Branches begin where the lane's stream stands, and then it waits for them."""
        branches = [stream for stream in self.streams if stream is not None]
        for branch in branches:
            branch.wait_stream(torch.cuda.current_stream(self.device))
        for run, stream in enumerate([None, *self.streams]):
            with torch.cuda.stream(stream):
                do(run)
        for branch in branches:
            torch.cuda.current_stream(self.device).wait_stream(branch)
