"""Trackers by name: TensorBoard and Weights & Biases read back, and what is wrong with a request said at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from processes import PYTHON

from reprise.core import registry
from reprise.core.extras import NotInstalled
from reprise.runs import Run
from reprise.track import CsvTracker, RunFacts, Tracker, Tracking, as_tracking, tensorboard_log, wandb_log
from reprise.track.tracker import as_tracker

AUDIT = Run.of(learner=None, classes=5, steps=9)  # trackers do not care whether it trains
VALUES = {4: {"loss": 2.5, "gaps/open_max": 3}, 8: {"loss": 0.125}}


def facts(folder: Path) -> RunFacts:
    return RunFacts(AUDIT, "abc123", 9, 0, ("loss", "gaps/open_max"), folder / "abc123")


def tell(tracker: Tracker, about: RunFacts, error: BaseException | None = None) -> None:
    tracker.begin(about)
    for step, values in VALUES.items():
        tracker.log(step, values)
    tracker.end(None if error else {}, error)


def test_tensorboard_reads_what_was_written_and_no_step_twice(tmp_path):
    pytest.importorskip("tensorboard", reason="the tracker needs tensorboard")
    pytest.importorskip("torch", reason="torch writes TensorBoard's files")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    about = facts(tmp_path)
    tell(as_tracker(f"tensorboard:{tmp_path}"), about, KeyboardInterrupt())
    tell(as_tracker("tensorboard"), replace(about, done=4))  # it goes on, in the same folder
    assert len(list(about.folder.iterdir())) == 1
    events = EventAccumulator(str(about.folder)).Reload()
    for name in about.names:
        told = {step: values[name] for step, values in VALUES.items() if name in values}
        assert {event.step: event.value for event in events.Scalars(name)} == told
        assert len(events.Scalars(name)) == len(told)
    (described,) = events.Tensors("run/text_summary")
    assert described.tensor_proto.string_val[0].decode().startswith(AUDIT.name)


WANDB = """
import sys
from pathlib import Path
sys.path.append(str(Path(sys.argv[1])))
from track.test_trackers import *

if __name__ == "__main__":
    about = facts(Path(sys.argv[2]))
    tell(as_tracker("wandb:mine"), about, KeyboardInterrupt())
    tell(as_tracker("wandb:mine"), replace(about, done=4))
"""


def test_wandb_writes_a_whole_run_says_nothing_and_asks_nobody(tmp_path):
    pytest.importorskip("wandb", reason="the tracker needs wandb")
    script = tmp_path / "script.py"
    script.write_text(WANDB)
    with socket.create_server(("127.0.0.1", 0)) as proxy:  # whatever would be sent comes here
        proxy.settimeout(0.01)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        given = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        given |= {**PYTHON, "HOME": str(tmp_path), "HTTPS_PROXY": address, "HTTP_PROXY": address, "NO_PROXY": ""}
        command = [sys.executable, "-W", "error", str(script), str(Path(__file__).parents[1]), str(tmp_path)]
        done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        with pytest.raises(TimeoutError):
            proxy.accept()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (folder,) = (tmp_path / "abc123" / "wandb").glob("offline-run-*")  # that of the run which was stopped has gone
    content = (folder / "run-abc123.wandb").read_bytes()
    for word in ("gaps/open_max", "0.125", "mine", AUDIT.name):
        assert word.encode() in content


@pytest.mark.parametrize(("module", "name"), [(tensorboard_log, "tensorboard"), (wandb_log, "wandb")])
def test_a_package_that_is_missing_is_named_before_anything_is_begun(module, name, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(NotInstalled, match=f"'{name}' needs {name}, which is not installed; the extra 'track'"):
        Tracking((name,)).make()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("tensorbord", "unknown tracker 'tensorbord': did you mean 'tensorboard'?"),
        ("csv:", "a tracker's argument comes after its colon, got 'csv:'"),
        (CsvTracker, r"a tracker is an object, got the class CsvTracker: write CsvTracker\(\)"),
        (3, "a tracker is a spec, a function, or an object .* 3 lacks begin, log, end"),
    ],
)
def test_what_is_no_tracker_is_refused(given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        as_tracking(given).make()


def test_values_every_nought_steps_are_refused():
    with pytest.raises(ValueError, match="track every must be 1 or more, got 0"):
        Tracking(every=0)


def test_an_object_that_has_the_methods_will_do_and_one_may_be_registered(monkeypatch):
    class Loose:
        def __init__(self, argument="nothing"):
            self.argument = argument

        begin = log = end = print

    loose = Loose()
    assert as_tracking([loose, "csv"]).make()[0] is loose
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    registry.register("tracker", "loose")(Loose)
    assert [made.argument for made in Tracking(("loose", "loose:a:b")).make()] == ["nothing", "a:b"]
