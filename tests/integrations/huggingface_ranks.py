"""One of two processes of a Trainer over one stream: what it was given, as JSON. Run by the tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import reprise

pytest.importorskip("transformers", reason="needs transformers: make integrations")  # where tests are looked for
pytest.importorskip("datasets", reason="needs datasets: make integrations")
from datasets import Dataset
from transformers import TrainingArguments

from reprise.integrations.huggingface import Replay, ReplayTrainer, plan_column

COUNT, BATCH, SIZE, CAPACITY = 96, 8, 4, 30  # the batch of both processes together
WAYS = {"live": None, "split": {"split_batches": True}, "dispatched": {"dispatch_batches": True}, "tape": None}
NAMES = ["films", "hotels", "soups", "beers", "phones", "novels"]


class Notes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)
        self.seen: list[list[int]] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.append(x[:, 0].long().tolist())
        return {"loss": nn.functional.cross_entropy(self.layer(x / COUNT), labels)}


def main(folder: Path) -> None:
    columns: dict[str, Any] = {"x": [[float(place)] * 3 for place in range(COUNT)]}
    columns |= {"labels": [place % 2 for place in range(COUNT)]}
    dataset = Dataset.from_dict({**columns, "domain": [NAMES[place * 6 // COUNT] for place in range(COUNT)]})
    tape = plan_column(dataset, "domain", reprise.Memory(CAPACITY, seed=3), SIZE, batch=BATCH)
    told: dict[str, Any] = {}
    for way, config in WAYS.items():
        buffer = reprise.ReplayBuffer(CAPACITY, seed=3)
        replay = tape if way == "tape" else Replay(buffer, SIZE, key="domain")
        models = [Notes(), Notes()]
        folders = (None, str(folder / way / "checkpoint-5"))
        for model, resume in zip(models, folders[: 1 if way == "dispatched" else 2], strict=False):
            if way != "tape" and resume:
                replay = Replay(buffer := reprise.ReplayBuffer(CAPACITY, seed=3), SIZE, key="domain")
            part = BATCH if way == "split" else BATCH // 2
            args = TrainingArguments(
                output_dir=str(folder / way), per_device_train_batch_size=part, num_train_epochs=1,
                max_steps=12 if resume or way == "dispatched" else 5, save_steps=5, use_cpu=True,
                train_sampling_strategy="sequential",
                ddp_backend="gloo", report_to=[], disable_tqdm=True, logging_strategy="no", learning_rate=0.1,
                dataloader_pin_memory=False, lr_scheduler_type="constant",
                accelerator_config=config,
            )  # fmt: skip
            trainer = ReplayTrainer(model=model, args=args, train_dataset=dataset, replay=replay)
            trainer.train(resume_from_checkpoint=resume)
        if way == "dispatched":
            try:
                trainer.train(resume_from_checkpoint=folders[1])
            except ValueError as error:
                refused = str(error)
        made = tape if way == "tape" else buffer.tape()
        told[way] = {
            "seen": models[0].seen + models[1].seen,
            "hash": made.hash,
            "violations": reprise.audit.measure(made).violations,
            "weights": model.layer.weight.tolist(),
        }
    told["dispatched"]["refused"] = refused
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(told))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # DDP leaves Gloo's threads at work; where the interpreter ends under them, they abort the process
