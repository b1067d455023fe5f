"""How a command ends that is stopped: soon, with its processes, in one sentence, and without half-written files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.tinystudies import scratch_files
from processes import group, needs_table, started, wait_until, workers

pytest.importorskip("torch", reason="training needs torch")
pytestmark = needs_table

SCRIPT = """
import sys
from reprise.lab import run_all
from reprise.runs import Run

if __name__ == "__main__":
    runs = [Run.of(learner=None, classes=50, steps=10**6 if seed else 1000, seed=seed) for seed in range(40)]
    try:
        list(run_all(runs, out=sys.argv[1], jobs=2))
    except KeyboardInterrupt:
        sys.exit("reprise: stopped before it was done")
"""
LINES = {
    "demo": "-m reprise demo --out {out}",
    "train": "-m reprise train --dataset glyphs --width 16 --out {out} --checkpoint-every 1",
    "audit": "-m reprise audit --classes 200 --steps 1000000 --retrieval iid,rpr --seeds 5 --jobs 2",
    "study": "-m reprise study run buffer-gaps --out {out} --jobs 2",
    "script": "{script} {out}",
}
AT_WORK: dict[str, Callable[[int, Path], object]] = {
    "demo": lambda leader, out: len(list(out.glob("unfinished/*"))) == 2,
    "train": lambda leader, out: any(out.glob("unfinished/*/step-*")),
    "audit": lambda leader, out: len(workers(leader)) == 2 and all(seconds(one) > 1 for one in workers(leader)),
    "study": lambda leader, out: any(out.glob("records/*.json")),
    "script": lambda leader, out: any(out.glob("records/*.json")),
}
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def seconds(process: int) -> float:
    """Processor time that a process has had."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("demo", signal.SIGINT),
        ("train", signal.SIGTERM),  # by an interrupt it ends in the test of torchrun below
        ("audit", signal.SIGINT),
        ("study", signal.SIGTERM),
        ("script", signal.SIGINT),
    ],
)
def test_a_signal_to_the_parent_alone_ends_it_soon(name: str, sent: signal.Signals, tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with started(*LINES[name].format(out=out, script=script).split()) as command:
        took = wait_until(lambda: command.poll() is not None or AT_WORK[name](command.pid, out))
        assert command.poll() is None, command.communicate()
        begun = workers(command.pid)
        assert len(begun) == (0 if name == "train" else 2)
        command.send_signal(sent)
        signalled = time.monotonic()
        _, errors = command.communicate(timeout=100)
        # On a machine with nothing else to do it takes less than two seconds; on a busy one starting took longer, too.
        assert time.monotonic() - signalled < 2 + took
        wait_until(lambda: not group(command.pid), 5)  # the last to go is multiprocessing's own helper
    assert errors.splitlines()[-1] == "reprise: stopped before it was done"
    assert "Traceback" not in errors
    assert command.returncode == (1 if name == "script" else STATUS[sent])
    assert scratch_files(out) == []


def test_an_interrupt_of_torchrun_alone_ends_the_processes_that_share_a_run(tmp_path: Path) -> None:
    several = "-m torch.distributed.run --standalone --nproc-per-node 2"
    with started(*several.split(), *LINES["train"].format(out=tmp_path).split(), "--device", "cpu") as command:
        took = wait_until(lambda: command.poll() is not None or AT_WORK["train"](command.pid, tmp_path))
        command.send_signal(signal.SIGINT)
        signalled = time.monotonic()
        _, errors = command.communicate(timeout=100)  # which ends when nobody is left who could write
    assert time.monotonic() - signalled < 2 + took
    # A process that waits for the other when that one leaves may hear of it before it hears of its own signal.
    stopped = errors.count("reprise: stopped before it was done")
    assert stopped == 2 or (stopped == 1 and errors.count("reprise: ") == 2), errors
    assert scratch_files(tmp_path) == []


@pytest.mark.parametrize(("name", "moment"), [("audit", 0.0), ("audit", 0.1), ("audit", 0.3), ("demo", 0.5)])
def test_an_early_interrupt_of_all_processes_prints_no_traceback(name: str, moment: float, tmp_path: Path) -> None:
    with started(*LINES[name].format(out=tmp_path).split()) as command:
        wait_until(lambda: command.poll() is not None or workers(command.pid))
        time.sleep(moment)
        os.killpg(command.pid, signal.SIGINT)  # as a terminal does it
        _, errors = command.communicate(timeout=100)
    assert errors == "reprise: stopped before it was done\n"
    assert command.returncode == 130
