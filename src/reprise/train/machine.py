"""The machine that a run is made on: its device, and what the last digits of a result depend on."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import torch


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
    """Whether a device of this kind has instructions for bf16, or may have: where it is an x86 CPU, torch can tell.

    Without them torch emulates bf16. A step then takes longer than in single precision, and with AVX2 alone ten times.
    """
    if kind != "cpu" or platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every torch
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and bool(found.get("avx512_bf16", True))


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
