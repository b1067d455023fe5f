"""Runs as jobs of a cluster: submitit's own jobs on this machine, and its Slurm with commands that stand in for it."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("submitit", reason="submitit is not installed: the extra 'slurm' brings it")

import submitit
from processes import needs_table, started, wait_until
from train.tinyruns import config, identity, images, result

from reprise.core import plugins, registry
from reprise.core.extras import NotInstalled
from reprise.execute import Here, Job
from reprise.execute.one import ImageSource
from reprise.execute.remote import RemoteMaker
from reprise.execute.slurm import Slurm
from reprise.execute.slurm_job import ShareJob, outcome_files
from reprise.lab import campaign
from reprise.runs import Run, Store, TrainingFailed

GOOD, OTHER = config(seed=1), config(seed=2, learner="der++", head="linear")
DIVERGED = config(seed=3, lr=1e38)
AUDIT = Run.of(learner=None, classes=5, steps=9)
FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]
PLUGIN = '''
import os, time
from pathlib import Path
from reprise.core.registry import register
from reprise.learners.er import ER
from reprise.learners import Learner, Output

FOLDER = Path(__file__).parent

@register("learner", "patient")
class Patient(Learner):
    """Notes when it begins to learn, and waits before its eighth step while it is held."""

    def __init__(self, net, setting, *, who="anybody"):
        super().__init__(net, setting)
        self.who, self.steps = who, 0

    def forward(self, step):
        self.steps += 1
        if self.steps == 1:
            with (FOLDER / f"{self.who}.begun").open("a") as file:
                file.write(f"{os.getpid()}\\n")
        if self.steps == 8 and (FOLDER / f"{self.who}.hold").exists():
            (FOLDER / f"{self.who}.held").write_text(str(os.getpid()))
            while (FOLDER / f"{self.who}.hold").exists():
                time.sleep(0.01)
        return ER.forward(self, step)
'''


class Patience:
    """A plugin whose learner can be made to wait in a job."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "patient.py"
        self.file.write_text(PLUGIN)
        plugins.load_modules([str(self.file)])

    def run(self, name, **settings):
        return config(learner="patient", hyper={"who": name}, **settings)

    def hold(self, name):
        (self.folder / f"{name}.hold").touch()

    def release(self, name):
        (self.folder / f"{name}.hold").unlink()

    def held(self, name):
        """The process that waits, once it does."""
        file = self.folder / f"{name}.held"
        wait_until(lambda: file.exists() and file.read_text())
        process = int(file.read_text())
        file.unlink()
        return process

    def begun(self, name):
        """How often a run was begun."""
        return len((self.folder / f"{name}.begun").read_text().splitlines())


