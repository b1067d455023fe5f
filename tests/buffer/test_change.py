"""Removing, clearing, resizing, and keeping keys out of a draw; the model beside it drives them at random."""

from __future__ import annotations

import pytest
import torch

from reprise import ReplayBuffer

USERS = [f"user {number}" for number in range(6)]


def filled(**options: object) -> ReplayBuffer:
    buffer = ReplayBuffer(30, seed=3, **options)  # type: ignore[arg-type]
    for step in range(8):
        buffer.draw(2)
        secret = torch.arange(6) + 100 * step + 1
        buffer.store(secret, {"a": secret[:, None].half()}, key=USERS, text=[secret[: 1 + row] for row in range(6)])
    return buffer


def test_a_user_is_forgotten() -> None:
    buffer = filled()
    count = buffer.counts()["user 2"]
    assert buffer.remove(keys=["user 2", "nobody"]) == count > 0
    assert "user 2" not in buffer.counts()
    assert buffer.keys is not None
    assert "user 2" not in buffer.keys
    assert "user 2" not in str(buffer.state_dict())
    tables = {path: column.table for path, column in buffer._columns.leaves.items()}
    assert not (tables["x"] % 100 == 3).any()  # what user 2 had, stored or not
    assert not (tables["y['a']"] % 100 == 3).any()
    assert len(buffer) == 30 - count
    for step in range(20):
        assert "user 2" not in buffer.draw(3).key
        buffer.store(
            torch.ones(1).long(), {"a": torch.ones(1, 1).half()}, key=["user 1"], text=[torch.ones(step).long()]
        )
    numbers = buffer.audit().classes.tolist()
    assert buffer.keys.named(numbers) == ["user 0", "user 1", "<dropped 2>", "user 3", "user 4", "user 5"]
    buffer.store(torch.ones(1).long(), {"a": torch.ones(1, 1).half()}, key=["user 2"], text=[torch.ones(9).long()])
    assert buffer.keys.number("user 2") == 6


def test_labels_are_removed_too() -> None:
    buffer = ReplayBuffer(9)
    buffer.store(torch.arange(6), [0, 1, 2, 0, 1, 2])
    assert buffer.remove(keys=torch.tensor([1, 7])) == 2
    assert buffer.counts() == {0: 2, 2: 2}
    assert sorted(buffer.at(range(4)).x.tolist()) == [0, 2, 3, 5]
    assert not buffer._columns.leaves["x"].table[4:6].any()
    with pytest.raises(TypeError, match="keys must be several keys, such as"):
        buffer.remove(keys=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("retrieval", ["rpr", "iid", "uniform", "rpr+pass"])
def test_some_are_kept_out_of_a_draw(retrieval: str) -> None:
    buffer = filled(retrieval=retrieval)
    for _ in range(30):
        assert not {"user 1", "user 4"} & set(buffer.draw(4, exclude={"user 1", "user 4"}).key)
        assert set(buffer.draw(4, only=["user 1", "user 4", "nobody"]).key) <= {"user 1", "user 4"}
    assert not buffer.draw(4, only=[])
    assert not buffer.draw(4, exclude=USERS)
    assert len(buffer.draw(4, exclude=[])) == 4
    assert retrieval in ("iid", "uniform") or buffer.audit().violations == 0
    labelled = ReplayBuffer(9)
    labelled.draw(3, exclude=[4])
    labelled.store(torch.arange(6), [0, 1, 2, 0, 1, 2])
    assert set(labelled.draw(9, exclude=torch.tensor([1])).key) == {0, 2}


def test_clear_leaves_zeros_and_goes_on() -> None:
    buffer = filled()
    buffer.clear()
    assert (len(buffer), buffer.counts(), list(buffer), list(buffer.keys or ())) == (0, {}, [], [])
    assert not buffer.draw(3)
    assert all(not column.table.any() for column in buffer._columns.leaves.values())
    buffer.store(torch.arange(6), {"a": torch.ones(6, 1).half()}, key=USERS, text=[torch.ones(3)[:1].long()] * 6)
    assert buffer.draw(6).key
    assert buffer.keys is not None
    assert [buffer.keys.number(user) for user in USERS] == list(range(6, 12))  # the tape knows 0 to 5 as others
    assert buffer.audit().violations == 0


def test_room_grows_and_shrinks() -> None:
    buffer = filled()
    before = sorted(buffer.at(range(30)).x.tolist())
    assert buffer.resize(50) == 0
    assert sorted(buffer.at(range(30)).x.tolist()) == before
    assert buffer.capacity == 50 == len(buffer._columns.leaves["x"].table)
    assert buffer.resize(10) == 20
    assert set(buffer.at(range(10)).x.tolist()) < set(before)
    assert "capacity=10" in repr(buffer)
    twin = ReplayBuffer(10)
    twin.load_state_dict(buffer.state_dict())
    assert [twin.draw(3).key for _ in range(9)] == [buffer.draw(3).key for _ in range(9)]
    first = filled()  # made for 30, as the state's was
    first.load_state_dict(buffer.state_dict())
    assert len(first._columns.leaves["x"].table) == first.capacity == 10
    with pytest.raises(ValueError, match="capacity 10, this one has 11"):
        ReplayBuffer(11).load_state_dict(buffer.state_dict())


def test_a_storage_that_cannot_resize_changes_nothing() -> None:
    class Stubborn:
        spec = "stubborn"

        def fresh(self) -> Stubborn:
            return self

        def start(self, random: object) -> None: ...

        def assign(self, labels: list[int], index: object) -> list[int]:
            slots = list(range(index.size, index.size + len(labels)))  # type: ignore[attr-defined]
            index.put_all(slots, labels)  # type: ignore[attr-defined]
            return slots

        def state_dict(self) -> dict[str, object]:
            return {}

        def load_state_dict(self, state: object) -> None: ...

    buffer = ReplayBuffer(9, Stubborn())  # type: ignore[arg-type]
    buffer.store(torch.arange(3), [0, 1, 2])
    for action in (lambda: buffer.resize(12), lambda: buffer.resize(2), lambda: buffer.remove(slots=[1])):
        with pytest.raises(ValueError, match="does not know how to"):
            action()
    assert len(buffer._columns.leaves["x"].table) == buffer.capacity == 9
    assert buffer.at(range(3)).x.tolist() == [0, 1, 2]


def test_a_buffer_has_its_own_storage() -> None:
    with pytest.raises(ValueError, match=r"storage 'external' is for a reprise\.Memory beside examples of your own"):
        ReplayBuffer(9, "external")


def test_a_buffer_moves_to_a_device_and_goes_on() -> None:
    buffer, twin = filled(), filled()
    assert buffer.to("cpu") is buffer
    assert [buffer.draw(3).x.tolist() for _ in range(9)] == [twin.draw(3).x.tolist() for _ in range(9)]
    with pytest.raises(ValueError, match="device 'gpu' cannot be used here"):
        buffer.to("gpu")
    assert str(buffer.device) == "cpu"
