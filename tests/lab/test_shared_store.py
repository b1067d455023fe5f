"""One store, several who work with it: every run is made once, and what a killed process leaves is cleared away."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from lab.tinystudies import Counted, Failing, audits, result, scratch_files
from processes import started, wait_until

from reprise.execute import RunOutcome
from reprise.execute.one import audit
from reprise.lab import campaign
from reprise.runs import Run, Store
from reprise.runs import store as store_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no locks that lapse")
RUNS = audits(6)
IDENTITIES = {run: result(audit(run))["identity"] for run in RUNS}
HOLD = """
import sys, time
from pathlib import Path
from reprise.runs import Store
store = Store(sys.argv[1])
claims = [store.claim(identity) for identity in sys.argv[2:]]
assert all(claims)
Path(sys.argv[1], "held").touch()
time.sleep(600)
"""
WORK = """
import sys, time
from pathlib import Path
from lab.tinystudies import Counted, audits
from reprise.lab import campaign
from reprise.runs import Store

folder, mine = Path(sys.argv[1]), sys.argv[2]
(folder / f"{mine}.ready").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
executor = Counted()
for outcome in campaign(audits(40), executor, Store(folder / "store")):
    if not outcome.known:
        time.sleep(0.01)  # so that both come to make some
print(*[run.seed for run in executor.made])
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@contextmanager
def holder(store: Store, *runs: Run) -> Iterator[Popen[str]]:
    """Another process that claims these runs and makes none."""
    with started("-c", HOLD, str(store.folder), *(IDENTITIES[run] for run in runs)) as process:
        wait_until(lambda: (store.folder / "held").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process


class Campaign(threading.Thread):
    """A campaign in a thread of its own."""

    def __init__(self, store: Store, executor: Counted) -> None:
        super().__init__(daemon=True)
        self.store, self.executor = store, executor
        self.ended: list[RunOutcome] = []

    def run(self) -> None:
        self.ended += campaign(RUNS, self.executor, self.store)


def test_two_campaigns_at_once_make_every_run_once(store: Store) -> None:
    meeting = threading.Barrier(2)

    class Meeting(Counted):
        def execute(self, runs, start, tick):  # type: ignore[no-untyped-def]
            meeting.wait(60)
            for outcome in super().execute(runs, start, tick):
                if len(self.made) == 1:
                    meeting.wait(60)  # both have begun a run when the first is kept
                yield outcome

    both = [Campaign(store, Meeting()) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
        assert {ended.run: result(ended.record) for ended in one.ended} == {run: result(audit(run)) for run in RUNS}
        assert [ended.run for ended in one.ended if not ended.known] == one.executor.made
    made = [run for one in both for run in one.executor.made]
    assert sorted(run.seed for run in made) == [run.seed for run in RUNS]
    assert all(one.executor.made for one in both)
    assert scratch_files(store.folder) == []


def test_two_processes_at_once_make_every_run_once(tmp_path: Path) -> None:
    with started("-c", WORK, str(tmp_path), "one") as one, started("-c", WORK, str(tmp_path), "other") as other:
        wait_until(lambda: len(list(tmp_path.glob("*.ready"))) == 2 or None not in (one.poll(), other.poll()))
        (tmp_path / "go").touch()
        (mine, wrong), (theirs, also) = one.communicate(timeout=100), other.communicate(timeout=100)
    assert (wrong, also) == ("", "")
    assert sorted(map(int, [*mine.split(), *theirs.split()])) == list(range(40))
    assert mine.split()
    assert theirs.split()
    assert len(list(Store(tmp_path / "store").records(pytest.fail))) == 40
    assert scratch_files(tmp_path / "store") == []
    assert (tmp_path / "store" / "index.md").read_text(encoding="utf-8").startswith("40 runs; ")


def test_a_run_that_somebody_else_makes_is_waited_for_and_not_made(store: Store) -> None:
    claim = store.claim(IDENTITIES[RUNS[0]])
    assert claim is not None
    work = Campaign(store, Counted())
    work.start()
    assert work.executor.one_refused.wait(60)
    store.put(audit(RUNS[0]))
    claim.release()
    work.join(60)
    assert work.executor.made == RUNS[1:]
    assert [ended.run for ended in work.ended if ended.known] == RUNS[:1]


def test_a_failed_run_is_made_again_while_somebody_else_makes_another(store: Store) -> None:
    theirs, ours = RUNS[:2]
    tries: list[Run] = []

    def fails(run: Run) -> Exception | None:
        tries.append(run)
        return RuntimeError("once") if run == ours and tries.count(ours) == 1 else None

    claim = store.claim(IDENTITIES[theirs])
    assert claim is not None
    late = threading.Timer(20, claim.release)  # so that this test ends, whatever is wrong
    late.start()
    outcomes = campaign([theirs, ours], Failing(fails), store, retries=1)
    first = next(outcomes)
    assert (first.run, first.error, late.is_alive()) == (ours, None, True)
    late.cancel()
    claim.release()
    assert [outcome.run for outcome in outcomes] == [theirs]


def test_a_claim_of_a_process_that_was_killed_lapses(store: Store) -> None:
    with holder(store, *RUNS[:2]) as process:
        assert store.claim(IDENTITIES[RUNS[0]]) is None
        work = Campaign(store, Counted())
        work.start()
        assert work.executor.one_refused.wait(60)
        wait_until(lambda: len(list(store.records())) == len(RUNS) - 2)
        assert work.is_alive()
        assert not set(RUNS[:2]) & set(work.executor.made)
        process.kill()
        process.wait()
        work.join(60)
    assert not work.is_alive()
    assert sorted(run.seed for run in work.executor.made) == [run.seed for run in RUNS]
    assert {ended.run for ended in work.ended} == set(RUNS)
    assert scratch_files(store.folder) == []


def leave(store: Store, run: Run) -> list[Path]:
    """What a process leaves that is killed while it makes a run: once before the record is there, once after."""
    identity = IDENTITIES[run]
    record = store.folder / "records" / f".{identity}.json.1.2.part"
    tape = store.files(identity) / ".tape.safetensors.1.2.part"
    checkpoint = store.unfinished(identity) / ".step-00000003.1.part" / "state.json"
    for path in (record, tape, checkpoint):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return [record, tape, checkpoint]


def test_what_a_living_process_holds_is_left_alone(store: Store) -> None:
    held, lapsed = leave(store, RUNS[0]), leave(store, RUNS[1])
    whole = store.unfinished(IDENTITIES[RUNS[1]]) / "step-00000003"
    whole.mkdir()
    with holder(store, RUNS[0]) as process:
        store.tidy()
        assert all(path.exists() for path in held)
        assert not any(path.exists() for path in lapsed)
        assert whole.exists()  # a run that has no record goes on from there
        store.put(audit(RUNS[2]))
        store.unfinished(IDENTITIES[RUNS[2]]).mkdir()
        store.tidy()
        assert not store.unfinished(IDENTITIES[RUNS[2]]).exists()
        process.kill()
        process.wait()
    assert (store.folder / "claims" / IDENTITIES[RUNS[0]]).exists()
    store.tidy()
    assert not any(path.exists() for path in held)
    assert scratch_files(store.folder) == []


def test_an_index_that_somebody_writes_for_long_is_left_to_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PATIENCE", 0.1)
    store.put(audit(RUNS[0]))
    claim = store.claim("index.md")
    assert claim is not None
    store.write_index()
    assert not (store.folder / "index.md").exists()
    claim.release()
    store.write_index()
    assert (store.folder / "index.md").exists()