@pytest.fixture
def patience(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_MODULES", {})
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    folder = tmp_path / "plugin"
    folder.mkdir()
    return Patience(folder)


@pytest.fixture(autouse=True)
def promptly(monkeypatch):
    monkeypatch.setattr(submitit.LocalJob, "_results_timeout_s", 0)  # files of this machine are there or not


def jobs(folder, **options):
    usual = {"cluster": "local", "look_every": 0.05}
    return Slurm(folder / "jobs", ImageSource(images()), **{**usual, **options})


def made(runs, folder, executor=None, *, keep=False):
    """A campaign's outcomes by run, with its store in this folder."""
    options = {"images": ImageSource(images()), "keep_files": keep, "checkpoint_every": 2}
    chosen = executor or Here(ImageSource(images()))
    return {outcome.run: outcome for outcome in campaign(runs, chosen, Store(folder / "store"), **options)}


@cache
def here(*runs):
    ends = Here(ImageSource(images())).execute(runs, lambda _: Job(), lambda _: None)
    return {outcome.run: result(outcome.record) for outcome in ends}


def log(folder):
    (file,) = (folder / "jobs").glob("*.err")
    return file.read_text()


def in_background(action):
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("shared", [True, False])
def test_records_and_files_are_those_made_here(shared, tmp_path, request):
    """In a process of a job, beside a job for audits; and in two processes of a job with two cores, with a plugin."""
    last = AUDIT if shared else request.getfixturevalue("patience").run("anybody")
    runs, told = [GOOD, DIVERGED, OTHER, last], []
    executor = jobs(tmp_path, shared=shared, cpus_per_task=1 if shared else 2)
    given = ImageSource(images())
    out = Store(tmp_path / "store")
    work = campaign(runs, executor, out, images=given, keep_files=True, watch=told.append)
    ends = {outcome.run: outcome for outcome in work}
    good = [run for run in runs if run != DIVERGED]
    assert {run: result(ends[run].record) for run in good} == here(*good)
    assert {run: result(out.get(ends[run].record["identity"])) for run in good} == here(*good)
    assert isinstance(ends[DIVERGED].error, TrainingFailed)
    assert "diverged" in str(ends[DIVERGED].error)
    assert (told[-1].done, told[-1].failed, told[-1].steps) == (4, 1, 30 if shared else 45)
    assert ends[GOOD].record["provenance"]["command"][0] != "_submit.py"
    alone = Job(keep=tmp_path / "alone")
    next(Here(given).execute([OTHER], lambda _: alone, lambda _: None))
    for name in FILES:
        assert (out.files(identity(OTHER)) / name).read_bytes() == (alone.keep / name).read_bytes()
    assert not list(tmp_path.rglob("*.pkl"))
    assert not list((tmp_path / "jobs" / "outcomes").iterdir())


def test_a_job_that_is_killed_loses_only_what_it_had_not_ended(tmp_path, patience):
    runs = [GOOD, patience.run("victim"), OTHER]
    patience.hold("victim")
    killer = in_background(lambda: os.kill(patience.held("victim"), signal.SIGKILL))
    ends = made(runs, tmp_path, jobs(tmp_path))
    killer.join()
    assert result(ends[GOOD].record) == here(GOOD)[GOOD]
    for run in runs[1:]:
        assert isinstance(ends[run].error, TrainingFailed)
        said = str(ends[run].error)
        assert "ended before the run did" in said
        assert Path(said.rpartition(" ")[2]).is_file(), "the log is named"
    patience.release("victim")
    ends = made(runs, tmp_path)
    assert [ends[run].known for run in runs] == [True, False, False]
    assert {run: result(ends[run].record) for run in runs} == here(*runs)
    assert ends[runs[1]].record["timings"]["steps"] < 15


def test_a_job_that_is_preempted_is_queued_again_and_goes_on_from_its_checkpoint(tmp_path, patience):
    runs = [GOOD, patience.run("moved")]
    patience.hold("moved")

    def preempt():
        process = patience.held("moved")
        patience.release("moved")
        os.kill(process, signal.SIGUSR2)

    preempted = in_background(preempt)
    ends = made(runs, tmp_path, jobs(tmp_path, shared=False), keep=True)
    preempted.join()
    assert patience.begun("moved") == 2
    assert ends[runs[1]].record["timings"]["steps"] == 9  # of 15, from the checkpoint of step 6
    assert {run: result(ends[run].record) for run in runs} == here(*runs)
    assert "this job is preempted" in log(tmp_path)
    assert sorted(path.name for path in Store(tmp_path / "store").files(identity(runs[1])).iterdir()) == FILES


def test_a_job_whose_time_is_over_is_queued_again_but_not_for_ever(tmp_path, patience):
    run = patience.run("slow")
    patience.hold("slow")

    def interrupt():  # submitit knows by the time a job has had why it gets the signal, and here it has little
        for _ in range(2):
            os.kill(patience.held("slow"), signal.SIGUSR2)

    interrupted = in_background(interrupt)
    ends = made([run], tmp_path, jobs(tmp_path, timeout_min=5, local_max_num_timeout=1))
    interrupted.join()
    assert patience.begun("slow") == 2
    assert "timed-out too many times" in str(ends[run].error)
    assert log(tmp_path).count("this job is timed-out") == 2
    assert list(Store(tmp_path / "store").unfinished(identity(run)).glob("step-*"))


@needs_table
def test_closing_cancels_the_jobs_that_are_under_way(tmp_path, patience):
    run = patience.run("left")
    patience.hold("left")
    with closing(jobs(tmp_path).execute([GOOD, run], lambda _: Job(), lambda _: None)) as ends:
        assert next(ends).run == GOOD
        process = Path("/proc", str(patience.held("left")), "stat")
    wait_until(lambda: not process.exists() or ") Z " in process.read_text(), 10)


SCRIPT = """
import sys
from pathlib import Path
from execute.test_slurm import GOOD, Patience, jobs, made

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    made([Patience(folder / "plugin").run("orphan"), GOOD], folder, jobs(folder))
"""


def test_jobs_of_a_campaign_that_was_killed_end_their_runs_and_none_is_made_twice(tmp_path, patience):
    runs = [patience.run("orphan"), GOOD]
    patience.hold("orphan")
    with started("-c", SCRIPT, str(tmp_path)) as killed:
        patience.held("orphan")
        killed.kill()  # the job is another process, and goes on
        killed.wait()
        ends = {}
        again = in_background(lambda: ends.update(made(runs, tmp_path, jobs(tmp_path))))
        wait_until(lambda: len(list((tmp_path / "jobs").glob("*.out"))) == 2)  # the second campaign has a job as well
        patience.release("orphan")
        again.join()
    assert patience.begun("orphan") == 1
    assert {run: result(ends[run].record) for run in runs} == here(*runs)


# Without a job.


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # logs that submitit opens for a job of "debug"
def test_runs_are_asked_for_when_their_job_is_submitted_and_may_be_left_out(tmp_path):
    asked = []

    def start(run):
        asked.append(run)
        return None if run.seed % 2 else Job()

    audits = [AUDIT.replace(seed=seed) for seed in range(8)]
    executor = jobs(tmp_path, cluster="debug", share=2, at_once=1)
    ends = executor.execute(audits, start, lambda _: None)
    first = next(ends)
    assert asked == audits[:2]
    assert [first.run, *(outcome.run for outcome in ends)] == audits[::2]
    assert asked == audits
    assert list(executor.execute(audits, lambda _: None, lambda _: None)) == []


def test_a_job_that_slurm_itself_begins_again_makes_what_has_no_outcome(tmp_path):
    """After the loss of its node it is what was submitted first, and an outcome that was read is an empty file."""
    audits = [AUDIT.replace(seed=seed) for seed in range(3)]
    (tmp_path / "1.outcome").touch()
    job = ShareJob(RemoteMaker(), [(run, Job()) for run in audits], tmp_path)
    pickle.loads(pickle.dumps(job))()
    left = {number: path for number, path in outcome_files(tmp_path).items() if path.stat().st_size}
    assert {pickle.loads(path.read_bytes()).outcome.run for path in left.values()} == {audits[0], audits[2]}
    assert left.keys() == {0, 2}


def test_sigterm_is_ignored_while_a_job_makes_runs(tmp_path):
    """By processes that it begins as well; submitit waits for another signal."""
    seen = []

    def maker(share, tick):
        seen.append(signal.getsignal(signal.SIGTERM))
        return iter(())

    before = signal.getsignal(signal.SIGTERM)
    ShareJob(maker, [], tmp_path)()
    assert seen == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGTERM) == before


