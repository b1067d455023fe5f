"""A signal ends a process in good order even while torch is imported, part of which is C++ code that calls Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import WITHIN_TORCH, make_stopped_importers, started, wait_until

from reprise.core.stopping import Raising
from reprise.core.workers import Pool, WorkerLost

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

COMMAND = """
from reprise.cli import main
sys.exit(main(["train", "--dataset", "glyphs", "--out", "OUT"]))
"""
IMPORT = """
import time
from reprise.core.stopping import Raising

class Stop(BaseException):
    pass

def at_once(number, frame):
    raise Stop

signal.signal(signal.SIGTERM, HANDLER)
try:
    import torch
    time.sleep(60)
except Stop:
    print("stopped", "torch" in sys.modules)
"""


class Stop(BaseException):
    pass


@pytest.fixture
def handled() -> Iterator[None]:
    """SIGTERM has the handler for this test alone."""
    before = signal.signal(signal.SIGTERM, Raising(Stop))
    yield
    signal.signal(signal.SIGTERM, before)


SENDS = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\n"
WAITS = "for _ in range(20):\n    time.sleep(0.01)\n"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Imports a module of this code."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def imported(code: str) -> object:
        name = f"module_of_{abs(hash(code))}"
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        return importlib.import_module(name)

    return imported


@pytest.mark.usefixtures("handled")
def test_a_signal_is_heard_at_once() -> None:
    passed = []

    def send() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        passed.append(True)

    with pytest.raises(Stop):
        send()
    assert passed == []


@pytest.mark.usefixtures("handled")
def test_a_signal_in_an_import_is_heard_after_it(imported: Callable[[str], object]) -> None:
    module = imported(SENDS + WAITS + "whole = True")  # 0.2 s, in which it is sent again, more than once
    with pytest.raises(Stop):
        wait_until(lambda: False, 60)
    assert vars(module)["whole"]


@pytest.mark.usefixtures("handled")
def test_a_signal_that_waited_interrupts_what_the_main_thread_waits_for(imported: Callable[[str], object]) -> None:
    imported(SENDS)
    began = time.monotonic()
    with pytest.raises(Stop):
        threading.Event().wait(60)
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("handled")
def test_a_signal_that_comes_once_more_does_not_wait(imported: Callable[[str], object]) -> None:
    began = time.monotonic()
    with pytest.raises(Stop):
        imported(3 * SENDS + "time.sleep(60)")
    assert time.monotonic() - began < 30
    time.sleep(0.2)  # and it is not sent again after that


def test_an_import_that_was_under_way_before_does_not_count(imported: Callable[[str], object]) -> None:
    code = """
import os, signal, time
from reprise.core.stopping import Raising

class Stop(BaseException):
    pass

before = signal.signal(signal.SIGTERM, Raising(Stop))
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
except Stop:
    heard = True
finally:
    signal.signal(signal.SIGTERM, before)
"""
    assert vars(imported(code))["heard"]


def ended(code: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@needs_torch
def test_a_signal_within_torch_aborts_a_process_and_does_not_with_this_handler() -> None:
    code = WITHIN_TORCH.replace("SIGNAL", "SIGTERM") + IMPORT
    assert ended(code.replace("HANDLER", "Raising(Stop)")) == (0, "sent\nstopped True\n", "")
    status, said, _ = ended(code.replace("HANDLER", "at_once"))
    assert (status, said) == (-signal.SIGABRT, "sent\n"), "this torch can be interrupted there: send it from elsewhere"


@needs_torch
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_stopped_while_it_imports_torch(name: str, status: int, tmp_path: Path) -> None:
    code = WITHIN_TORCH.replace("SIGNAL", name) + COMMAND.replace("OUT", str(tmp_path))
    with started("-c", code) as command:
        said, errors = command.communicate(timeout=120)
    assert said.splitlines()[:1] == ["sent"], errors
    assert errors.splitlines()[-1:] == ["reprise: stopped before it was done"]
    assert "Traceback" not in errors
    assert "terminate" not in errors
    assert command.returncode == status


@needs_torch
def test_a_worker_that_is_stopped_while_it_imports_torch(capfd: pytest.CaptureFixture[str]) -> None:
    with Pool[str](make_stopped_importers, 1) as pool:
        ((_, lost),) = pool.results(["SIGTERM"])
    assert isinstance(lost, WorkerLost)
    assert "status 143" in str(lost)
    assert capfd.readouterr() == ("sent\n", "")
