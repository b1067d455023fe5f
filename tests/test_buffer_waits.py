"""What a buffer's audit says of waits that have not ended, and of draws whose size changes."""

from __future__ import annotations

import pytest
import torch

from reprise import ReplayBuffer


def test_audit_tells_of_waits_that_have_not_ended() -> None:
    buffer = ReplayBuffer(8, "fifo", "fixed")
    buffer.store(torch.zeros(3, 1), [0, 1, 2])
    for _ in range(4):
        buffer.draw(1)  # 0, 1, 2, 0
    buffer.store(torch.zeros(1, 1), [9])
    buffer.draw(1)  # 1: class 9 waits since its arrival, class 2 since step 3
    audit = buffer.audit()
    assert audit.open.classes.tolist() == [0, 1, 2, 9]
    assert audit.open.lengths.tolist() == [1, 0, 2, 1]
    assert (audit.first_max, audit.open_max, audit.cut_max, audit.never, audit.longest) == (3, 2, 0, 1, 3)


@pytest.mark.parametrize("retrieval", ["rpr", "fixed", "window:0.5"])
def test_draws_of_changing_size_keep_the_bound_of_the_smallest(retrieval: str) -> None:
    buffer = ReplayBuffer(12, "fifo", retrieval, seed=1)
    for step in range(120):
        buffer.draw(2 + step * step % 5)
        buffer.store(torch.zeros(3, 1), [(step + i) % (3 + step // 8) for i in range(3)])
    audit = buffer.audit()
    assert audit.deactivations > 10
    assert (audit.violations, audit.overdue) == (0, 0)