def test_on_gpus_a_job_has_runs_of_one_kind(tmp_path):
    runs = [GOOD, OTHER, config(seed=4), AUDIT, config(seed=5)]
    shares = jobs(tmp_path, gpus=1, share=2)._shares(runs)
    assert shares == [[GOOD, runs[2]], [runs[4]], [OTHER], [AUDIT]]
    assert jobs(tmp_path, share=3)._shares(runs) == [[GOOD, OTHER, runs[2]], [runs[4]], [AUDIT]]
    assert [jobs(tmp_path, gpus=2).share, jobs(tmp_path, cpus_per_task=2).share] == [96, 8]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster": "cloud"}, "cluster must be one of slurm, local, debug, got 'cloud'"),
        ({"cluster": "slurm"}, "srun"),
        ({"share": 0}, "share must be 1 or more, got 0"),
        ({"at_once": 0}, "at once must be 1 or more, got 0"),
        ({"slurm_partitoin": "gpu"}, "partitoin"),
        ({"timeout_min": "long"}, "timeout_min"),
        ({"local_nodes": 2}, "a job is a process on one node"),
    ],
)
def test_what_cannot_be_is_refused(given, said, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=said):
        jobs(tmp_path, **given)


def test_without_submitit_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(NotInstalled, match="the extra 'slurm' brings it"):
        jobs(tmp_path)


