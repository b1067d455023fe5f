"""Many runs in one call: what it is short for, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from train.tinyruns import config, identity, images, result, thin_networks

from reprise.execute import Here
from reprise.execute.one import ImageSource
from reprise.lab import campaign, run_all
from reprise.runs import Run, Store
from reprise.train import train

RUNS = [config(seed=seed) for seed in range(3)]


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def test_it_is_short_for_a_campaign_over_a_store(tmp_path):
    """One process, so that all is made here."""
    told = []
    found = {one.run: one for one in run_all(RUNS[:2], images(), out=tmp_path / "a", jobs=1, watch=told.append)}
    given = ImageSource(images())
    wanted = {one.run: one for one in campaign(RUNS[:2], Here(given), Store(tmp_path / "b"), images=given)}
    for run in RUNS[:2]:
        assert result(found[run].record) == result(wanted[run].record) == result(train(run, images()))
    for name in "ab":
        assert {one["identity"] for one in Store(tmp_path / name).records()} == {identity(run) for run in RUNS[:2]}
    assert (told[-1].done, told[-1].failed, told[-1].total, told[-1].steps) == (2, 0, 2, 30)
    assert next(one.left for one in told if one.done == 1) == 15
    again = list(run_all(RUNS, images(), out=str(tmp_path / "a"), jobs=1, watch=told.append))
    assert [one.known for one in again] == [True, True, False]
    assert (told[-1].steps, told[-1].left) == (15, 0)  # what was known before was not made here


def test_audits_go_with_runs_that_train(tmp_path):
    audit = Run.of(learner=None, classes=5, steps=9)
    ends = {one.run: one for one in run_all([RUNS[0], audit], images(), out=tmp_path, jobs=1)}
    assert ends[audit].record["split"] is None
    assert "metrics" in ends[RUNS[0]].record
    assert len(list(Store(tmp_path).records())) == 2


def test_without_its_images_a_run_cannot_be_known(tmp_path):
    """They are missed by whoever was to train on them."""
    list(run_all(RUNS[:1], images(), out=tmp_path))
    (outcome,) = run_all(RUNS[:1], out=tmp_path)
    assert outcome.record is None
    assert "tiny" in str(outcome.error)


def test_without_runs_nothing_is_started(tmp_path):
    assert list(run_all([], images(), out=tmp_path / "out")) == []
    assert list(run_all([], images())) == []
    assert not (tmp_path / "out").exists()


def test_a_store_in_which_nothing_can_be_made_is_named_before_anything_is_run(tmp_path):
    (tmp_path / "claims").write_text("a file")
    with pytest.raises(ValueError, match=r"claims cannot be made"):
        list(run_all(RUNS[:1], images(), out=tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize(
    ("device", "said"), [("cuda", "torch finds no GPU here"), ("gpu", "there is no device 'gpu'; 'cpu' and 'cuda'")]
)
def test_a_device_that_is_not_there_is_refused_before_all_else(device, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        list(run_all(RUNS, data="nowhere", device=device, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
