"""What trackers are told: the values of a run, the same however it is made, and nothing of it changes the run."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs torch")

from train.tinyruns import ARMS, config, identity, images, result, run_to, thin_networks

from reprise.execute import Job, Processes
from reprise.execute.one import ImageSource
from reprise.runs.metrics import task_accuracy
from reprise.track import Tracker, Tracking, log_result
from reprise.train import TrainingFailed, make_record, train

CHOSEN = ["er-ace", "der++", "er, mir:12", "none"]  # by a tape, two draws a step, live, without replay
STEPS, EVERY = 15, 4
DUE = [3, 4, 6, 8, 9, 12, 15]  # every fourth step, and the five tests


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


@dataclass
class Noted(Tracker):
    """Keeps what it is told."""

    told: dict[int, dict[str, float]] = field(default_factory=dict)
    facts: Any = None
    ended: Any = None

    def begin(self, facts):
        self.facts = facts

    def log(self, step, values):
        assert self.ended is None
        assert step not in self.told
        self.told[step] = dict(values)

    def end(self, record, error):
        assert self.ended is None
        self.ended = record, error


@cache
def tracked(arm):
    """A run that is tracked, what was told of it, and its end as `RunResult`."""
    noted = Noted()
    record = train(config(**ARMS[arm]), images(), track=Tracking((noted,), EVERY))
    return record, noted, run_to(config(**ARMS[arm])).result({})


@pytest.mark.parametrize("arm", CHOSEN)
def test_a_run_is_the_same_with_and_without_trackers(arm):
    record, noted, alone = tracked(arm)
    assert result(record) == result(make_record(alone))
    assert list(noted.told) == DUE
    assert noted.ended == (record, None)
    assert {name for values in noted.told.values() for name in values} <= set(noted.facts.names)
    assert (noted.facts.identity, noted.facts.steps, noted.facts.done) == (record["identity"], STEPS, 0)


@pytest.mark.parametrize("arm", CHOSEN)
def test_values_at_the_end_are_those_of_the_record(arm):
    record, noted, alone = tracked(arm)
    last, audit = noted.told[STEPS], record["audit"]
    for name in ("open_max", "max", "first_max", "cut_max"):
        assert last.get(f"gaps/{name}") == (audit[name] if arm != "none" else None), name
    assert {name: last[f"accuracy/{name}"] for name in ("ema", "live")} == {
        name: found["final"] for name, found in record["metrics"].items()
    }
    assert last["memory/examples"] == 20
    assert last["memory/fill"] == 1.0
    assert last["replay/examples"] == np.count_nonzero(alone.tape.replay[-1] >= 0)


@pytest.mark.parametrize("arm", CHOSEN[:1])
def test_losses_and_hits_are_taken_over_the_steps_since_the_last_values(arm):
    _, noted, alone = tracked(arm)
    sizes = np.diff(alone.plan.stream.offsets)
    for since, step in zip([0, *DUE], DUE, strict=False):
        values = noted.told[step]
        assert values["loss"] == pytest.approx(alone.trained.losses[since:step].mean(), rel=1e-6)
        assert values["online_accuracy"] == alone.trained.hits[since:step].sum() / sizes[since:step].sum()


def test_accuracies_are_told_at_tests_and_at_no_other_step():
    _, noted, alone = tracked("er-ace")
    for readout, found in alone.trained.evaluations.items():
        for step, row in zip(found.steps.tolist(), task_accuracy(found), strict=True):
            known = {f"task_accuracy/{readout}_{task}": value for task, value in enumerate(row, 1) if value == value}
            told = {
                name: value for name, value in noted.told[step].items() if name.startswith(f"task_accuracy/{readout}")
            }
            assert told == known
            assert noted.told[step][f"accuracy/{readout}"] == pytest.approx(np.nanmean(row))
    assert not any("accuracy/" in name for step in (4, 8) for name in noted.told[step])


@pytest.mark.parametrize("arm", CHOSEN)
def test_a_run_told_of_when_it_has_ended_has_the_same_values(arm):
    """So it is with runs on lanes."""
    record, noted, alone = tracked(arm)
    late = Noted()
    log_result(alone, record, Tracking((late,), EVERY))
    assert late.told == noted.told
    assert late.ended == (record, None)


def test_a_run_without_replay_has_no_gaps_and_one_under_a_pass_keeps_its_bound():
    assert not any(name.startswith("gaps/") for name in tracked("none")[1].facts.names)
    told = tracked("er-ace")[1].told.values()
    assert all(values["gaps/overdue"] == 0 for values in told)
    assert all(values["gaps/bound"] == values["gaps/pass_bound"] for values in told)
    assert not any("gaps/bound" in values for values in tracked("er, mir:12")[1].told.values())


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def log_of(folder: Path, arm: str) -> Path:
    return folder / identity(config(**ARMS[arm])) / "log.csv"


def test_the_table_holds_every_value_exactly_and_an_empty_cell_elsewhere(tmp_path):
    _, noted, _ = tracked("er-ace")
    train(config(), images(), track=Tracking((f"csv:{tmp_path / 'named'}", "csv"), EVERY, tmp_path / "usual"))
    named, usual = (log_of(tmp_path / where, "er-ace") for where in ("named", "usual"))
    assert named.read_bytes() == usual.read_bytes()
    found = {int(row.pop("step")): {name: float(cell) for name, cell in row.items() if cell} for row in rows(named)}
    assert found == noted.told
    assert list(rows(named)[0]) == ["step", *noted.facts.names]


class Stop(BaseException):
    """A process that is ended."""


@pytest.mark.parametrize("arm", ["er-ace", "er, mir:12"])
@pytest.mark.parametrize("stop", [1, 7, 14])
def test_the_log_of_a_run_that_was_stopped_is_that_of_one_that_was_not(arm, stop, tmp_path):
    def watch(training, step):
        if step.step == stop:
            raise Stop

    noted = Noted()
    tracking = Tracking(("csv", noted), EVERY, tmp_path)
    folders = {"checkpoints": tmp_path / "checkpoints", "checkpoint_every": 5}
    with pytest.raises(Stop) as stopped:
        train(config(**ARMS[arm]), images(), track=tracking, watch=watch, **folders)
    before = log_of(tmp_path, arm).read_text(encoding="utf-8")
    assert noted.ended == (None, stopped.value)
    again = Noted()
    train(config(**ARMS[arm]), images(), track=Tracking(("csv", again), EVERY, tmp_path), **folders)
    whole = log_of(tmp_path, arm).read_text(encoding="utf-8")
    assert whole.startswith(before)
    assert again.told == tracked(arm)[1].told
    assert again.facts.done == max((step for step in (0, 3, 5, 6, 9, 10, 12) if step < stop), default=0)


def test_a_run_that_was_stopped_after_its_last_step_is_told_of_whole(tmp_path):
    for _ in range(2):  # the second goes on from the checkpoint at the end
        noted = Noted()
        train(config(), images(), track=Tracking((noted,), EVERY), checkpoints=tmp_path)
    assert noted.facts.done == STEPS
    assert noted.told == tracked("er-ace")[1].told


def test_in_another_process_it_is_the_same(tmp_path):
    run = config(width=2, seed=4)
    track = Tracking(("csv",), EVERY, tmp_path / "there")
    executor = Processes(1, ImageSource(images()))
    (outcome,) = executor.execute([run], lambda _: Job(track=track), lambda _: None)
    assert outcome.error is None
    with pytest.MonkeyPatch.context() as patch:  # the network that a process builds, which knows no thin one
        from reprise import nets
        from reprise.nets.build import build

        patch.setattr(nets, "build", build)
        record = train(run, images(), track=Tracking(("csv",), EVERY, tmp_path / "here"))
    assert result(outcome.record) == result(record)
    here, there = ((tmp_path / where / identity(run) / "log.csv").read_bytes() for where in ("here", "there"))
    assert here == there


@pytest.mark.parametrize("method", ["begin", "log", "end"])
def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(method):
    class Failing(Noted):
        pass

    def fail(self, *_):
        raise OSError("the disk is full")

    failing, noted, said = Failing(), Noted(), []
    setattr(Failing, method, fail)
    record = train(config(), images(), track=Tracking((failing, noted), EVERY), warn=said.append)
    assert result(record) == result(tracked("er-ace")[0])
    assert noted.told == tracked("er-ace")[1].told
    why = "OSError: the disk is full. The run goes on."
    assert said == [f"The tracker Failing failed in {method}() and is left out: {why}"]
    assert (failing.ended is None) == (method == "end")  # it was told of its own end, once


def test_a_run_that_fails_says_so_to_its_trackers():
    noted = Noted()
    with pytest.raises(TrainingFailed) as failed:
        train(config(lr=1e38), images(), track=noted)
    assert noted.ended == (None, failed.value)


def test_a_function_is_a_tracker_and_there_may_be_several():
    told, noted = {}, Noted()
    train(config(), images(), track=[lambda step, values: told.update({step: values}), noted])
    assert told == noted.told
    assert list(told) == [3, 6, 9, 10, 12, 15]  # every tenth step, unless told
