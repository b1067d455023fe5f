"""Settings that all tests share."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from programs import Programs

# Bits on a CPU depend on the number of threads, and processes that tests start must agree with the tests. One thread
# each is also the fastest where several tests run at once. Torch reads this when it is imported, which is later.
os.environ["OMP_NUM_THREADS"] = "1"

# Tests start many processes, which would each compile the library where Python is told to keep no compiled files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What comes with the library is registered when it is imported: now, before a test works on a copy of the registry.
import reprise.track

with contextlib.suppress(ModuleNotFoundError):
    import reprise.learners  # noqa: F401

# A shell has jobs in its background ignore interrupts, and so would all that tests begin, which some interrupt.
with contextlib.suppress(ValueError):  # not the main thread
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled files are for this process and its next start as well; and on its way out Python would look through all of
# torch for cycles.
sys.dont_write_bytecode = False
atexit.register(gc.freeze)

# The same examples every time, so that a red run is red again; HYPOTHESIS_PROFILE=thorough looks further.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile(
    "thorough", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Runs programs that people are shown."""
    found = Programs()
    yield found
    found.close()


def pytest_collection_finish() -> None:
    """What has been imported by now stays: no search for cycles need go through it again."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.markexpr == "not slow":
        return "slow studies are left out; `make slow` runs them"
    return None
