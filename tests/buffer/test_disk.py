"""A buffer in a folder: it does what one in memory does, opens again, and survives the end of its process."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise import ReplayBuffer
from reprise.buffer import pad
from reprise.core.files import scratch_name


def batch(step: int) -> dict[str, Any]:
    """Every part tells which example it belongs to."""
    ids = torch.arange(6 * step, 6 * step + 6)
    x = {"half": ids.bfloat16()[:, None], "text": [torch.full((1 + int(number) % 4,), int(number)) for number in ids]}
    return {"x": x, "y": ids % 2 == 0, "id": ids, "key": [f"key {number % 5}" for number in ids.tolist()]}


def make(path: Path | None = None, **options: Any) -> ReplayBuffer:
    return ReplayBuffer(20, seed=4, path=path, collate={"text": pad()}, **options)


def live(buffer: ReplayBuffer, first: int, last: int) -> list[Any]:
    seen = []
    for step in range(first, last):
        if replay := buffer.draw(4):
            seen.append([replay.slots.tolist(), replay.key, replay.x["text"].tolist(), replay.id.tolist()])
        buffer.store(**batch(step))
    return seen


def true(buffer: ReplayBuffer) -> None:
    """Every row is whole, and has the key of its memory."""
    for example in buffer:
        number = int(example.id)
        expected = batch(number // 6)
        assert example.key == expected["key"][number % 6]
        assert example.x["text"].tolist() == expected["x"]["text"][number % 6].tolist()
        assert example.x["half"].item() == expected["x"]["half"][number % 6].item()


def test_a_folder_changes_no_decision_and_no_row(tmp_path: Path) -> None:
    here, disk = make(), make(tmp_path / "a" / "b")
    assert live(here, 0, 20) == live(disk, 0, 20)
    assert here.tape().hash == disk.tape().hash
    assert sorted(path.suffix for path in (tmp_path / "a" / "b").iterdir()) == ["", *[".bin"] * 5, ".json"]
    assert disk.nbytes == here.nbytes
    disk.close()
    assert not (tmp_path / "a" / "b" / "lock").exists()


def test_it_opens_again_and_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    whole = make()
    expected = live(whole, 0, 20)
    first = make(tmp_path)
    seen = live(first, 0, 12)
    torch.save(first.state_dict(), tmp_path.with_suffix(".pt"))
    assert tmp_path.with_suffix(".pt").stat().st_size < 40_000  # no rows
    first.close()
    second = make(tmp_path)
    with pytest.raises(
        ValueError, match="holds the examples of an earlier buffer: load its state first, or give an empty"
    ):
        second.store(**batch(0))
    second.load_state_dict(torch.load(tmp_path.with_suffix(".pt")))
    assert seen + live(second, 12, 20) == expected
    assert second.tape().hash == whole.tape().hash
    true(second)


@settings(max_examples=15)
@hypothesis.example(saved=0, more=3, change="")
@given(saved=st.integers(0, 9), more=st.integers(0, 9), change=st.sampled_from(["", "update", "remove", "text"]))
def test_what_was_written_after_a_state_is_lost_and_nothing_else(
    tmp_path_factory: Any, saved: int, more: int, change: str
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    buffer = make(folder)
    live(buffer, 0, saved)
    state, before = buffer.state_dict(), [int(example.id) for example in buffer]
    if before and change == "update":
        buffer.update([0, 1], y=torch.tensor([True, True]))
    elif before and change == "text":
        buffer.update([0], x={"half": torch.zeros(1, 1).bfloat16(), "text": [torch.arange(9)]})
    elif before and change == "remove":
        buffer.remove(keys=["key 1"])
    live(buffer, saved, saved + more)
    now = [int(example.id) for example in buffer]
    buffer.close()
    again = make(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again.load_state_dict(state)
    kept = {one for one, other in zip(before, now, strict=False) if one == other}
    if before and change == "text":
        kept -= {before[0]}
    assert {int(example.id) for example in again} == kept
    true(again)
    gone = len(before) - len(kept)
    assert [str(warning.message) for warning in caught] == (
        [f"{gone} of {len(before)} examples of this state are gone: their slots in the folder were written to since"]
        if gone
        else []
    )
    live(again, saved, saved + 5)
    true(again)
    assert again.audit().violations == 0
    again.close()


def test_a_killed_process_loses_what_it_wrote_since_its_state(tmp_path: Path) -> None:
    script = f"""
