"""Normal noise that follows from a key on the device: no generator has a state, and the host is not asked."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_STEP = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed number, which is what torch has
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
_HALF = 0xFFFFFFFF  # the lower one of a word


def word(key: Tensor, number: Tensor) -> Tensor:
    """The 64-bit words with these numbers, from 0 on, of the generator SplitMix64 seeded by `key`. All are int64."""
    state = (number + 1).mul_(_STEP).add_(key)  # in place from here on: there may be as many as a network has weights
    state.bitwise_xor_(_shifted(state, 30)).mul_(_FIRST)
    state.bitwise_xor_(_shifted(state, 27)).mul_(_SECOND)
    return state.bitwise_xor_(_shifted(state, 31))


def standard_normal(key: Tensor, count: int) -> Tensor:
    """`count` standard normal numbers in single precision, by the method of Box and Muller: two of each word.

    A CPU and a GPU make the same numbers but for the last digits.
    """
    bits = word(key, torch.arange(-(-count // 2), device=key.device))
    first, second = (half.float().add_(0.5).mul_(2.0**-32) for half in (_shifted(bits, 32), bits & _HALF))
    radius, angle = first.log_().mul_(-2).sqrt_(), second.mul_(2 * math.pi)
    return torch.cat([angle.cos().mul_(radius), angle.sin_().mul_(radius)])[:count]


def _shifted(bits: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left: torch's own shift would copy the sign."""
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)
