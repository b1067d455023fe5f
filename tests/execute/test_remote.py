"""What runs on another machine, called here: both ways of the store, what is left behind, and errors that travel."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from processes import Stubborn
from train.tinyruns import config, identity, images, other_pixels, result, thin_networks

from reprise.core.files import Lock, write_json
from reprise.execute import Executor, Here, Job, RunOutcome, remote
from reprise.execute.one import ImageSource
from reprise.execute.remote import RemoteMaker
from reprise.runs import Run, Store, TrainingFailed
from reprise.track import Tracking

RUN, AUDIT = config(seed=1), Run.of(learner=None, classes=5, steps=9)
FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]


def sent(maker, *share):
    """What comes back of a share, as another process would have it."""
    maker, share = pickle.loads(pickle.dumps((maker, share)))
    return pickle.loads(pickle.dumps(list(maker(share, lambda _: None))))


def here(*runs):
    """Records of runs made in this process."""
    return [one.record for one in Here(ImageSource(images())).execute(runs, lambda _: Job(), lambda _: None)]


def job(store, run=RUN, *, keep=True):
    name = identity(run)
    return Job(store.unfinished(name), 2, store.files(name) if keep else None)


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.fixture(autouse=True)
def _thin():
    with thin_networks():
        yield


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


class Stopping(Executor):
    """Stops after some steps, as a worker that is lost."""

    def __init__(self, images):
        self.images = images

    def execute(self, runs, start, tick):
        def watch(training, step):
            if step.step == 7:
                raise SystemExit

        yield from Here(self.images, watch=watch).execute(runs, start, tick)


class Failing(Executor):
    """Ends every run with an error that cannot be pickled."""

    def __init__(self, images):
        pass

    def execute(self, runs, start, tick):
        yield from (RunOutcome(run, None, Stubborn("this", "that")) for run in runs if start(run) is not None)


def test_records_are_those_made_here_and_steps_are_told():
    told = []
    back = list(RemoteMaker(images())([(RUN, Job()), (AUDIT, Job())], told.append))
    assert [result(one.outcome.record) for one in back] == [*map(result, here(RUN, AUDIT))]
    assert [one.files for one in back] == [{}, {}]
    assert sum(told) == 15


def test_what_travels_back_is_written_on_the_other_side_and_nothing_is_left(store, tmp_path):
    maker = RemoteMaker(images(), scratch=str(tmp_path / "node"))
    (back,) = sent(maker, (RUN, job(store)))
    assert not store.folder.exists()
    assert names(tmp_path / "node") == []
    outcome = back.unpack(job(store))
    assert result(outcome.record) == result(here(RUN)[0])
    assert names(job(store).keep) == FILES
    alone = Job(keep=tmp_path / "alone")
    next(Here(ImageSource(images())).execute([RUN], lambda _: alone, lambda _: None))
    for name in FILES:
        assert (job(store).keep / name).read_bytes() == (alone.keep / name).read_bytes()


def test_on_shared_storage_files_are_written_there_and_the_record_waits(store, tmp_path):
    maker = RemoteMaker(images(), shared=True)
    (back,) = sent(maker, (RUN, job(store)))
    assert back.files == {}
    assert back.unpack(job(store)) == back.outcome
    assert names(job(store).keep) == FILES
    assert "record.json" in names(job(store).checkpoints)
    assert "lock" not in names(job(store).checkpoints)
    store.put(back.outcome.record)
    assert not job(store).checkpoints.exists()


@pytest.mark.parametrize("shared", [False, True])
def test_a_run_that_was_lost_goes_on_from_its_checkpoint(shared, store, tmp_path):
    maker = RemoteMaker(images(), shared=shared, scratch=str(tmp_path / "node"))
    with pytest.raises(SystemExit):
        sent(replace(maker, executor=Stopping), (RUN, job(store)))
    (back,) = sent(maker, (RUN, job(store)))
    assert back.outcome.record["timings"]["steps"] == 9  # of 15, from the checkpoint of step 6
    assert result(back.outcome.record) == result(here(RUN)[0])
    (anew,) = sent(RemoteMaker(images(), scratch=str(tmp_path / "another node")), (RUN, job(store)))
    assert anew.outcome.record["timings"]["steps"] == 15


def test_a_record_that_waits_on_shared_storage_is_not_made_again(store, tmp_path):
    maker, wanted = RemoteMaker(images(), shared=True), job(store, keep=False)
    (first,) = sent(maker, (RUN, wanted))
    failing = RemoteMaker(images(), executor=Failing, shared=True)
    (second,) = sent(failing, (RUN, wanted))
    assert second == first
    write_json(wanted.checkpoints / "record.json", {**first.outcome.record, "final_loss": 0.0})
    (damaged,) = sent(failing, (RUN, wanted))
    assert damaged.outcome.record is None
    sent(maker, (config(seed=2), wanted))  # the record of another run
    (other,) = sent(failing, (RUN, wanted))
    assert other.outcome.record is None


def test_on_shared_storage_the_record_is_written_into_the_store_itself(store):
    wanted = replace(job(store), record=store.record_file(identity(RUN)))
    (first,) = sent(RemoteMaker(images(), shared=True), (RUN, wanted))
    assert store.get(identity(RUN)) == first.outcome.record
    assert not wanted.checkpoints.exists()
    (second,) = sent(RemoteMaker(images(), executor=Failing, shared=True), (RUN, wanted))
    assert second == first
    store.record_file(identity(RUN)).unlink()
    (other,) = sent(RemoteMaker(other_pixels(), shared=True), (RUN, wanted))
    assert other.outcome.error is None  # whose record it is, the campaign finds out
    assert not list(store.records())


def test_a_run_that_another_worker_still_makes_is_waited_for(store, monkeypatch):
    monkeypatch.setattr(remote, "_LOOK_EVERY", 0.01)
    wanted = job(store, keep=False)
    wanted.checkpoints.mkdir(parents=True)
    orphan = Lock(wanted.checkpoints / "lock")
    (record,) = here(RUN)
    ended = []
    thread = threading.Thread(target=lambda: ended.extend(RemoteMaker(images(), shared=True)([(RUN, wanted)], int)))
    thread.start()
    time.sleep(0.1)
    assert not ended
    write_json(wanted.checkpoints / "record.json", record)
    orphan.release()
    thread.join()
    assert [one.outcome.record for one in ended] == [record]


def test_an_error_is_one_run_s_and_can_be_sent(store):
    diverged = config(seed=3, lr=1e38)
    one, other = sent(RemoteMaker(images()), (diverged, job(store, diverged)), (AUDIT, Job()))
    assert isinstance(one.outcome.error, TrainingFailed)
    assert "diverged" in str(one.outcome.error)
    assert other.outcome.error is None
    (failed,) = sent(RemoteMaker(images(), executor=Failing), (RUN, Job()))
    assert str(failed.outcome.error) == "Stubborn: this and that"


def test_what_no_run_can_be_made_without_is_the_error_of_each(tmp_path):
    back = sent(RemoteMaker(modules=(str(tmp_path / "gone.py"),)), (RUN, Job()), (AUDIT, Job()))
    assert [one.outcome.run for one in back] == [RUN, AUDIT]
    assert all("gone.py" in str(one.outcome.error) for one in back)


def test_a_folder_that_cannot_be_written_to_is_said(store, tmp_path):
    (tmp_path / "file").write_text("")
    (back,) = sent(RemoteMaker(images(), scratch=str(tmp_path / "file")), (RUN, job(store)))
    assert "file" in str(back.outcome.error)
    (back,) = sent(RemoteMaker(images(), scratch=str(tmp_path / "node")), (RUN, Job(keep=tmp_path / "file" / "kept")))
    outcome = back.unpack(Job(keep=tmp_path / "file" / "kept"))
    assert outcome.record is None
    assert "cannot be written" in str(outcome.error)


def test_paths_hold_in_a_process_that_works_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Job(Path("unfinished"), keep=Path("files"), record=Path("records/x.json"), track=Tracking(("csv",)))
    maker, sent_job = RemoteMaker(data="data"), remote.absolute(given)
    monkeypatch.chdir("/")
    assert maker.data == str(tmp_path / "data")
    paths = [sent_job.checkpoints, sent_job.keep, sent_job.record, sent_job.track.folder]
    assert paths == [tmp_path / name for name in ("unfinished", "files", "records/x.json", "tracks")]
    assert remote.absolute(Job()).checkpoints is None


@pytest.mark.parametrize("shared", [False, True])
def test_trackers_are_told_of_a_run_there(shared, tmp_path, store):
    asked = replace(job(store, keep=False), track=Tracking(("csv",), folder=tmp_path / "tracks"))
    (end,) = sent(RemoteMaker(images(), shared=shared, scratch=str(tmp_path / "scratch")), (RUN, asked))
    assert end.outcome.error is None
    assert names(tmp_path / "tracks")[0] == identity(RUN)