import sys, torch
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_disk import batch, live, make
buffer = make(Path({str(tmp_path / "folder")!r}))
live(buffer, 0, 10)
torch.save(buffer.state_dict(), {str(tmp_path / "state.pt")!r})
print("saved", flush=True)
for step in range(10, 10**6):
    live(buffer, step, step + 1)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "saved\n"
    with pytest.raises(
        ValueError, match=r"process \d+ on .* is at work in '.*folder': wait until it ends, or name another"
    ):
        make(tmp_path / "folder")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    buffer = make(tmp_path / "folder")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer.load_state_dict(torch.load(tmp_path / "state.pt"))
    true(buffer)
    live(buffer, 10, 20)
    true(buffer)
    buffer.close()


def test_rows_that_moved_are_found_again(tmp_path: Path) -> None:
    buffer = make(tmp_path)
    live(buffer, 0, 5)
    buffer.remove(slots=[0, 3, 4])
    buffer.resize(10)
    state, held = buffer.state_dict(), [int(example.id) for example in buffer]
    buffer.close()
    again = ReplayBuffer(10, seed=4, path=tmp_path, collate={"text": pad()})
    again.load_state_dict(state)
    assert [int(example.id) for example in again] == held
    true(again)
    again.close()


def test_a_row_that_was_being_written_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = make(tmp_path, storage="fifo")
    live(buffer, 0, 5)
    state = buffer.state_dict()
    monkeypatch.setattr(buffer._columns.leaves["id"], "write", interrupted)  # x is written, id is not
    with pytest.raises(KeyboardInterrupt):
        buffer.store(**batch(5))
    buffer.close()
    again = make(tmp_path, storage="fifo")
    with pytest.warns(UserWarning, match="6 of 20 examples of this state are gone"):
        again.load_state_dict(state)
    true(again)
    again.close()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_belongs_to_one_buffer_of_one_size(tmp_path: Path) -> None:
    buffer = make(tmp_path / "folder")
    buffer.store(**batch(0))
    with pytest.raises(ValueError, match=r"process \d+ on .* is at work in"):
        make(tmp_path / "folder")
    state = buffer.state_dict()
    del buffer  # as good as close
    with pytest.raises(ValueError, match="has room for 20 examples, and this buffer for 21"):
        ReplayBuffer(21, path=tmp_path / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"path must be a folder, and '.*file' is a file"):
        make(tmp_path / "file")
    with pytest.raises(ValueError, match="must be empty or a buffer's, and holds 'file'"):
        make(tmp_path)
    other = make(tmp_path / "other")
    with pytest.raises(ValueError, match=r"this buffer state cannot be loaded: the folder '.*other' has no table"):
        other.load_state_dict(state)
    other.store(**batch(0))
    with pytest.warns(UserWarning, match="6 of 6 examples of this state are gone"):  # they were in another folder
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="its examples are in a folder: give the buffer path="):
        make().load_state_dict(state)
    (tmp_path / "folder" / "columns.json").write_text("{")
    with pytest.raises(ValueError, match=r"has a damaged list of its tables, columns.json"):
        make(tmp_path / "folder")
    (tmp_path / "folder" / "columns.json").write_text('{"format": "reprise columns 9"}')
    with pytest.raises(ValueError, match="has the format 'reprise columns 9', known is"):
        make(tmp_path / "folder")


def test_rows_go_from_disk_to_memory_and_back(tmp_path: Path) -> None:
    disk, here, there = make(tmp_path / "one"), make(), make(tmp_path / "two")
    live(disk, 0, 9)
    here.load_state_dict(disk.state_dict(columns=True))
    there.load_state_dict(here.state_dict())
    assert live(disk, 9, 15) == live(here, 9, 15) == live(there, 9, 15)
    state = there.state_dict()
    there.close()
    again = make(tmp_path / "two")
    again.load_state_dict(state)
    assert live(again, 15, 20) == live(here, 15, 20)
    old = again.state_dict()
    again.load_state_dict(here.state_dict())
    with pytest.warns(UserWarning, match="20 of 20 examples of this state are gone"):  # the same, and yet written anew
        again.load_state_dict(old)
    with pytest.raises(ValueError, match="a buffer that is not on disk has its columns nowhere else"):
        here.state_dict(columns=False)
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a buffer on disk cannot be copied or pickled"):
            way(disk)


def test_what_is_removed_is_removed_from_the_files(tmp_path: Path) -> None:
    buffer = ReplayBuffer(20, path=tmp_path)
    buffer.store(torch.full((6, 2), 12345), key=[*"ababab"])
    buffer.store(torch.full((1, 2), 67890), key=["c"])
    assert files(tmp_path).count((12345).to_bytes(8, "little")) == 12
    buffer.remove(keys=["a"])
    assert files(tmp_path).count((12345).to_bytes(8, "little")) == 6
    buffer.resize(2)
    buffer.resize(40)
    buffer.clear()
    held = files(tmp_path)
    assert not held.count((12345).to_bytes(8, "little")) + held.count((67890).to_bytes(8, "little"))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.bin")) == 40 * (2 + 1) * 8
    assert len(buffer.store(torch.full((30, 2), 1), key="z").unique()) == 30
    buffer.close()


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("*.bin"))


