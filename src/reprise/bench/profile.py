"""Kernels of a run-step by class, told apart by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from reprise.bench.results import Share

# The first pattern that fits decides. Ours come first: they are known by their whole names.
CLASSES: tuple[tuple[str, str], ...] = (
    ("convolution and statistics", r"^convolve(_|$)"),
    ("convolution backward, ReLU and sums", r"^conv_input_grad(_|$)"),
    ("convolution, weight gradient", r"^conv_weight_grad(_|$)"),
    ("norm: joining tiles", r"^(bn_stats|bn_weight_grad|spread)(_|$)"),
    ("norm, residual and ReLU", r"^normalise(_|$)"),
    ("norm backward", r"^input_gradient(_|$)"),
    ("update: SGD and average", r"^(sgd_ema|average)(_|$)"),
    ("fetch: images and crops", r"^fetch(_|$)"),
    ("convolution by cuDNN", r"wgrad|dgrad|fprop|conv2d|conv_|winograd|implicit_gemm|nchwtonhwc|nhwctonchw"),
    ("matrix products", r"gemm|gemv|cublas|splitk|nvjet"),
    ("copies and fills", r"^memcpy|^memset|copy_kernel|fillfunctor|catarray"),
)
REST = "elementwise, loss and the rest"


def class_of(name: str) -> str:
    """The class of a kernel.

    >>> class_of("sm90_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32")
    'convolution by cuDNN'
    >>> class_of("input_gradient"), class_of("void at::native::vectorized_elementwise_kernel<4>")
    ('norm backward', 'elementwise, loss and the rest')
    """
    return next((what for what, pattern in CLASSES if re.search(pattern, name, re.IGNORECASE)), REST)


def by_name(events: Iterable[Any], steps: int) -> list[Share]:
    """Every kernel that the profiler saw on the device, the costliest first; figures of one of so many."""
    found = [
        Share(event.key, event.self_device_time_total / 1000 / steps, event.count / steps)
        for event in events
        if event.self_device_time_total > 0 and not str(event.device_type).endswith("CPU")
    ]
    return sorted(found, key=lambda share: -share.ms)


def by_class(kernels: Iterable[Share]) -> list[Share]:
    """The same, added up by class, in the order of the classes."""
    sums = dict.fromkeys((*dict(CLASSES), REST), (0.0, 0.0))
    for one in kernels:
        ms, launches = sums[class_of(one.what)]
        sums[class_of(one.what)] = ms + one.ms, launches + one.launches
    return [Share(what, ms, launches) for what, (ms, launches) in sums.items() if launches]