# Slurm's commands.

SBATCH = """#!/bin/sh
# Begins every job of an array, and forgets it. As Slurm's it keeps a copy of the script: submitit moves its own away.
echo "$@" >>"$SLURM_STAND_IN/submitted"
if grep -q 'partition=gone' "$1"; then echo "sbatch: error: invalid partition specified: gone" >&2; exit 1; fi
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
script=$SLURM_STAND_IN/script.sh
cp "$1" "$script"
for number in $(seq 0 "$last"); do
    SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$number SLURM_JOB_ID=7$number sh "$script" >/dev/null 2>&1 &
done
echo "Submitted batch job 7"
"""
SRUN = """#!/bin/sh
# Of the options only the last two say where output goes, as %A_%a; the command follows.
while [ "${1#-}" != "$1" ]; do
    case "$1" in --output) out=$2; shift 2;; --error) err=$2; shift 2;; *) shift;; esac
done
name="7_${SLURM_ARRAY_TASK_ID}_0"
"$@" >"${out%/*}/${name}_log.out" 2>"${err%/*}/${name}_log.err"
"""
SACCT = """#!/bin/sh
printf 'JobID|State|NodeList\\n7_0|RUNNING|n1\\n7_1|OUT_OF_MEMORY|n2\\n'
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Commands that stand in for Slurm's: every job runs here, and the second of an array is said to be lost."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT), ("scancel", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(tmp_path))
    monkeypatch.setattr(submitit.SlurmJob, "_results_timeout_s", 0)
    submitit.SlurmJob.watcher.clear()
    return tmp_path / "submitted"


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no sh")
def test_jobs_of_slurm_are_an_array_and_its_word_of_a_lost_job_is_passed_on(stand_in, tmp_path, patience):
    runs = [AUDIT, AUDIT.replace(seed=1), patience.run("lost")]
    patience.hold("lost")
    executor = jobs(tmp_path, cluster="slurm", timeout_min=7, slurm_partition="long", mem_gb=2)
    ends = made(runs, tmp_path, executor)
    patience.release("lost")
    assert {run: result(ends[run].record) for run in runs[:2]} == here(*runs[:2])
    assert "state OUT_OF_MEMORY" in str(ends[runs[2]].error)
    assert len(stand_in.read_text().splitlines()) == 1
    (script,) = (tmp_path / "jobs").glob("[!.]*.sh")
    for option in ("array=0-1%2", "time=7", "partition=long", "mem=2GB", "job-name=reprise", "signal=USR2@90"):
        assert f"#SBATCH --{option}" in script.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no sh")
def test_a_job_that_slurm_refuses_is_an_error_of_its_runs(stand_in, tmp_path, capfd):
    executor = jobs(tmp_path, cluster="slurm", slurm_partition="gone", share=1)
    ends = made([AUDIT, AUDIT.replace(seed=1)], tmp_path, executor)
    for outcome in ends.values():
        assert str(outcome.error) == "its job could not be submitted: sbatch: error: invalid partition specified: gone"
