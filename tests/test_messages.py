"""Wrong requests of memories, buffers, tapes and policies: each is answered by its true cause, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from memory.sampling import RETRIEVALS

from reprise import Memory, Tape, plan, streams
from reprise.buffer import ReplayBuffer
from reprise.checks import check_schedule
from reprise.memory import Fifo, RandomisedPass, Scheduled, Uniform, as_retrieval, as_storage

STREAM = streams.from_labels(np.arange(40) % 4, seed=0, tasks=2, batch=4)


# Policies ---------------------------------------------------------------------------------------------------------


def without(policy: Any, *names: str) -> Any:
    """A policy of the same methods but these."""
    kept = {name: getattr(type(policy), name) for name in dir(type(policy)) if not name.startswith("__")}
    return type("Mine", (), {name: value for name, value in kept.items() if name not in names})()


@pytest.mark.parametrize("name", ["fresh", "start", "assign", "state_dict", "load_state_dict"])
def test_a_storage_that_lacks_a_method(name: str) -> None:
    with pytest.raises(TypeError, match=rf"a storage is .* of reprise.memory.Storage; .*Mine.* lacks {name}$"):
        Memory(8, without(Fifo(), name))


@pytest.mark.parametrize(
    "name", ["fresh", "start", "begin", "take", "bound", "churn_bound", "state_dict", "load_state_dict"]
)
def test_a_schedule_that_lacks_a_method(name: str) -> None:
    broken = without(RandomisedPass(), name)
    words = rf"a schedule is .* of reprise.memory.Schedule; .*Mine.* lacks {name}$"
    for ask in (lambda: Memory(8, retrieval=broken), lambda: Scheduled(broken), lambda: check_schedule(broken)):
        with pytest.raises(TypeError, match=words):
            ask()


@pytest.mark.parametrize("name", ["fresh", "start", "draw", "state_dict", "load_state_dict"])
def test_a_retrieval_that_lacks_a_method(name: str) -> None:
    with pytest.raises(TypeError, match=rf"a retrieval is .* of reprise.memory.Retrieval; .*Mine.* lacks {name}$"):
        ReplayBuffer(8, retrieval=without(Uniform(), name))


def test_all_that_is_lacking_is_named() -> None:
    with pytest.raises(TypeError, match=r"Mine.* lacks begin, state_dict$"):
        as_retrieval(without(RandomisedPass(), "begin", "state_dict"))
    attribute = without(Fifo())
    attribute.assign = 3
    with pytest.raises(TypeError, match=r"Mine.* lacks assign$"):
        as_storage(attribute)


def test_a_retrieval_may_have_methods_of_its_own() -> None:
    mine = without(Uniform())
    type(mine).take = lambda self: None
    assert as_retrieval(mine) is mine


@pytest.mark.parametrize(
    ("policy", "kind"), [(Fifo(), "storage"), (Uniform(), "retrieval"), (RandomisedPass(), "schedule")]
)
@pytest.mark.parametrize("made", [None, 3, object()])
def test_a_fresh_copy_that_is_none(policy: Any, kind: str, made: Any) -> None:
    broken = without(policy)
    type(broken).fresh = lambda self: made
    with pytest.raises(TypeError, match=rf"Mine.fresh\(\) must return a new {kind}, got {made!r}"):
        Memory(8, **{"storage" if kind == "storage" else "retrieval": broken})


def test_a_schedule_is_wrapped_as_an_object() -> None:
    with pytest.raises(TypeError, match="a schedule is an object here, got the spec 'rpr'"):
        Scheduled("rpr")
    with pytest.raises(TypeError, match=r"a schedule is an object, got the class RandomisedPass: write Random"):
        Scheduled(RandomisedPass)


def test_an_argument_that_is_not_kept() -> None:
    class Hidden(RandomisedPass):
        def __init__(self, width: int) -> None:
            self._width = width

    with pytest.raises(TypeError, match="Hidden must keep its argument 'width' under an attribute of that name"):
        Memory(8, retrieval=Hidden(3))


# Memories ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@pytest.mark.parametrize("n", [0, 2])
def test_a_score_that_nobody_asks_for(retrieval: str, n: int) -> None:
    memory, buffer = Memory(8, retrieval=retrieval), ReplayBuffer(8, retrieval=retrieval)
    for one in (memory, buffer):  # while it is empty, too
        with pytest.raises(ValueError, match=rf"'{retrieval}' does not choose by a score".replace("+", r"\+")):
            one.draw(n, score=lambda slots: slots)
    memory.store([1, 2, 3])
    buffer.store(torch.zeros(3, 1), [1, 2, 3])
    before, tape = repr(memory.state_dict()), buffer.tape().hash
    for one in (memory, buffer):
        with pytest.raises(ValueError, match="call draw"):
            one.draw(n, score=lambda slots: slots)
    assert repr(memory.state_dict()) == before
    assert buffer.tape().hash == tape


def test_a_retrieval_that_says_nothing_of_scores_is_given_one() -> None:
    class Best(Uniform):
        scored = None

        def draw(self, n: int, index: Any, score: Any) -> list[int]:
            return (
                super().draw(n, index, None) if score is None else np.argsort(score(np.arange(index.size)))[:n].tolist()
            )

    memory = Memory(8, retrieval=Best())
    memory.store([1, 2, 3, 4])
    assert len(memory.draw(2)) == 2
    assert memory.draw(2, score=lambda slots: -slots).slots.tolist() == [3, 2]


def test_labels_of_different_lengths() -> None:
    memory, buffer = Memory(8), ReplayBuffer(8)
    for store in (memory.store, lambda labels: buffer.store(torch.zeros(3, 1), labels)):
        with pytest.raises(ValueError, match="labels must be a row of whole numbers, got rows of different lengths"):
            store([[0], [1, 2], [3]])
    assert len(memory) == len(buffer) == 0


# Buffers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ((torch.zeros(2),) * 3, ValueError, r"x\[0\] must have one row .*\(2,\) where .*; a tuple holds columns"),
        ((np.zeros(2),) * 3, ValueError, r"x\[0\] must have one row per example, got shape \(2,\)"),
        ([{"a": torch.zeros(2)}] * 3, ValueError, r"x\[0\]\['a'\] must have one row per example"),
        (
            [torch.zeros(3)] * 3,
            ValueError,
            "x is a list of 3 tensors with 3 rows each, for 3 examples, so that each may",
        ),
        ([torch.zeros(2), torch.zeros(3, 3), torch.zeros(2)], ValueError, "rows of one dtype and number of dimensions"),
        (
            [torch.zeros(2), torch.zeros(3).half(), torch.zeros(2)],
            ValueError,
            "rows .*got 2 of float32 and 3 of float16",
        ),
        ([[1.0], ["a", "b"], [2.0]], TypeError, "x must be a tensor, an array or a number, got list"),
        ({"a": None}, TypeError, r"x must hold a tensor, got dict \(a: None\)"),
        ({3.5: torch.zeros(3)}, TypeError, r"the keys of x must be strings or whole numbers, got 3\.5"),
        ({1, 2, 3}, TypeError, "x must be a tensor, an array or a number, got set"),
        (None, TypeError, "x must hold a tensor, got None"),
    ],
)
def test_an_x_that_cannot_be_kept(x: Any, error: type[Exception], words: str) -> None:
    buffer = ReplayBuffer(6)
    with pytest.raises(error, match=words):
        buffer.store(x, [0, 1, 2])
    assert len(buffer) == 0
    buffer.store(torch.zeros(3, 4), [0, 1, 2])  # nothing was fixed
    with pytest.raises(error, match=words.replace("x ", "more ", 1).replace(r"x\[", r"more\[")):
        buffer.store(torch.zeros(3, 4), [0, 1, 2], more=x)


@pytest.mark.parametrize(
    "x",
    [
        [torch.ones(2, requires_grad=True)] * 3,
        [torch.ones(2).bfloat16()] * 3,
        [[1.0, 1.0]] * 3,
        ((1.0, 1.0),) * 3,
        [np.ones(2)] * 3,
    ],
)
def test_an_x_of_rows(x: Any) -> None:
    buffer = ReplayBuffer(6)
    buffer.store(x, [0, 1, 2])
    assert buffer.at(range(3)).x.tolist() == [[1, 1]] * 3
    assert not buffer.at([0]).x.requires_grad


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", torch.device("cuda:99"), 99])
def test_a_device_that_is_not_there(device: Any) -> None:
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used here, 'cpu' can: [^.]"):
        ReplayBuffer(6, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_without_one() -> None:
    with pytest.raises(ValueError, match=r"device 'cuda' cannot be used here, 'cpu' can: [^.]"):
        ReplayBuffer(6, device="cuda")


def test_something_that_is_no_device() -> None:
    with pytest.raises(TypeError, match=r"device must be a torch.device or its name, got 3\.5"):
        ReplayBuffer(6, device=3.5)  # type: ignore[arg-type]


# Tapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "memory", "words"),
    [
        (Memory(8), STREAM, "plan takes a stream, then a memory; got Memory, then LabelStream"),
        (STREAM, STREAM, "got LabelStream, then LabelStream"),
        (STREAM, "rpr", "got LabelStream, then str"),
        (STREAM, 8, "got LabelStream, then int"),
        (STREAM, ReplayBuffer(8), "got LabelStream, then ReplayBuffer"),
        (Memory(8), Memory(8), "got Memory; reprise.streams.in_order and from_labels make one"),
        (9, Memory(8), "batches of example ids and has their labels, got int; reprise.streams.in_order"),
        ([[0, 1]], Memory(8), "labels must be hashable, got a list; reprise.streams.from_batches"),
        (plan(STREAM, Memory(8)), Memory(8), "this is a tape: it has been planned already"),
    ],
)
def test_a_plan_of_something_else(stream: Any, memory: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        plan(stream, memory)


def test_a_tape_goes_into_a_folder_that_is_there(tmp_path: Path) -> None:
    tape = plan(STREAM, Memory(8), 3)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for place, error, words in [
        (tmp_path / "missing" / "a.tape", FileNotFoundError, "there is no folder .*missing: '.*missing/a.tape'$"),
        (str(tmp_path / "missing" / "a.tape"), FileNotFoundError, "there is no folder"),
        (tmp_path / "file" / "a.tape", NotADirectoryError, "there is no folder .*file: '.*file/a.tape'$"),
        (tmp_path / "folder", OSError, "'.*folder'$"),
    ]:
        with pytest.raises(error, match=f"the tape cannot be written: .*{words}") as caught:
            tape.save(place)
        assert ".part" not in str(caught.value)
        assert caught.value.strerror  # a caller's own sentence may quote it
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    tape.save(tmp_path / "folder" / "a.tape")
    assert Tape.load(tmp_path / "folder" / "a.tape") == tape
