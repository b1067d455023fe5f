"""The machine that a run is made on: its device, and what the last digits of a result depend on."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

_NO_BF16 = ("AVX2", "DEFAULT", "NO AVX")  # CPU instructions


def find_device(device: str | torch.device) -> torch.device:
    """The device that is meant, or a sentence where there is none."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"there is no device {device!r}; 'cpu' and 'cuda' are known") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(device)!r} was asked for, but torch finds no GPU here; 'cpu' always works")
    return found


@cache
def computes_bf16(kind: str) -> bool:
    """Whether a device of this kind computes in bf16 itself, and does not make it up from other instructions.

    On a CPU without AVX-512 a step in bf16 takes some ten times as long as one in single precision.
    """
    return kind != "cpu" or torch.backends.cpu.get_cpu_capability() not in _NO_BF16


def made_by(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """By what and on what a run is trained, for its record."""
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


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
