"""A pytest plugin for torchrl's own tests: in place of one of its classes they find ours.

With PUT_IN_PLACE=sampler, a sampler without replacement is our sampler. With PUT_IN_PLACE=writer, the round-robin
writer is our writer with storage `fifo`, which is the same rule.
"""

from __future__ import annotations

import os
from typing import Any


def label(data: Any) -> Any:
    """A whole number below 100 that the data of these tests have, in whatever form."""
    import torch

    if isinstance(data, list):
        return torch.stack([label(one).reshape(-1)[:1] for one in data])
    return data if isinstance(data, torch.Tensor) else data["a"]


def pytest_configure(config: Any) -> None:
    from torchrl.data.replay_buffers import samplers, writers

    from reprise.integrations import torchrl as ours

    global ScheduledSampler, MemoryWriter  # buffers are pickled with them

    class ScheduledSampler(ours.ScheduledSampler):
        def __init__(self) -> None:
            super().__init__("rpr", key=label)

    class MemoryWriter(ours.MemoryWriter):
        def __init__(self, compilable: bool = False) -> None:
            super().__init__("fifo", key=None, compilable=compilable)

    for one in (ScheduledSampler, MemoryWriter):
        one.__qualname__ = one.__name__
    if os.environ["PUT_IN_PLACE"] == "sampler":
        samplers.SamplerWithoutReplacement = ScheduledSampler  # type: ignore[misc]
    else:
        writers.RoundRobinWriter = MemoryWriter  # type: ignore[misc]
