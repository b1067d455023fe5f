"""A step of ER-ACE as common continual-learning code writes it: the yardstick of the benchmark.

It does what Mammoth does, step for step: the memory holds float32 images on the CPU; a batch is augmented there and
then sent to the device; two forward passes, `zero_grad`, `backward`, `step`, and the loss read back; then one decision
for each example in Python, and a copy for each that is kept. The averaged read-out goes over the state dict. Where
codes differ it takes the cheaper way: augmentation is batched, with no image library and no worker processes; images
to be stored are never sent to the device and back; the memory is full already, so that few arrivals are copied. What
torch does by default stays as it is.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reprise import nets
from reprise.runs.augmentation import PAD
from reprise.runs.images import Images

SEEN = 4
"""How many times its capacity the memory has seen at the start."""
LR = 0.03
HORIZON = 1024


class Buffer:
    """A reservoir of float32 images on the CPU."""

    def __init__(self, images: Tensor, labels: Tensor, capacity: int, random: np.random.RandomState) -> None:
        """Full of the first of these images, repeated if there are too few."""
        first = torch.arange(capacity) % len(images)
        self.images, self.labels = images[first].clone(), labels[first].clone()
        self.seen = SEEN * capacity
        self.random = random

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        chosen = torch.from_numpy(self.random.choice(len(self.images), count, replace=False))
        return self.images[chosen], self.labels[chosen]

    def store(self, images: Tensor, labels: Tensor) -> None:
        for place in range(len(images)):
            slot = self.random.randint(0, self.seen + 1)
            self.seen += 1
            if slot < len(self.images):
                self.images[slot] = images[place]
                self.labels[slot] = labels[place]


class Eager:
    """The training state; `step` goes on by a batch."""

    def __init__(
        self, given: Images, device: torch.device, *, width: int, batch: int = 32, replay: int = 8, buffer: int = 5120
    ) -> None:
        # Published code draws from NumPy's legacy generator, whose choice goes over the whole memory.
        self.random = np.random.RandomState(0)
        self.device = device
        self.batch, self.replay = batch, replay
        self.pixels = torch.from_numpy(given.train.images).permute(0, 3, 1, 2)
        self.labels = torch.from_numpy(given.train.labels)
        self.order = torch.from_numpy(self.random.permutation(len(self.labels)))
        self.mean = torch.tensor(given.train.mean).view(3, 1, 1)
        self.std = torch.tensor(given.train.std).view(3, 1, 1)
        self.classes = len(given.train.classes)
        first = torch.arange(min(buffer, len(self.labels)))
        self.buffer = Buffer(self.pixels[first].float() / 255, self.labels[first], buffer, self.random)
        self.net = nets.build("resnet18", classes=self.classes, width=width, seed=0).to(device).train()
        self.average = copy.deepcopy(self.net).requires_grad_(False).eval()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=LR)
        self.seen = torch.zeros(0, dtype=torch.long, device=device)
        self.done = 0

    def step(self) -> float:
        """One step; gives the loss."""
        places = torch.arange(self.done * self.batch, (self.done + 1) * self.batch) % len(self.order)
        chosen = self.order[places]
        plain, labels = self.pixels[chosen].float() / 255, self.labels[chosen]
        x, y = self._augmented(plain).to(self.device), labels.to(self.device)

        present = torch.unique(y)
        self.seen = torch.unique(torch.cat([self.seen, present]))
        logits = self.net(x)
        open_to = torch.zeros_like(logits)
        open_to[:, present] = 1
        open_to[:, self.seen.max() :] = 1
        loss = F.cross_entropy(logits.masked_fill(open_to == 0, -1e9), y)
        past, past_labels = self.buffer.draw(self.replay)
        loss = loss + F.cross_entropy(self.net(self._augmented(past).to(self.device)), past_labels.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

        self.buffer.store(plain, labels)
        self._average()
        self.done += 1
        return loss.item()

    def _augmented(self, images: Tensor) -> Tensor:
        """A crop of the padded image for each, half of them mirrored, normalised."""
        side = images.shape[-1]
        padded = F.pad(images, (PAD, PAD, PAD, PAD))
        down, right = (torch.from_numpy(self.random.randint(0, 2 * PAD + 1, len(images))) for _ in range(2))
        rows = torch.arange(side) + down[:, None]
        columns = torch.arange(side) + right[:, None]
        columns = torch.where(torch.from_numpy(self.random.rand(len(images)) < 0.5)[:, None], columns.flip(1), columns)
        every = torch.arange(len(images))[:, None, None]
        cut = padded[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return (cut - self.mean) / self.std

    @torch.no_grad()
    def _average(self) -> None:
        weight = self.batch / HORIZON
        now = self.net.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.mul_(1 - weight).add_(now[name], alpha=weight)
            else:
                value.copy_(now[name])
