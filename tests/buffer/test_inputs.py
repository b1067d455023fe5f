"""What people give a buffer: dtypes that torch cannot index, text, empty rows, one key where several are meant."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reprise import ReplayBuffer
from reprise.buffer import pad, room

DTYPES = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


def given(dtype: torch.dtype, value: int, ragged: bool) -> Any:
    """Two rows of this number, of one length or of two."""
    rows = torch.full((2, 3), float(value)).to(dtype)
    return [rows[0, :2], rows[1]] if ragged else rows


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_that_torch_cannot_write_by_index(dtype: torch.dtype, ragged: bool, tmp_path: Path) -> None:
    """They are stored, moved, saved and drawn as others are, on a device and on disk."""
    device, disk = ReplayBuffer(6, seed=0), ReplayBuffer(6, seed=0, path=tmp_path / "columns")
    for buffer in (device, disk):
        for step in range(9):
            buffer.draw(2)
            buffer.store(given(dtype, step % 3 + 1, ragged), [step % 3] * 2)
        buffer.remove(keys=[0])
        buffer.store(given(dtype, 1, ragged), [0, 0])
        buffer.resize(4)
        buffer.update([0], x=given(dtype, int(next(iter(buffer)).y) + 1, ragged)[:1])
        assert all(example.x.dtype == dtype for example in buffer)
        assert all(set(example.x.float().tolist()) == {int(example.y) + 1.0} for example in buffer)
    loaded = ReplayBuffer(4)
    torch.save(disk.state_dict(columns=True), tmp_path / "state.pt")
    loaded.load_state_dict(torch.load(tmp_path / "state.pt"))
    copy = pickle.loads(pickle.dumps(device))
    draws = [[buffer.draw(3).slots.tolist() for _ in range(5)] for buffer in (device, disk, loaded, copy)]
    assert draws == [draws[0]] * 4
    disk.close()


def test_a_dtype_that_nothing_can_be_done_with_is_refused_before_anything_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "_INDEXED", {})
    buffer = ReplayBuffer(6)
    with pytest.raises(TypeError, match="x is of uint16, which torch cannot index on 'cpu': give another dtype"):
        buffer.store(torch.zeros(2, 3, dtype=torch.uint16), [0, 1])
    assert len(buffer) == 0
    assert len(buffer.tape().labels) == 0
    buffer.store(torch.zeros(2, 3), [0, 1])


def test_text_is_given_as_token_ids() -> None:
    buffer = ReplayBuffer(6)
    with pytest.raises(TypeError, match=r"x must be a tensor, .*, got list of str; text goes in as token ids"):
        buffer.store(["a film", "a hotel"], [0, 1])
    with pytest.raises(TypeError, match=r"x\['text'\] must be a tensor, .*, got list of str; text goes in"):
        buffer.store({"text": ["a film", "a hotel"], "length": torch.tensor([2, 2])}, [0, 1])
    with pytest.raises(TypeError, match=r"x must be a tensor, an array or a number, got list of object$"):
        buffer.store([object(), object()], [0, 1])
    with pytest.raises(ValueError, match=r"got rows of different lengths; key= says what to go by when it is not y"):
        buffer.store(torch.zeros(2, 3), [[1], [2, 3]])
    assert len(buffer) == 0


def test_a_batch_that_is_padded_to_another_length_is_told_of_collate() -> None:
    buffer = ReplayBuffer(6)
    buffer.store(torch.zeros(2, 3), [0, 1])
    words = (
        r"x of an example is 3 of float32 .*, got 4 of float32; collate={'x': pad\(\)} keeps rows of any shape, given"
    )
    with pytest.raises(ValueError, match=words):
        buffer.store(torch.zeros(2, 4), [0, 1])


def test_rows_that_are_all_empty_have_the_dtype_of_the_others() -> None:
    buffer = ReplayBuffer(6, collate={"y": pad(-1)})
    buffer.store(torch.zeros(2, 3), [[1, 2], []], key="user")
    buffer.store(torch.zeros(1, 3), [[]], key="user")
    assert buffer.at([0, 1, 2]).y.tolist() == [[1, 2], [-1, -1], [-1, -1]]


def test_arrays_of_any_order_of_bytes_and_of_rows() -> None:
    buffer = ReplayBuffer(6)
    buffer.store(np.arange(6, dtype=">f4").reshape(3, 2)[::-1], [0, 1, 2])
    assert buffer.at([0, 1, 2]).x.tolist() == [[4.0, 5.0], [2.0, 3.0], [0.0, 1.0]]


def test_one_key_is_not_several_before_anything_is_stored_either() -> None:
    buffer = ReplayBuffer(6)
    for limit in ("exclude", "only"):
        with pytest.raises(TypeError, match=rf"{limit} must be several keys, such as \['cat'\], got 'cat'"):
            buffer.draw(2, **{limit: "cat"})
    assert len(buffer.draw(2, exclude=["cat"])) == 0
    assert len(buffer.tape()) == 1


def test_what_is_no_function_no_state_and_no_number() -> None:
    buffer = ReplayBuffer(6, retrieval="mir:4")
    buffer.store(torch.zeros(2, 3), key=["ann", "bob"])
    with pytest.raises(TypeError, match="score must be a function of slots, got tensor"):
        buffer.draw(1, score=torch.zeros(2))  # type: ignore[arg-type]
    for state in ({}, None, torch.nn.Linear(2, 2).state_dict()):
        with pytest.raises(ValueError, match="this buffer state cannot be loaded: it is of something else"):
            buffer.load_state_dict(state)  # type: ignore[arg-type]
    assert buffer.keys is not None
    with pytest.raises(TypeError, match=r"a key is found by its number, got 'ann'; number\(key\) is that of a key"):
        buffer.keys["ann"]  # type: ignore[index]
    assert buffer.keys.number("bob") == 1
