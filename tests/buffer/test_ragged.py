"""Rows that differ in shape: they come back as they were, padded or by a function of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from reprise import ReplayBuffer
from reprise.buffer import pad


def rows(*lengths: int) -> list[torch.Tensor]:
    return [torch.arange(1, length + 1) for length in lengths]


@pytest.mark.parametrize(
    "given",
    [
        [torch.tensor([1, 2, 3]), torch.tensor([4])],
        [np.array([1, 2, 3]), np.array([4])],
        [[1, 2, 3], [4]],
        ([1, 2, 3], [4]),
        [(1, 2, 3), (4,)],
    ],
)
def test_rows_are_padded_to_the_longest(given: Any) -> None:
    buffer = ReplayBuffer(9)
    buffer.store(given, [0, 1])
    found = buffer.at([1, 0])
    assert found.x.tolist() == [[4, 0, 0], [1, 2, 3]]
    assert found.lengths().tolist() == [1, 3]
    assert buffer.at([1]).x.tolist() == [[4]]
    assert [example.x.tolist() for example in buffer] == [[1, 2, 3], [4]]
    buffer.store([[], [5, 6]], [0, 1])
    assert buffer.at([2, 3]).x.tolist() == [[0, 0], [5, 6]]
    assert buffer.at([2]).x.shape == (1, 0)


def test_images_of_any_size_are_padded_in_every_dimension() -> None:
    images = [torch.full((3, height, width), 9.0).half() for height, width in ((2, 5), (4, 1), (3, 3))]
    buffer = ReplayBuffer(9, collate={"x": pad(-1)})
    buffer.store(images, [0, 1, 2])
    found = buffer.at(range(3)).x
    assert (found.shape, found.dtype) == ((3, 3, 4, 5), torch.float16)
    assert [(image > 0).sum().item() for image in found] == [30, 12, 27]
    assert all(torch.equal(example.x, image) for example, image in zip(buffer, images, strict=True))


def test_a_function_of_ones_own_for_each_column() -> None:
    seen: list[list[int]] = []

    def packed(given: list[torch.Tensor]) -> Any:
        seen.append([len(row) for row in given])
        return torch.nn.utils.rnn.pack_sequence(given, enforce_sorted=False)

    buffer = ReplayBuffer(9, collate={"tokens": packed, "y": pad(-100)})
    x = {"tokens": rows(3, 3), "mask": torch.ones(2)}  # named, so that it need not differ now
    buffer.store(x, rows(2, 2), key=["a", "b"])
    buffer.store({"tokens": rows(5, 1), "mask": torch.ones(2)}, rows(1, 4), key=["a", "b"])
    found = buffer.at(range(4))
    assert seen == [[3, 3, 5, 1]]
    assert found.x["tokens"].batch_sizes.tolist() == [4, 3, 3, 1, 1]
    assert found.y.tolist() == [[1, 2, -100, -100], [1, 2, -100, -100], [1, -100, -100, -100], [1, 2, 3, 4]]
    assert found.lengths("tokens").tolist() == [3, 3, 5, 1]
    assert found.lengths("y").tolist() == [2, 2, 1, 4]
    with pytest.raises(KeyError, match="'mask' was not collated"):
        found.lengths("mask")
    buffer.store({"tokens": torch.ones(2, 7).long(), "mask": torch.ones(2)}, rows(1, 4), key=["a", "b"])
    assert buffer.at([4]).lengths("tokens").tolist() == [7]  # a batch that is padded already


def test_messages() -> None:
    with pytest.raises(TypeError, match="collate must be a function of a list of rows, or a dict of them, got 3"):
        ReplayBuffer(9, collate={"x": 3})  # type: ignore[dict-item]
    buffer = ReplayBuffer(9, collate={"tokenz": pad()})
    with pytest.raises(ValueError, match=r"collate names 'tokenz', and the columns of this batch are x\['tokens'\]"):
        buffer.store({"tokens": rows(2, 1)}, key="a")
    assert len(buffer) == 0
    buffer = ReplayBuffer(9)
    buffer.store(rows(3, 3), [0, 1])
    with pytest.raises(
        ValueError, match=r"x must have rows of one shape, got \(1,\) and \(2,\); collate={'x': pad\(\)}"
    ):
        buffer.store(rows(1, 2), [0, 1])
    buffer = ReplayBuffer(9)
    buffer.store(rows(1, 2), [0, 1])
    with pytest.raises(
        ValueError, match=r"x of an example is 1-dimensional, of any size, of int64 .*, got 2 of float16"
    ):
        buffer.store([row.half() for row in rows(2, 3)], [0, 1])
    with pytest.raises(ValueError, match="x must have one row per example, got 3 where y has 2 labels"):
        buffer.store(rows(1, 2, 3), [0, 1])
    with pytest.raises(TypeError, match="x must be a tensor or a list of rows, got int"):
        buffer.store(3, [0, 1])
    assert len(buffer) == 2


def test_what_is_gone_leaves_its_pages() -> None:
    """The table stays as small as its rows allow, and free pages hold zeros."""
    buffer, source = ReplayBuffer(30, "fifo", seed=0), np.random.default_rng(0)
    for _ in range(200):
        buffer.store(rows(*source.integers(50, 150, size=6)), [0] * 6)
    column = buffer._columns.leaves["x"]
    used = sum(example.x.numel() for example in buffer) * 8
    assert used <= (len(column.table) - len(column.free)) * column.page * 8 <= used * 1.15
    assert buffer.nbytes == column.table.nbytes + buffer._columns.leaves["y"].table.nbytes
    assert column.table.nbytes < 30 * 150 * 8 * 2
    assert not column.table[column.free].any()
    buffer.clear()
    assert not column.table.any()


def test_a_state_of_ragged_columns_is_checked() -> None:
    buffer = ReplayBuffer(9)
    buffer.store(rows(1, 2, 3), [0, 1, 2])
    for change in ({"flat": torch.zeros(2)}, {"shapes": torch.ones(2, 1).long()}, {"shapes": torch.ones(3).long()}):
        state = buffer.state_dict()
        state["columns"]["x"] |= change
        with pytest.raises(ValueError, match="this buffer state cannot be loaded"):
            ReplayBuffer(9).load_state_dict(state)
