"""A data set of steps: what the loader yields is what the tape says, under any number of workers, ranks and starts."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loader.made import Named, Whole, ids, parts, tape_of, tapes
from torch.utils.data import DataLoader, IterableDataset

import reprise
from reprise import Memory, Tape, TapeBatch, TapeDataset, plan, streams


def yielded(batches: Any) -> list[tuple[int, list[list[int]]]]:
    return [(batch.step.number, [ids(part) for part in batch]) for batch in batches]


def planned(tape: Tape, start: int = 0, rank: int = 0, world: int = 1) -> list[tuple[int, list[list[int]]]]:
    return [(step.number, parts(step.part(rank, world))) for step in tape[start:]]


@given(tapes(), st.sampled_from(["tuple", "tensor", "dict", "nested"]), st.sampled_from([Named, Whole]), st.data())
def test_what_is_yielded_is_the_tape(tape: Tape, form: str, kind: Any, data: Any) -> None:
    start = data.draw(st.integers(0, len(tape)))
    world = data.draw(st.integers(1, 4))
    dataset = kind(len(tape.labels), form)
    shares = []
    for rank in range(world):
        loader = DataLoader(TapeDataset(dataset, tape, start=start, rank=rank, world_size=world), batch_size=None)
        assert len(loader) == len(tape) - start
        shares.append(yielded(loader))
        assert shares[-1] == planned(tape, start, rank, world)
    for place, step in enumerate(tape[start:]):  # of all ranks together, every example is there once
        for number, whole in enumerate(parts(step)):
            assert sorted(one for share in shares for one in share[place][1][number]) == sorted(whole)
            sizes = [len(share[place][1][number]) for share in shares]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"start": 3}, {"rank": 1, "world_size": 3}], ids=str)
def test_any_number_of_workers_gives_the_same_batches(workers: int, options: dict[str, int]) -> None:
    tape = tape_of()
    steps = TapeDataset(Named(60, "dict"), tape, **options)
    alone = yielded(DataLoader(steps, batch_size=None))
    loader = DataLoader(steps, batch_size=None, num_workers=workers, prefetch_factor=3, timeout=120)
    for _ in range(2):  # a second pass is the first again
        assert yielded(loader) == alone
    assert alone == planned(tape, options.get("start", 0), options.get("rank", 0), options.get("world_size", 1))


def test_spawned_workers_give_the_same_batches() -> None:
    tape = tape_of()
    loader = DataLoader(
        TapeDataset(Named(60), tape), batch_size=None, num_workers=1, multiprocessing_context="spawn", timeout=300
    )
    batches = list(loader)
    assert yielded(batches) == planned(tape)
    assert [batch.step for batch in batches] == list(tape)


def test_a_batch_is_had_in_one_line() -> None:
    one, two = tape_of(draws=1), tape_of(draws=2)
    (x, y), replay = TapeDataset(Named(60), one)[0]
    assert (tuple(x.shape), y.tolist()) == ((7, 2, 3), one[0].incoming.tolist())
    assert replay is None, "nothing is stored yet"
    batch = TapeDataset(Named(60), one)[2]
    (x, y), (rx, ry) = batch
    assert (len(x), len(rx)) == (6, 4)
    assert batch.replayed is batch.replay[0]
    assert batch.incoming[1] is y
    assert batch.replayed[1] is ry
    batch = TapeDataset(Named(60), two)[2]
    (x, y), (_, ay), (_, by) = batch
    assert [ay.tolist(), by.tolist()] == [row.tolist() for row in two[2].replay]
    assert [row.tolist() for row in batch.ids] == parts(two[2])
    assert [row.tolist() for row in batch.slots] == [row.tolist() for row in two[2].slots]
    assert batch.written.tolist() == two[2].written.tolist()
    assert all(torch.zeros(60)[row].shape == row.shape for row in (*batch.ids, *batch.slots, batch.written))
    assert repr(batch) == "TapeBatch(step 2: 6 incoming, 4 + 4 replayed)"
    with pytest.raises(ValueError, match="this step has 2 draws"):
        _ = batch.replayed


def test_parts_are_collated_by_themselves_and_by_ones_own_function() -> None:
    tape = tape_of(draws=1)
    seen: list[int] = []

    def collate(examples: list[Any]) -> dict[str, Any]:
        seen.append(len(examples))
        return {"y": [y for _, y in examples], "images": [x for x, _ in examples]}

    steps = TapeDataset(Named(60), tape, collate)
    assert steps[2].replayed["y"] == tape[2].replayed.tolist()
    assert seen == [6, 4]
    assert steps[0].replayed is None
    assert seen[2:] == [7], "nothing was collated for a draw that brought nothing"


@pytest.mark.parametrize("form", ["tuple", "tensor", "dict", "nested"])
def test_the_whole_step_is_one_batch_too(form: str) -> None:
    tape = tape_of()
    for step, batch in zip(tape, TapeDataset(Named(60, form), tape), strict=True):
        assert ids(batch.whole) == step.ids.tolist()
        for twin in (pickle.loads(pickle.dumps(batch)), batch.to("cpu")):
            assert ids(twin.whole) == ids(batch.whole)
            assert [ids(part) for part in twin] == [ids(part) for part in batch] == parts(step)
            assert twin.step == step


def test_pictures_of_other_sizes_need_a_function_of_ones_own() -> None:
    """And then no part is mistaken for another, though every picture has as many rows as there are examples."""
    tape = plan(streams.from_batches([[0, 1], [2]], [0, 1, 2]), Memory(4, seed=0), 2)
    pictures = [(torch.zeros(3, 2 + size, 3), size) for size in range(3)]
    with pytest.raises(RuntimeError, match="equal size"):
        TapeDataset(pictures, tape)[0]
    batch = TapeDataset(pictures, tape, lambda rows: tuple(zip(*rows, strict=True)))[1]
    assert batch.step.sizes == (1, 2)
    assert [part[1] for part in batch] == [(2,), tuple(batch.step.replayed.tolist())]
    assert batch.whole is None
    assert [part[1] for part in pickle.loads(pickle.dumps(batch)).to("cpu")] == [part[1] for part in batch]


def test_a_batch_goes_to_a_device_whole() -> None:
    batch = TapeDataset(Named(60, "dict"), tape_of())[4]
    moved = batch.to(torch.float64)
    assert moved.incoming["x"].dtype == moved.replay[1]["meta"]["pair"].second.dtype == torch.float64
    assert type(moved.incoming["meta"]["pair"]) is type(batch.incoming["meta"]["pair"])
    assert moved.incoming["name"] == batch.incoming["name"]
    assert moved.step is batch.step
    assert batch.incoming["x"].dtype == torch.float32
    empty = TapeDataset(Named(60), tape_of())[0].to("cpu")
    assert isinstance(empty, TapeBatch)
    assert empty.replay == (None, None)


def test_every_leaf_is_pinned_by_the_loaders_own_function() -> None:
    class Leaf:
        pinned = False

        def pin_memory(self) -> Leaf:
            other = Leaf()
            other.pinned = True
            return other

    batch = TapeDataset(Named(60), tape_of(), lambda rows: {"a": [Leaf(), "name"], "b": (len(rows), Leaf())})[4]
    pinned = torch.utils.data._utils.pin_memory.pin_memory(batch)  # what the thread of a loader calls
    assert isinstance(pinned, TapeBatch)
    assert pinned.step is batch.step
    for part, before in zip(pinned, batch, strict=True):
        assert (part["a"][0].pinned, part["b"][1].pinned, before["a"][0].pinned) == (True, True, False)
        assert (part["a"][1], part["b"][0]) == ("name", before["b"][0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_batches_in_pinned_memory() -> None:
    tape = tape_of()
    steps = TapeDataset(Named(60, "dict"), tape)
    loader = DataLoader(steps, batch_size=None, num_workers=2, pin_memory=True)
    batches = list(loader)
    assert yielded(batches) == planned(tape)
    assert all(batch.incoming["meta"]["pair"].second.is_pinned() for batch in batches)
    moved = batches[4].to("cuda", non_blocking=True)
    assert moved.replay[1]["x"].is_cuda


def test_a_step_without_examples_is_a_step() -> None:
    memory = Memory(4, seed=0)
    memory.store([0, 1])
    tape = plan(reprise.streams.from_batches([[], [0]], [0, 1]), memory, 1, initial=[0, 1])
    assert yielded(TapeDataset(Named(2), tape)) == planned(tape)
    assert TapeDataset(Named(2), tape)[0].incoming is None


def test_a_loader_that_would_batch_steps_is_told() -> None:
    with pytest.raises(TypeError, match="is a batch already: give the DataLoader batch_size=None"):
        next(iter(DataLoader(TapeDataset(Named(60), tape_of()))))


# The wrong data set -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 10, 59, 61, 1000])
def test_a_data_set_of_another_length(count: int) -> None:
    tape = tape_of()
    for refuse in (lambda: TapeDataset(Named(count), tape), lambda: reprise.TapeBatchSampler(tape, Named(count))):
        with pytest.raises(ValueError, match=f"this tape is of 60 examples, and the data set has {count}"):
            refuse()


def test_examples_that_only_the_memory_had() -> None:
    memory = Memory(4, seed=0)
    memory.store([0, 1])
    tape = plan([0, 1, 0], memory, 2, batch=1)
    with pytest.raises(ValueError, match=r"of 5 examples; 2 of them were in the memory before step 0, and .* has 3"):
        TapeDataset(Named(3), tape)


class Targets(Named):
    """As torchvision's: the label of every example is at hand."""

    def __init__(self, targets: Any) -> None:
        super().__init__(len(targets))
        self.targets = targets