CHANGES = {
    "store": lambda buffer: buffer.store(**batch(1)),
    "update": lambda buffer: buffer.update([0], id=torch.tensor([7])),
    "remove": lambda buffer: buffer.remove(slots=[0]),
    "clear": lambda buffer: buffer.clear(),
    "resize": lambda buffer: buffer.resize(3),
    "load": lambda buffer: buffer.load_state_dict(buffer.state_dict(columns=True)),
}


class Changes(torch.utils.data.Dataset[str]):
    """What becomes of every change in the worker that tries it."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self.buffer = buffer

    def __len__(self) -> int:
        return len(CHANGES)

    def __getitem__(self, place: int) -> str:
        self.buffer.close()  # the worker's copy alone
        try:
            return f"{[*CHANGES.values()][place](self.buffer)}"
        except RuntimeError as error:
            return str(error)


def test_no_copy_of_the_process_changes_the_folder(tmp_path: Path) -> None:
    buffer = make(tmp_path)
    buffer.store(**batch(0))
    held = files(tmp_path)
    loader = torch.utils.data.DataLoader(Changes(buffer), None, num_workers=1, multiprocessing_context="fork")
    for answer in loader:
        assert "belongs to the process that opened it" in answer
    assert files(tmp_path) == held
    with pytest.raises(ValueError, match="is at work in"):
        make(tmp_path)
    true(buffer)
    buffer.close()
    for change in CHANGES.values():
        with pytest.raises(RuntimeError, match="this buffer was closed"):
            change(buffer)
    for look in (lambda: buffer.draw(2), lambda: buffer.at([0]), lambda: next(iter(buffer))):
        with pytest.raises(RuntimeError, match="this buffer was closed"):
            look()
    assert files(tmp_path) == held


def test_a_removal_that_was_interrupted_leaves_no_false_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = make(tmp_path)
    live(buffer, 0, 5)
    state = buffer.state_dict()
    monkeypatch.setattr(buffer._columns.leaves["id"], "move", interrupted)  # x has moved, id has not
    with pytest.raises(KeyboardInterrupt):
        buffer.remove(slots=[0, 1])
    buffer.close()
    again = make(tmp_path)
    with pytest.warns(UserWarning, match="4 of 20 examples of this state are gone"):  # the two, and two that moved
        again.load_state_dict(state)
    true(again)
    again.close()


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    buffer = make(tmp_path)
    live(buffer, 0, 9)  # the table of texts has grown
    state = buffer.state_dict()
    buffer.close()
    for file in tmp_path.glob("*.bin"):
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        again = make(tmp_path)
        with pytest.raises(ValueError, match=f"has {len(content) - 1} bytes where {len(content)} are due"):
            again.load_state_dict(state)
        again.close()
        file.write_bytes(content)
    again = make(tmp_path)
    again.load_state_dict(state)
    true(again)
    again.close()


def test_a_list_that_was_never_written_whole_is_no_other_file(tmp_path: Path) -> None:
    scratch_name(tmp_path / "columns.json").write_text("{")  # left by a process that was killed
    buffer = make(tmp_path)
    buffer.store(**batch(0))
    true(buffer)
    buffer.close()


def test_a_bad_first_batch_leaves_the_folder_free(tmp_path: Path) -> None:
    buffer = ReplayBuffer(6, path=tmp_path)
    with pytest.raises(ValueError, match="labels must be 0"):
        buffer.store(torch.zeros(2, 3), [0, -1])
    buffer.store(torch.zeros(2, 5).half(), [0, 1])
    assert buffer.draw(2).x.shape == (2, 5)
    buffer.close()


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(4, 2) < 0.5,
        torch.randn(4, 3).half(),
        torch.zeros(4, 0, 3),
        torch.rand(4) * 1j,
        torch.zeros(4, 2).bfloat16(),
    ],
    ids=lambda x: f"{x.dtype} {tuple(x.shape)}",
)
def test_any_dtype_and_shape(x: torch.Tensor, tmp_path: Path) -> None:
    with torch.inference_mode():
        buffer = ReplayBuffer(6, path=tmp_path)
        buffer.store(x, torch.arange(4))
    buffer.store(x, torch.arange(4))
    state = buffer.state_dict()
    found = buffer.at(range(4)).x
    buffer.close()
    again = ReplayBuffer(6, path=tmp_path)
    again.load_state_dict(state)
    assert torch.equal(again.at(range(4)).x, found)
    assert found.dtype == x.dtype
    again.close()
