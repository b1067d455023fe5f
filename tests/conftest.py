"""Settings that all tests share."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Bits on a CPU depend on the number of threads, and processes that tests start must agree with the tests. One thread
# each is also the fastest where several tests run at once. Torch reads this when it is imported, which is later.
os.environ["OMP_NUM_THREADS"] = "1"

# What comes with the library is registered when it is imported: now, before a test works on a copy of the registry.
import reprise.track

with contextlib.suppress(ModuleNotFoundError):
    import reprise.learners  # noqa: F401

# A shell has jobs in its background ignore interrupts, and so would all that tests begin, which some interrupt.
with contextlib.suppress(ValueError):  # not the main thread
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, so that a red run is red again; HYPOTHESIS_PROFILE=thorough looks further.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile(
    "thorough", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.markexpr == "not slow":
        return "slow studies are left out; `make slow` runs them"
    return None
