"""What the last digits of a result depend on, beside the settings of its run."""

from __future__ import annotations

import torch


def rounding(device: torch.device) -> dict[str, str | int]:
    """What decides in which order sums are taken on this device, and so how they are rounded, by its name."""
    facts: dict[str, str | int] = {"device": device.type, "torch": str(torch.__version__)}
    if device.type == "cpu":
        facts |= {"threads": torch.get_num_threads(), "instructions": torch.backends.cpu.get_cpu_capability()}
    return facts


def differences(before: dict[str, str | int], now: dict[str, str | int]) -> str:
    """What differs, in words; empty if nothing does."""
    names = {**before, **now}
    return ", ".join(
        f"{name} {before.get(name, 'unknown')}, now {now.get(name, 'unknown')}"
        for name in names
        if before.get(name) != now.get(name)
    )
