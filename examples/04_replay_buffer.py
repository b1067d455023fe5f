"""A torch training loop of one's own with `reprise.ReplayBuffer`: the examples stay on the device.

Twenty classes of small grey images arrive two at a time, once. A small network takes one step per batch of ten, with
five replayed images. The buffer keeps the images as they came (uint8), and with them, as a column of its own, the
number of the batch that brought them.

Prints, for no replay, `iid` and `rpr`: the accuracy on all classes at the end of the stream, the longest that any
stored class waited for replay, and how often a class waited longer than a randomised pass allows. Both buffers of a
seed hold the same images at every step, and every arm of a seed starts from the same weights.

    python examples/04_replay_buffer.py
"""

from __future__ import annotations

import torch
from torch import nn

import reprise

CLASSES, PER_CLASS, BATCH, REPLAY, CAPACITY = 20, 150, 10, 5, 200
SEEDS = range(3)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)  # the network is too small to share out


class World:
    """Classes of 8×8 images: a pattern each, under noise."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.patterns = 255 * torch.rand(CLASSES, 8, 8, generator=self.random)

    def images(self, labels: torch.Tensor) -> torch.Tensor:
        noise = 150 * torch.randn(len(labels), 8, 8, generator=self.random)
        return (self.patterns[labels] + noise).clamp(0, 255).to(torch.uint8)

    def stream(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Two classes at a time, shuffled within, in batches."""
        batches = []
        for first in range(0, CLASSES, 2):
            labels = first + torch.arange(2 * PER_CLASS) % 2
            labels = labels[torch.randperm(len(labels), generator=self.random)]
            batches += [(self.images(part).to(DEVICE), part.to(DEVICE)) for part in labels.split(BATCH)]
        return batches


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)).to(DEVICE)


def scaled(images: torch.Tensor) -> torch.Tensor:
    return images.float() / 128 - 1


def run(retrieval: str | None, seed: int) -> tuple[float, reprise.audit.Audit]:
    """Train once; the final accuracy in percent, and the audit of what was replayed."""
    world, model, criterion = World(seed), network(seed), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    size = 0 if retrieval is None else REPLAY

    buffer = reprise.ReplayBuffer(capacity=CAPACITY, retrieval=retrieval or "rpr", device=DEVICE, seed=seed)
    for step, (x, y) in enumerate(world.stream()):
        loss = criterion(model(scaled(x)), y)
        if replay := buffer.draw(size):  # falsy while nothing is stored
            loss = loss + criterion(model(scaled(replay.x)), replay.y)
            assert (replay.step < step).all()  # an example is never replayed in the step that brings it
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        buffer.store(x, y, step=step)  # more columns by keyword

    labels = torch.arange(CLASSES).repeat(50)
    with torch.no_grad():
        right = model(scaled(world.images(labels).to(DEVICE))).argmax(dim=1) == labels.to(DEVICE)
    return 100 * right.float().mean().item(), buffer.audit()


def main() -> None:
    for retrieval in (None, "iid", "rpr"):
        results = [run(retrieval, seed) for seed in SEEDS]
        accuracies = ", ".join(f"{accuracy:.1f}" for accuracy, _ in results)
        line = f"{retrieval or 'none':5} accuracy {accuracies} %"
        if retrieval is not None:
            longest = max(audit.longest or 0 for _, audit in results)
            late = sum(audit.violations + audit.overdue for _, audit in results)
            line += f"    longest wait {longest} steps, {late} past the bound"
        print(line)
    bound = reprise.audit.theory.churn_bound(CLASSES, 0, REPLAY)
    print(f"\nWith {CLASSES} classes stored and {REPLAY} replayed a step, rpr promises waits of at most {bound} steps.")


if __name__ == "__main__":
    main()
