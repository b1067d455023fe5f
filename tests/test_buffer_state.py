"""The state of a replay buffer: everything is in it, it goes to disk and back, and a wrong one changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from reprise.buffer import ReplayBuffer


def live(buffer: ReplayBuffer, first: int, last: int) -> list[Any]:
    """Play steps `first` to `last` of a stream whose logits are rewritten when replayed; all that was drawn."""
    seen = []
    for step in range(first, last):
        for channel in range(buffer.memory.draws):
            if replay := buffer.draw(4, channel=channel):
                seen.append([replay.slots.tolist(), replay.x.tolist(), replay.y.tolist(), replay.logits.tolist()])
                buffer.update(replay.slots, logits=replay.logits + 1)
        ids = torch.arange(6 * step, 6 * step + 6)
        x = ids.to(torch.uint8)[:, None].expand(-1, 3)
        buffer.store(x, (ids // 9) % 11, logits=torch.stack([ids, -ids], 1).bfloat16() / 3)
    return seen


def make(**changes: Any) -> ReplayBuffer:
    return ReplayBuffer(
        **{"capacity": 25, "storage": "cbrs", "retrieval": "rpr+pass", "seed": 5, "draws": 2, **changes}
    )


def to_disk(state: dict[str, Any], folder: Path) -> None:
    """Tensors and arrays to safetensors, all else to JSON."""
    tensors: dict[str, Tensor] = {}

    def split(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {key: split(inner, f"{path}.{key}") for key, inner in value.items()}
        if isinstance(value, list):
            return [split(inner, f"{path}.{i}") for i, inner in enumerate(value)]
        if isinstance(value, (Tensor, np.ndarray)):
            tensors[path] = torch.as_tensor(value).contiguous()
            return {"tensor": path}
        return value

    (folder / "state.json").write_text(json.dumps(split(state, "state")))
    save_file(tensors, folder / "state.safetensors")


def from_disk(folder: Path) -> dict[str, Any]:
    tensors = load_file(folder / "state.safetensors")

    def join(value: Any) -> Any:
        if isinstance(value, dict):
            return tensors[value["tensor"]] if value.keys() == {"tensor"} else {k: join(v) for k, v in value.items()}
        return [join(inner) for inner in value] if isinstance(value, list) else value

    state: dict[str, Any] = join(json.loads((folder / "state.json").read_text()))
    return state


@pytest.mark.parametrize("stop", [0, 1, 3, 20])
def test_a_buffer_from_disk_goes_on_as_if_never_stopped(stop: int, tmp_path: Path) -> None:
    whole = make()
    expected = live(whole, 0, 40)

    first = make()
    seen = live(first, 0, stop)
    to_disk(first.state_dict(), tmp_path)
    second = make(seed=99)  # the seed is the state's
    live(second, 50, 53)  # what it held before is gone
    second.load_state_dict(from_disk(tmp_path))
    assert second.memory.seed == 5
    seen += live(second, stop, 40)

    assert seen == expected
    assert second.tape().hash == whole.tape().hash
    assert second.audit().to_dict() == whole.audit().to_dict()
    for name, leaf in whole._columns.leaves.items():
        other = second._columns.leaves[name].table
        assert leaf.table.dtype == other.dtype
        assert torch.equal(leaf.table[: len(whole)], other[: len(whole)])


def test_a_state_shares_nothing() -> None:
    buffer = make()
    live(buffer, 0, 10)
    state = buffer.state_dict()
    before = {name: column.clone() for name, column in state["columns"].items()}
    live(buffer, 10, 20)
    assert all(torch.equal(state["columns"][name], before[name]) for name in before)
    other = make()
    other.load_state_dict(state)
    live(other, 10, 20)
    assert all(torch.equal(state["columns"][name], before[name]) for name in before)
    assert torch.equal(other.at(range(25)).logits, buffer.at(range(25)).logits)


def test_loading_into_room_that_fits_makes_no_new_room() -> None:
    buffer = make()
    live(buffer, 0, 10)
    state = buffer.state_dict()
    places = {name: leaf.table.data_ptr() for name, leaf in buffer._columns.leaves.items()}
    live(buffer, 10, 12)
    buffer.load_state_dict(state)
    assert {name: leaf.table.data_ptr() for name, leaf in buffer._columns.leaves.items()} == places
    wider = make()
    wider.store(torch.zeros(1, 2, 2), [0], logits=torch.zeros(1, 2, dtype=torch.bfloat16))
    wider.load_state_dict(state)
    assert wider.at([0]).x.shape == (1, 3)


def test_a_buffer_that_records_nothing_has_a_state() -> None:
    one, other = make(record=False), make(record=False)
    live(one, 0, 10)
    other.load_state_dict(one.state_dict())
    assert live(one, 10, 20) == live(other, 10, 20)


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        *parts, last = path.split(".")
        for part in parts:
            state = state[part]
        state[last] = value(state[last]) if callable(value) else value

    return change


WRONG = [
    ("its version is 3", _set("version", 3)),
    ("a memory with capacity 26, this one has 25", _set("memory.capacity", 26)),
    ("a memory with retrieval 'iid'", _set("memory.retrieval", "iid")),
    ("KeyError: 'columns'", lambda state: state.pop("columns")),
    ("its columns do not hold the 25 examples", lambda state: state["columns"].pop("x")),
    ("its columns do not hold the 25 examples", _set("columns.logits", lambda logits: logits[:-1])),
    ("its labels are not those of its memory", _set("columns.y", lambda y: y + 1)),
    ("its labels are not those of its memory", _set("columns.y", lambda y: y.float())),
    ("logits must be a tensor", _set("columns.logits", ["a"])),
    ("it has no tape, this buffer a tape", _set("record", None)),
    ("cannot be loaded", _set("record.labels", lambda labels: labels[:-1])),
    ("its record does not lead to what its memory holds", _set("record.labels", lambda labels: labels + 1)),
    ("cannot be loaded", _set("record.drawn", lambda drawn: drawn[:1])),
    ("cannot be loaded", _set("record.arrived", lambda arrived: arrived[1:])),
    ("cannot be loaded", _set("record.written", lambda written: written + 25)),
    ("cannot be loaded", _set("record.most", 1)),
]


@pytest.mark.parametrize(("words", "change"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_wrong_state_is_a_sentence_and_changes_nothing(words: str, change: Callable[[Any], Any]) -> None:
    source = make()
    live(source, 0, 12)
    state = source.state_dict()
    change(state)
    buffer, untouched = make(), make()
    live(buffer, 0, 7)
    live(untouched, 0, 7)
    with pytest.raises(
        ValueError, match=f"this buffer state cannot be loaded: .*{words}" if words[0] != "c" else words
    ):
        buffer.load_state_dict(state)
    assert live(buffer, 7, 15) == live(untouched, 7, 15)
    assert buffer.tape().hash == untouched.tape().hash


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_buffer_on_a_gpu_is_the_one_on_the_cpu() -> None:
    here, there = make(), make(device="cuda")
    assert str(there.device) == "cuda:0"
    for step in range(20):
        ids = torch.arange(6 * step, 6 * step + 6)
        for buffer in (here, there):
            assert len(buffer.draw(4)) == min(4, len(buffer))
            buffer.store(ids.to(buffer.device), ids % 5, logits=ids.half().to(buffer.device))
    one, other = here.at(range(25)), there.at(range(25))
    assert other.x.is_cuda
    assert torch.equal(one.x, other.x.cpu())
    assert here.tape().hash == there.tape().hash
    with pytest.raises(ValueError, match=r"x is on cpu and this buffer on cuda:0: give x\.to\('cuda:0'\)"):
        there.store(ids, ids % 5, logits=ids.half())
    here.load_state_dict(there.state_dict())
    assert torch.equal(here.at(range(25)).logits, one.logits)
