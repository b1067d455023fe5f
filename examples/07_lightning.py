"""Replay in Lightning's own fit: drawn live by a callback, or planned and played by a loader; stopped and gone on with.

Ten classes of small grey images arrive two at a time, once. The module is an ordinary one, and knows nothing of replay.

Prints, for no replay, live replay (`rpr`) and a planned tape: the accuracy on all classes at the end, and the longest
that a stored class waited. Then the live fit is stopped half-way and goes on from Lightning's checkpoint: it draws what
it would have drawn, and its tape has the same hash. It is one run of each, so a few points between them are chance.

It needs the extra `lightning`: pip install '.[lightning]' in the clone.

    python examples/07_lightning.py
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import reprise

with warnings.catch_warnings():  # what other libraries say of themselves when they are imported
    warnings.simplefilter("ignore")
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    from reprise.integrations.lightning import ReplayCallback, TapeLoader

CLASSES, PER_CLASS, BATCH, REPLAY, CAPACITY = 10, 200, 10, 5, 100
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
for message in (".*many workers.*", ".*LeafSpec.*", "Checkpoint directory .*"):
    warnings.filterwarnings("ignore", message=message)
torch.set_num_threads(1)  # the network is too small to share out


class Images(torch.utils.data.Dataset):
    """8×8 images, a pattern for each class under noise; two classes at a time."""

    def __init__(self, per_class: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        patterns = torch.rand(CLASSES, 8, 8, generator=torch.Generator().manual_seed(0))
        self.targets = [2 * pair + place % 2 for pair in range(CLASSES // 2) for place in range(2 * per_class)]
        noise = torch.randn(len(self.targets), 8, 8, generator=random)
        self.images = patterns[self.targets] + 0.5 * noise

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.images[place], self.targets[place]


class Classifier(lightning.LightningModule):
    """A module as one writes it without replay."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.network(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.2)


class InOrder:
    """A loader of the images as they arrive. Lightning keeps its state, so that a fit can go on within a pass."""

    taken = 0

    def __len__(self) -> int:
        return len(IMAGES) // BATCH

    def __iter__(self) -> Any:
        for first in range(BATCH * self.taken, len(IMAGES), BATCH):
            self.taken += 1
            yield IMAGES.images[first : first + BATCH], torch.tensor(IMAGES.targets[first : first + BATCH])

    def state_dict(self) -> dict[str, int]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.taken = state["taken"]


IMAGES, TEST = Images(PER_CLASS, seed=1), Images(50, seed=2)


def fit(data: Any, folder: str, callbacks: list[Any], **more: Any) -> Classifier:
    torch.manual_seed(0)
    model, checkpoint = Classifier(), more.pop("ckpt_path", None)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=100, save_top_k=-1)
    trainer = lightning.Trainer(max_epochs=1, callbacks=[*callbacks, saving], **quiet, **more)
    trainer.fit(model, data, ckpt_path=checkpoint)
    return model


def accuracy(model: nn.Module) -> float:
    with torch.no_grad():
        right = model.network(TEST.images).argmax(1) == torch.tensor(TEST.targets)
    return 100 * right.float().mean().item()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"none: accuracy {accuracy(fit(InOrder(), folder, [])):.1f}%")

        whole = reprise.ReplayBuffer(CAPACITY, retrieval="rpr", seed=0)
        model = fit(InOrder(), folder, [ReplayCallback(whole, REPLAY)])  # the one line
        print(f"live: accuracy {accuracy(model):.1f}%, longest wait {whole.audit().longest}")

        tape = reprise.plan(IMAGES.targets, reprise.Memory(CAPACITY, retrieval="rpr", seed=0), REPLAY, batch=BATCH)
        model = fit(TapeLoader(IMAGES, tape), folder, [])  # or this one
        print(f"tape: accuracy {accuracy(model):.1f}%, longest wait {reprise.audit.measure(tape).longest}")

    with tempfile.TemporaryDirectory() as folder:
        first, second = (reprise.ReplayBuffer(CAPACITY, retrieval="rpr", seed=0) for _ in range(2))
        fit(InOrder(), folder, [ReplayCallback(first, REPLAY)], max_steps=100)
        saved = Path(folder) / "step=100.ckpt"
        fit(InOrder(), folder, [ReplayCallback(second, REPLAY)], ckpt_path=saved)
        print(f"tape of the fit in one go {whole.tape().hash[:12]}, in two {second.tape().hash[:12]}")
        assert second.tape() == whole.tape()


if __name__ == "__main__":
    main()
