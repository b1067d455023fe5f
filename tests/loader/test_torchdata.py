"""torchdata's StatefulDataLoader itself, where it is installed: stopped anywhere, it goes on with the next step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from loader.made import Named, ids, tape_of

from reprise import TapeBatchSampler, TapeDataset

stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
# What torchdata itself calls is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


def flat(tape: Any, **options: Any) -> Any:
    return stateful.StatefulDataLoader(Named(60), batch_sampler=TapeBatchSampler(tape), **options)


def steps(tape: Any, **options: Any) -> Any:
    return stateful.StatefulDataLoader(TapeDataset(Named(60), tape), batch_size=None, **options)


def seen(batch: Any) -> list[int]:
    return ids(batch) if isinstance(batch, list) else [one for part in batch for one in ids(part)]


@pytest.mark.parametrize("make", [flat, steps])
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "snapshot_every_n_steps": 3}], ids=str)
@pytest.mark.parametrize("stop", [0, 1, 5, 8, 9])
def test_it_goes_on_where_it_stood(make: Any, options: dict[str, Any], stop: int) -> None:
    tape = tape_of()
    whole = [step.ids.tolist() for step in tape]
    loader = make(tape, **options)
    batches = iter(loader)
    head = [seen(next(batches)) for _ in range(stop)]
    state = json.loads(json.dumps(loader.state_dict()))
    again = make(tape, **options)
    again.load_state_dict(state)
    assert head + [seen(batch) for batch in again] == whole
    assert [seen(batch) for batch in again] == whole, "the next pass begins at the beginning"


@pytest.mark.parametrize("make", [flat, steps])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_of_another_tape_is_refused(make: Any, workers: int) -> None:
    loader = make(tape_of(seed=1), num_workers=workers)
    next(iter(loader))
    again = make(tape_of(), num_workers=workers)
    again.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="the state is of the tape"):
        list(again)
