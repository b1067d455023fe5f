"""Worker processes: they do what they are given, and none outlives the process that began it, however that one ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import (
    busy_cores,
    group,
    make_echo,
    make_locks,
    make_nothing,
    make_pool,
    needs_table,
    started,
    wait_until,
    workers,
)

from reprise.core.workers import Pool, WorkerLost

AUDITS = """
from reprise.execute import Processes
from reprise.lab import campaign
from reprise.runs import Run

if __name__ == "__main__":
    runs = [Run.of(learner=None, classes=50, steps=2000, seed=seed) for seed in range(500)]
    for _ in campaign(runs, Processes(2), watch=lambda progress: print(progress.done, flush=True)):
        pass
"""
STUDY = """
import sys
from reprise.execute import Processes
from reprise.lab import StudyPlan
from reprise.runs import Store
from reprise.studies import STUDIES

if __name__ == "__main__":
    plan = StudyPlan.of(STUDIES["gaps"], seeds=3, error_seeds=40)
    plan.execute(Store(sys.argv[1]), Processes(2), watch=lambda progress: print(progress.done, flush=True))
"""
NESTED = """
import time
from reprise.core.workers import Pool

def make(number):
    return outer

def outer(item, tell):
    with Pool(make_inner, 2) as pool:
        for _ in pool.results(["sleep", "sleep"], tell):
            pass

def make_inner(number):
    return inner

def inner(item, tell):
    tell("begun")
    time.sleep(600)

if __name__ == "__main__":
    with Pool(make, 1) as pool:
        list(pool.results([1], lambda word: print(word, flush=True)))
"""
LONG_CALL = """
import ctypes, time
from reprise.core.workers import Pool

def make(number):
    return hold

def hold(item, tell):
    tell("begun")
    ctypes.PyDLL(None).sleep(600)  # a call that keeps the interpreter to itself

if __name__ == "__main__":
    with Pool(make, 1) as pool:
        list(pool.results([1], lambda word: print(word, flush=True)))
"""
UNGUARDED = """
from reprise.execute import Processes
from reprise.lab import campaign
from reprise.runs import Run

