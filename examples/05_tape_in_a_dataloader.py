"""A planned tape in a torch DataLoader with two workers: the loop sees what the tape says, and so what its audit says.

Twelve kinds of small grey images arrive two at a time, once. The data set is an ordinary map-style one; its labels are
strings. Two tapes are planned from them, audited, and loaded by workers. The loop notes which images it was given, and
makes a tape of that.

Prints, for `iid` and `rpr`: the longest wait by the audit of the plan and by the audit of what the loop saw, the hashes
of the two tapes, which are the same, and the accuracy on all kinds at the end. The second tape is stopped half-way and
goes on with a new loader.

    python examples/05_tape_in_a_dataloader.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import reprise

KINDS = ["ant", "bat", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx"]
PER_KIND, BATCH, REPLAY, CAPACITY = 160, 16, 4, 120
torch.set_num_threads(1)  # the network is too small to share out


class Animals(Dataset):
    """8×8 images, a pattern for each kind under noise; every image is made when it is asked for."""

    def __init__(self, per_kind: int, seed: int) -> None:
        self.seed = seed
        self.patterns = torch.rand(len(KINDS), 8, 8, generator=torch.Generator().manual_seed(0))
        pairs = [KINDS[first : first + 2] for first in range(0, len(KINDS), 2)]
        self.names = [pair[place % 2] for pair in pairs for place in range(2 * per_kind)]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: int) -> dict[str, object]:
        y = KINDS.index(self.names[place])
        noise = torch.randn(8, 8, generator=torch.Generator().manual_seed(self.seed + place))
        return {"image": self.patterns[y] + 0.5 * noise, "y": y, "id": place}


class Notes:
    """What the loop was given, step by step."""

    def __init__(self, tape: reprise.Tape) -> None:
        self.tape, self.incoming, self.replay = tape, np.full_like(tape.incoming, -1), np.full_like(tape.replay, -1)

    def take(self, batch: reprise.TapeBatch) -> None:
        self.incoming[batch.step.number, : len(batch.incoming["id"])] = batch.incoming["id"]
        if batch.replayed is not None:
            self.replay[batch.step.number, 0, : len(batch.replayed["id"])] = batch.replayed["id"]

    def seen(self) -> reprise.Tape:
        return replace(self.tape, incoming=self.incoming, replay=self.replay)


def train(dataset: Animals, tape: reprise.Tape, stops: list[int]) -> tuple[nn.Module, reprise.Tape]:
    """Train over a tape, with a new loader after every stop; the network, and a tape of what the loop saw."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(KINDS)))
    criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)
    notes = Notes(tape)
    for start, stop in zip([0, *stops], [*stops, len(tape)], strict=True):
        steps = reprise.TapeDataset(dataset, tape, start=start)
        for batch in DataLoader(steps, batch_size=None, num_workers=2):
            if batch.step.number == stop:
                break  # the workers have loaded further steps by now, which does no harm
            incoming, replay = batch
            loss = criterion(model(incoming["image"]), incoming["y"])
            if replay is not None:
                loss = loss + criterion(model(replay["image"]), replay["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            notes.take(batch)
    return model, notes.seen()


def main() -> None:
    dataset, test = Animals(PER_KIND, seed=1), Animals(30, seed=10**6)
    images, y = (
        torch.stack([torch.as_tensor(test[place][field]) for place in range(len(test))]) for field in ("image", "y")
    )
    for retrieval, stops in (("iid", []), ("rpr", [60])):
        memory = reprise.Memory(CAPACITY, "reservoir", retrieval, seed=0)
        tape = reprise.plan(dataset.names, memory, REPLAY, batch=BATCH, boundaries=range(320, len(dataset), 320))
        planned = reprise.audit.measure(tape)
        model, seen = train(dataset, tape, stops)
        audit = reprise.audit.measure(seen)
        accuracy = 100 * (model(images).argmax(1) == y).float().mean().item()
        assert seen == tape
        assert audit.to_dict() == planned.to_dict()
        print(
            f"{retrieval}: {len(tape)} steps, longest wait {planned.longest} as planned and {audit.longest} as seen, ",
            end="",
        )
        print(f"tapes {tape.hash[:8]} and {seen.hash[:8]}, accuracy {accuracy:.1f}%")


if __name__ == "__main__":
    main()