def test_a_data_set_whose_targets_are_others() -> None:
    labels = torch.arange(60) % 6
    tape = tape_of()
    for targets in (labels, labels.tolist(), labels.numpy(), 5 - labels, labels + 100):
        TapeDataset(Targets(targets), tape)
    shuffled = labels.clone()
    shuffled[7] = 2
    for targets in (shuffled, labels.sort().values, torch.zeros(60, dtype=torch.int64), torch.arange(60)):
        with pytest.raises(ValueError, match=r"this tape is of other labels: examples \d+ and \d+ have labels") as told:
            TapeDataset(Targets(targets), tape)
        here, there = (int(word) for word in str(told.value).split("examples ")[1].split(" have")[0].split(" and "))
        assert (labels[here] == labels[there]) != (targets[here] == targets[there]), "the sentence names a false pair"
        with pytest.raises(ValueError, match="check_targets=False"):
            reprise.TapeBatchSampler(tape, Targets(targets))
        TapeDataset(Targets(targets), tape, check_targets=False)
    for targets in (torch.rand(60), [f"n{label}" for label in range(60)], torch.zeros(60, 2), [[0], [1, 2]] * 30):
        TapeDataset(Targets(targets), tape)  # not class numbers


def test_ids_of_a_named_stream_are_not_a_data_sets_own() -> None:
    """`label_stream` without labels counts examples class by class, which no downloaded file does."""
    tape = plan(reprise.streams.label_stream("cifar10-balanced"), Memory(50), 4)
    targets = torch.randint(10, (50_000,), generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="plan from the targets in the data set's order"):
        TapeDataset(Targets(targets), tape)


