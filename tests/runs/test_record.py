"""What a record says of a run, figure by figure."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from train.tinyruns import config, images, run_to, thin_networks

from reprise.core.files import Damaged, OtherFormat
from reprise.execute.one import audit
from reprise.runs import Run, RunResult, make_plan, make_record
from reprise.runs.plan import Labels
from reprise.runs.record import FORMAT, MOST_POINTS, check_record, curves

OF_THE_TAPE = {"tape", "audit", "gaps", "pairs", "exposure"}
OF_TRAINING = {"metrics", "prequential", "evaluations", "curves", "diagnostics", "final_loss"}


@pytest.fixture(scope="module")
def ended():
    """A run that has ended."""
    with thin_networks():
        return run_to(config())


def test_figures_are_those_of_the_run(ended):
    record, stream = make_record(ended.result({})), ended.plan.stream
    hits, sizes = ended.hits.numpy(), np.diff(stream.offsets)
    ends = stream.boundaries.tolist()
    by_task = [hits[a:b].sum() / sizes[a:b].sum() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    assert len(set(by_task)) > 1, "every order of tasks would look the same"
    assert record["prequential"]["by_task"] == pytest.approx(by_task)
    assert record["prequential"]["accuracy"] == pytest.approx(hits.sum() / sizes.sum())
    assert record["final_loss"] == float(ended.losses[-1]) != float(ended.losses[0])
    assert record["tape"] == ended.feed.tape().hash
    assert record["evaluations"]["steps"] == ends
    assert record["data"] == {"train": images().train.fingerprint(), "test": images().test.fingerprint()}
    assert record["identity"] == ended.run.identity(record["data"])
    assert (record["name"], record["run"]) == (ended.run.name, ended.run.to_dict())
    assert record["curves"]["loss"] == ended.losses.double().tolist()  # fewer steps than points
    assert record["curves"]["accuracy"] == pytest.approx(hits / sizes)
    assert record["curves"]["steps"] == list(range(1, 16))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert check_record(record) is record


def test_an_audit_and_a_trained_run_share_what_the_tape_decides(ended):
    """The tape of a run is the one that an audit of the same stream plans, so all that is said of it is the same."""
    trained = make_record(ended.result({}))
    kept = {name: value for name, value in ended.run.flat().items() if name in Run.of(learner=None).flat()}
    audited = Run.of(learner=None, **kept)
    plan = make_plan(audited, Labels.of(images(), ended.run))
    record = make_record(RunResult.of(plan, {}, plan.tape, {}, None))
    for name in (*OF_THE_TAPE, "stream", "format"):
        assert record[name] == trained[name], name
    assert trained.keys() == record.keys() | OF_TRAINING
    assert record.keys() > OF_THE_TAPE
    assert (record["split"], trained["split"]) == (None, "test")
    assert record["identity"] != trained["identity"]


def test_the_record_of_an_audit():
    run = Run.of(learner=None, dataset="cifar10", imbalance=10, buffer=200)
    record = audit(run)
    assert record["stream"]["name"] == "cifar10-lt10"
    assert sum(record["stream"]["counts"]) == record["stream"]["examples"]
    assert record["data"].keys() == {"labels"}
    assert "torch" not in record["provenance"]
    age = datetime.now(timezone.utc) - datetime.fromisoformat(record["provenance"]["ended"])
    assert timedelta(seconds=-1) < age < timedelta(minutes=5)
    still = audit(Run.of(learner=None, classes=10, steps=50))
    assert still["stream"] == {"name": "10 classes that stay", "steps": 50, "examples": 0, "boundaries": [50]}
    assert still["data"] == {}
    for one in (record, still):
        assert json.loads(json.dumps(one, allow_nan=False)) == check_record(one)
        assert not OF_TRAINING & one.keys()


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 399, 1000, 1234])
def test_curves_are_means_over_windows_of_equal_length(count):
    random = np.random.default_rng(count)
    losses, sizes = random.random(count).astype(np.float32), random.integers(1, 9, count)
    hits = random.integers(0, sizes + 1)
    found = curves(losses, hits, sizes)
    ends = found["steps"]
    assert len(ends) == len(found["loss"]) == len(found["accuracy"]) == min(count, MOST_POINTS)
    assert ends[-1] == count
    lengths = np.diff([0, *ends])
    assert lengths.min() >= 1
    assert lengths.max() - lengths.min() <= 1
    for first, last, loss, share in zip([0, *ends[:-1]], ends, found["loss"], found["accuracy"], strict=True):
        assert loss == pytest.approx(losses[first:last].astype(float).mean())
        assert share == pytest.approx(hits[first:last].sum() / sizes[first:last].sum())
    assert np.dot(found["loss"], lengths) == pytest.approx(losses.astype(float).sum())


def test_the_command_is_the_programs_own(ended, monkeypatch):
    for argv, said in [(["/a/b/reprise", "train"], "reprise"), (["/x/reprise/__main__.py", "train"], "reprise")]:
        monkeypatch.setattr("sys.argv", argv)
        assert make_record(ended.result({}))["provenance"]["command"] == [said, "train"]
    monkeypatch.setattr("sys.argv", ["/home/me/script.py", "--mine"])
    assert make_record(ended.result({}))["provenance"]["command"] == ["script.py", "--mine"]


def test_a_record_that_was_changed_or_is_of_another_format_is_refused(ended):
    record = make_record(ended.result({}))
    with pytest.raises(Damaged, match="checksum"):
        check_record({**record, "final_loss": 0.5})
    with pytest.raises(OtherFormat, match=f"its format is 'reprise-record/2', older than '{FORMAT}'"):
        check_record({"format": "reprise-record/2"})
    for nothing in ([], 3, None, {}):
        with pytest.raises(Damaged):
            check_record(nothing)
