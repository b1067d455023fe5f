"""Launching Triton kernels, or having all of a program's kernels compiled beforehand, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import triton

_rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **settings: Any) -> None:
    """Run a kernel over a grid; in a rehearsal, see only that it is compiled."""
    if _rehearsing.get():
        kernel.warmup(*arguments, grid=grid, **settings)
    else:
        kernel[grid](*arguments, **settings)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Within it, kernels are compiled on all cores and not run; behind it, all of them are ready.

    One by one, compiling takes far longer. Where Triton cannot do otherwise, nothing is rehearsed, and kernels run.
    """
    at_once = getattr(triton, "AsyncCompileMode", None)
    if at_once is None:
        yield
        return
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, at_once(pool):
        token = _rehearsing.set(True)
        try:
            yield
        finally:
            _rehearsing.reset(token)
