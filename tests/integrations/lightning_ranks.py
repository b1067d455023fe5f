"""Two processes of Lightning over one stream: what each was given, as JSON. Run by the tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import reprise

pytest.importorskip("lightning.pytorch", reason="needs lightning: make integrations")  # where tests are looked for
import lightning.pytorch as lightning
from lightning.pytorch.callbacks import ModelCheckpoint

from reprise.integrations.lightning import ReplayCallback, TapeLoader

COUNT, BATCH, SIZE, CAPACITY = 96, 8, 4, 30  # the batch of both processes together


class Numbered(Dataset[Any]):
    """Examples that say who they are; class after class, the last batch smaller."""

    def __init__(self) -> None:
        self.targets = [place * 6 // COUNT for place in range(COUNT)]

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(place)), self.targets[place]


class InOrder(lightning.LightningDataModule):
    """The examples in order: Lightning's own DistributedSampler would shuffle them."""

    def train_dataloader(self) -> DataLoader[Any]:
        dataset = Numbered()
        return DataLoader(dataset, BATCH // 2, sampler=DistributedSampler(dataset, shuffle=False))


class GoingOn:
    """The same in a loader that says where it stands, as torchdata's `StatefulDataLoader` does."""

    def __init__(self) -> None:
        self.done = 0

    def __len__(self) -> int:
        return COUNT // BATCH

    def __iter__(self) -> Iterator[Any]:
        self.done %= len(self)  # Lightning leaves an iterator after its last batch, and does not ask for the end
        for batch in islice(InOrder().train_dataloader(), self.done, None):
            self.done += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


class Notes(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(3, 6), []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        self.seen.append(x[:, 0].long().tolist())
        return nn.functional.cross_entropy(self.layer(x / COUNT), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder: Path, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    two = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "max_epochs": 1, "default_root_dir": folder}
    return lightning.Trainer(**{**quiet, **two, **options})


def resumed(folder: Path) -> dict[str, Any]:
    """Two epochs of live replay without a stop, and from checkpoints of that fit: within an epoch, and after one."""

    def fit(loader: Any, ckpt: str | None, *callbacks: Any) -> dict[str, Any]:
        torch.manual_seed(1 if ckpt else 0)
        buffer, model = reprise.ReplayBuffer(CAPACITY, seed=7 if ckpt else 3), Notes()
        options: dict[str, Any] = {"callbacks": [ReplayCallback(buffer, SIZE), *callbacks], "max_epochs": 2}
        path = None if ckpt is None else folder / ckpt
        trainer(folder, **options, enable_checkpointing=bool(callbacks)).fit(model, loader, ckpt_path=path)
        told = {"seen": model.seen, "hash": buffer.tape().hash, "weights": model.layer.weight.tolist()}
        return {**told, "violations": buffer.audit().violations}

    steps = ModelCheckpoint(folder, "live-{step}", every_n_train_steps=1, save_top_k=-1)
    epochs = ModelCheckpoint(folder, "live-{epoch}", every_n_epochs=1, save_top_k=-1)
    within = [fit(GoingOn(), None, steps), fit(GoingOn(), "live-step=5.ckpt")]
    between = [fit(InOrder(), None, epochs), fit(InOrder(), "live-epoch=0.ckpt")]
    return {"within": within, "between": between}


def main(folder: Path) -> None:
    torch.manual_seed(0)
    dataset, told = Numbered(), {}

    buffer, model = reprise.ReplayBuffer(CAPACITY, seed=3), Notes()
    fit = trainer(folder, enable_checkpointing=False, callbacks=[ReplayCallback(buffer, SIZE)])
    fit.fit(model, InOrder())
    told["live"] = {"seen": model.seen, "hash": buffer.tape().hash, "violations": buffer.audit().violations}
    told["live"]["weights"] = model.layer.weight.tolist()

    tape = reprise.plan(dataset.targets, reprise.Memory(CAPACITY, seed=3), SIZE, batch=BATCH)
    first, second = Notes(), Notes()
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
    trainer(folder, callbacks=[saving], max_steps=5).fit(first, TapeLoader(dataset, tape))
    loader = TapeLoader(dataset, tape, num_workers=1)
    trainer(folder, enable_checkpointing=False).fit(second, loader, ckpt_path=folder / "step=5.ckpt")
    violations = reprise.audit.measure(loader.tape).violations
    told["tape"] = {"seen": first.seen + second.seen, "hash": loader.tape.hash, "violations": violations}
    told |= resumed(folder)
    (folder / f"rank{fit.global_rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # DDP leaves Gloo's threads at work; where the interpreter ends under them, they abort the process