def test_other_wrong_requests() -> None:
    tape, dataset = tape_of(), Named(60)
    for take in (lambda **o: TapeDataset(dataset, tape, **o), lambda **o: reprise.TapeBatchSampler(tape, **o)):
        for options, error, words in [
            ({"start": -1}, ValueError, "start must be 0 or more"),
            ({"start": 13}, ValueError, f"start must be 0 to {len(tape)}, the steps of this tape, got 13"),
            ({"start": "2"}, TypeError, "start must be a whole number"),
            ({"rank": 2, "world_size": 2}, ValueError, "rank must be 0 to 1, as world_size is 2, got 2"),
            ({"rank": -1}, ValueError, "rank must be 0 or more"),
            ({"world_size": 0}, ValueError, "world_size must be 1 or more"),
        ]:
            with pytest.raises(error, match=words):
                take(**options)
    with pytest.raises(TypeError, match=r"this takes a tape, as reprise.plan makes one, got Named"):
        TapeDataset(tape, dataset)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="this takes a tape"):
        reprise.TapeBatchSampler(dataset)  # type: ignore[arg-type]

    class Flow(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0

    for flow in (Flow(), iter([1, 2])):
        with pytest.raises(TypeError, match="a map-style data set is needed"):
            TapeDataset(flow, tape)
    assert len(tape) == 9


def test_names_are_found_without_importing_torch_first() -> None:
    for name in ("TapeBatch", "TapeBatchSampler", "TapeDataset", "split_batch"):
        assert getattr(reprise, name) is getattr(reprise.loader, name)
        assert name in dir(reprise)
