"""Campaigns of runs that train: their images are part of what they are, and a stopped run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch")

from lab.tinystudies import Counted, result, scratch_files
from train.tinyruns import config, identity, images, other_pixels, thin_networks

from reprise.execute import Here
from reprise.execute.one import ImageSource
from reprise.lab import Progress, campaign
from reprise.runs import Images, Run, Store, TrainingFailed
from reprise.train import train

RUNS = [config(seed=seed) for seed in range(2)]
STEPS = 15


@pytest.fixture(autouse=True)
def thin() -> Iterator[None]:
    with thin_networks():
        yield


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def work(store: Store | None, given: Images | None = None, runs: list[Run] = RUNS, **more: Any) -> tuple[Counted, list]:
    """A campaign on these images, and who made its runs."""
    source = ImageSource(given or images())
    executor = Counted(Here(source, watch=more.pop("step", None)))
    return executor, list(campaign(runs, executor, store, images=source, **more))


def test_records_are_those_of_train(store: Store) -> None:
    executor, ended = work(store)
    assert [result(one.record) for one in ended] == [result(train(run, images())) for run in RUNS]
    assert [job.checkpoints for job in executor.jobs] == [store.unfinished(identity(run)) for run in RUNS]
    assert {path.stem for path in store.folder.glob("records/*")} == {identity(run) for run in RUNS}
    assert list(store.folder.glob("unfinished/*")) == []
    assert not (store.folder / "files").exists()
    assert "| er-ace on tiny-balanced, reservoir 20, rpr 4, seed 1 |" in (store.folder / "index.md").read_text()


def test_images_that_differ_in_a_bit_have_records_of_their_own(store: Store) -> None:
    given = [images(), other_pixels(), other_pixels(part="test")]
    first = [work(store, one)[1] for one in given]
    assert {path.stem for path in store.folder.glob("records/*")} == {identity(r, one) for r in RUNS for one in given}
    assert len(list(store.records())) == 6
    for one, before in zip(given, first, strict=True):
        executor, again = work(store, one)
        assert executor.made == []
        assert [end.record for end in again] == [end.record for end in before]


def test_images_that_changed_meanwhile_are_an_error(store: Store) -> None:
    executor = Here(ImageSource(other_pixels()))
    (ended,) = campaign(RUNS[:1], executor, store, images=ImageSource(images()))
    assert str(ended.error) == "its images are not those that the campaign was begun with"
    assert list(store.records()) == []


def test_a_run_that_diverges_does_not_stop_the_others(store: Store) -> None:
    told: list[Progress] = []
    runs = [RUNS[0].replace(lr=1e38), RUNS[1]]
    _, (failed, well) = work(store, runs=runs, watch=told.append)
    assert isinstance(failed.error, TrainingFailed)
    assert (failed.record, well.error) == (None, None)
    assert [record["run"]["seed"] for record in store.records()] == [1]
    assert (told[-1].done, told[-1].failed, told[-1].total) == (2, 1, 2)
    assert STEPS <= told[-1].steps < 2 * STEPS
    assert told[-1].left == 0


def test_a_stopped_run_goes_on_to_the_same_record(store: Store) -> None:
    def stop(training: Any, step: Any) -> None:
        if step.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(store, runs=RUNS[:1], step=stop, checkpoint_every=2, keep_files=True)
    assert scratch_files(store.folder) == []
    folder = store.unfinished(identity(RUNS[0]))
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000004", "step-00000006"]
    begun: list[int] = []
    told: list[Progress] = []
    runs = [RUNS[0], RUNS[1].replace(lr=1e38)]
    _, (ended, _) = work(
        store, runs=runs, step=lambda _, step: begun.append(step.step), keep_files=True, watch=told.append
    )
    assert begun[0] == 7
    assert next(one.left for one in told if one.done == 1) == STEPS  # the second is as long as the whole first
    assert result(ended.record) == result(train(RUNS[0], images()))
    assert not folder.exists()
    kept = {path.name for path in store.files(identity(RUNS[0])).iterdir()}
    assert kept == {"tape.safetensors", "ema.safetensors", "live.safetensors"}


def test_images_are_read_once_for_all_runs_that_share_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Run] = []
    monkeypatch.setattr(Images, "load", lambda run, root=None, progress=None: read.append(run) or images())
    source = ImageSource()
    assert len(list(campaign(RUNS, Here(source), store, images=source))) == 2
    assert all(one.known for one in campaign(RUNS, Here(source), store, images=source))
    assert len(read) == 1


def test_a_description_that_was_read_back_is_the_same_run(store: Store) -> None:
    work(store)
    again = [Run.from_dict(json.loads(json.dumps(record["run"]))) for record in store.records()]
    executor, ended = work(store, runs=again)
    assert executor.made == []
    assert all(one.known for one in ended)