print("read")
list(campaign([Run.of(learner=None, classes=5, steps=20, seed=seed) for seed in range(20)], Processes(2)))
"""
WITHIN = 5.0  # seconds


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert multiprocessing.active_children() == []


def ended(pool: Pool[Any], items: list[Any], told: list[Any] | None = None) -> dict[Any, Any]:
    return dict(pool.results(items, None if told is None else told.append))


def test_every_task_is_done_once_by_some_process() -> None:
    told: list[Any] = []
    with Pool(make_echo, 2) as pool:
        found = ended(pool, [*range(40), "tell"], told)
    assert found.keys() == {*range(40), "tell"}
    assert all(result[0] == item for item, result in found.items())
    assert {result[1] for result in found.values()} <= {0, 1}
    assert told == ["half"]


def test_a_task_that_fails_or_takes_its_process_with_it_harms_no_other() -> None:
    with Pool(make_echo, 1) as pool:
        found = ended(pool, [1, "fail", 2, "die", 3])
    assert [found[item][0] for item in (1, 2, 3)] == [1, 2, 3]
    assert found[1][2] == found[2][2] != found[3][2]
    assert (type(found["fail"]), str(found["fail"])) == (RuntimeError, "Stubborn: 1 and 2")  # in words that can be sent
    assert isinstance(found["die"], WorkerLost)
    assert str(found["die"]) == (
        "its process ended with status -9 before it was done: killed, perhaps for want of memory; fewer jobs need less"
    )


def test_if_no_process_can_begin_every_task_says_why() -> None:
    with Pool(make_nothing, 2) as pool:
        found = ended(pool, [1, 2, 3])
        assert dict(pool.poll(0)) == {}
    assert {str(error) for error in found.values()} <= {
        f"no process could begin: process {number} has no tools" for number in (0, 1)
    }
    assert list(found) == [1, 2, 3]


def test_tasks_may_come_while_others_are_done() -> None:
    found: dict[Any, Any] = {}
    with Pool(make_echo, 1) as pool:
        for item in range(3):
            pool.submit(item)
            while item not in found:
                found.update(pool.poll(0.1))
    assert len({result[2] for result in found.values()}) == 1


def test_a_task_is_asked_for_when_a_process_is_about_to_be_free() -> None:
    asked, at_end = 0, []

    def items() -> Iterator[int]:
        nonlocal asked
        for item in range(12):
            asked += 1
            yield item

    with Pool(make_echo, 2) as pool:
        for done, (_, _) in enumerate(pool.results(items()), 1):
            at_end.append(asked - done)
    assert asked == 12
    assert len(at_end) == 12
    assert max(at_end) <= 5  # two at work, one that waits, and two whose end is told of in one go


def test_rounds_come_whenever_there_is_news() -> None:
    told: list[Any] = []
    with Pool(make_echo, 1) as pool:
        found = []
        for ended in pool.rounds(iter([1, "tell", 2]), told.append):
            found.append(([item for item, _ in ended], len(told)))
    assert [items for items, _ in found if items] == [[1], ["tell"], [2]]
    heard = [count for _, count in found]
    assert ([], 1) in found, "a word comes before the end of its task"
    assert heard == sorted(heard)


def test_no_tasks_need_no_process_to_begin() -> None:
    with Pool(make_nothing, 2) as pool:
        assert list(pool.results(iter(()))) == []
        assert list(pool.rounds(iter(()))) == []


def test_a_worker_may_have_workers_of_its_own() -> None:
    with Pool(make_pool, 1) as pool:
        ((_, found),) = pool.results([[3, 4]])
    assert sorted(found) == [3, 4]


@pytest.mark.parametrize("wait", [True, False], ids=["at work", "starting"])
def test_an_error_ends_the_processes_at_once(wait: bool) -> None:
    pool: Pool[str] = Pool(make_echo, 2)
    began = 0.0

    def interrupted() -> None:
        nonlocal began
        with pool:
            for item in ("tell", "sleep", "sleep"):
                pool.submit(item)
            while wait and not pool.poll():
                pass
            began = time.monotonic()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < 60  # of 600
    assert multiprocessing.active_children() == []


def test_an_interrupt_while_processes_are_begun_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    start = multiprocessing.get_context("spawn").Process.start

    def interrupted(process: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        start(process)  # whole, so that the process is known and can be ended

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Pool(make_echo, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="this system has no such signals")
def test_a_signal_for_all_processes_of_a_job_is_the_parents_to_hear() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Pool[int](make_echo, 1) as pool:
            pool.submit(1)
            ((_, (_, _, worker)),) = wait_for_result(pool)
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
                os.kill(worker, number)
            pool.submit(2)
            assert wait_for_result(pool) == [(2, (2, 0, worker))]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert multiprocessing.active_children() == []


def wait_for_result(pool: Pool[int]) -> list[tuple[int, Any]]:
    while not (found := pool.poll()):
        pass
    return found


def test_a_thread_that_ends_leaves_its_processes_at_work() -> None:
    made: list[Pool[int]] = []
    thread = threading.Thread(target=lambda: made.append(Pool(make_echo, 1)))
    thread.start()
    thread.join()
    with made[0] as pool:
        assert ended(pool, [1, 2]).keys() == {1, 2}


@needs_table
@pytest.mark.parametrize(
    ("script", "end"),
    [
        pytest.param(AUDITS, signal.SIGKILL, id="audits"),
        pytest.param(STUDY, signal.SIGTERM, id="study"),
        pytest.param(LONG_CALL, signal.SIGKILL, id="a long call, killed"),
        pytest.param(LONG_CALL, signal.SIGTERM, id="a long call, terminated"),
        pytest.param(NESTED, signal.SIGKILL, id="nested, killed"),
        pytest.param(NESTED, signal.SIGTERM, id="nested, terminated"),
    ],
)
def test_workers_end_with_their_parent_on_a_busy_machine(script: str, end: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    with busy_cores(), started(str(file), str(tmp_path / "out")) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() in ("1\n", "begun\n")
        assert workers(parent.pid)
        parent.send_signal(end)
        wait_until(lambda: not workers(parent.pid), WITHIN)
        assert parent.wait() == -end


@needs_table
def test_workers_that_still_start_end_with_their_parent(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(AUDITS, encoding="utf-8")
    with busy_cores(), started(str(file)) as parent:
        wait_until(lambda: len(workers(parent.pid)) == 2)
        parent.kill()
        wait_until(lambda: not workers(parent.pid), WITHIN)


@needs_table
def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(UNGUARDED, encoding="utf-8")
    with started(str(file)) as parent:
        said, errors = parent.communicate(timeout=100)
        wait_until(lambda: not group(parent.pid))
    assert parent.returncode == 1
    assert 2 <= said.count("read") <= 3  # by this process and by its workers, and by none of theirs
    assert errors.count("Traceback") == 1
    assert errors.splitlines()[-1] == (
        "reprise.core.workers.NoMainGuard: this script begins processes while it is read, and each of them reads it "
        'again: put what it does under `if __name__ == "__main__":`'
    )


def test_a_pool_without_processes_does_not_spin() -> None:
    with Pool(make_nothing, 1) as pool:
        pool.submit("a")
        while not (ended := pool.poll(0.05)):
            pass
        assert "has no tools" in str(ended[0][1])
        began = time.monotonic()
        assert pool.poll(0.2) == []
        assert time.monotonic() - began >= 0.19


def test_a_result_that_cannot_be_sent_is_an_error_of_its_task_alone() -> None:
    with Pool(make_locks, 1) as pool:
        found = [word for _, word in pool.results(["a", "b"])]
    assert [type(word) for word in found] == [TypeError, TypeError]
    assert "pickle" in str(found[0])
