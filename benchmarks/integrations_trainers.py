"""What replay costs in the loops of Lightning and transformers, beside the same loops with plain random replay.

    python benchmarks/integrations_trainers.py [--steps N] [--rounds N] [--capacities N …] [--only lightning …]

A step has 32 incoming and 8 replayed images, uint8 32×32×3, and trains one linear layer. The memory is full when a fit
begins. The floor is the library's own loop over a torch loader whose batches have the same 32 images and 8 random ones
of the first so many: replay as one writes it without a memory. All are timed in turn, a whole fit each, from its second
step to its last, in processor time of one thread.

It needs the extras `lightning` and `huggingface`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _rows import Row, compared, environment
from torch import nn
from torch.utils.data import DataLoader, Dataset

import reprise

ARRIVING, REPLAYED, CLASSES = 32, 8, 100


class Images(Dataset[Any]):
    """Images in memory; an example is a pair, or a dict."""

    def __init__(self, count: int, named: bool) -> None:
        self.pixels = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8)
        self.targets, self.named = torch.arange(count) % CLASSES, named

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, example: int) -> Any:
        x, y = self.pixels[example], int(self.targets[example])
        return {"pixel_values": x, "labels": y} if self.named else (x, y)


class Stage:
    """All that the ways to train share: images that are held, images that arrive, and the tape of what follows."""

    def __init__(self, capacity: int, steps: int, named: bool) -> None:
        self.capacity, self.steps = capacity, steps
        self.images = Images(capacity + steps * ARRIVING, named)
        self.arriving = [list(range(first, first + ARRIVING)) for first in range(capacity, len(self.images), ARRIVING)]
        random = np.random.default_rng(0)
        self.plain = [[*ids, *random.integers(capacity, size=REPLAYED).tolist()] for ids in self.arriving]
        memory = reprise.Memory(capacity, seed=0)
        memory.store(self.images.targets[:capacity].numpy())
        stream = reprise.streams.from_batches(self.arriving, self.images.targets.numpy())
        self.tape = reprise.plan(stream, memory, REPLAYED, initial=np.arange(capacity))

    def buffer(self, *fields: str) -> reprise.ReplayBuffer:
        """A buffer that holds the first images, as batches with these fields leave it."""
        made, y = reprise.ReplayBuffer(self.capacity, seed=0), self.images.targets[: self.capacity]
        made.store(dict(zip(fields, (self.images.pixels[: self.capacity], y), strict=True)), y)
        return made

    def loader(self, batches: list[list[int]]) -> DataLoader[Any]:
        return DataLoader(self.images, batch_sampler=batches)  # type: ignore[arg-type]


class Clock:
    """Processor time from the end of the first step to the end of the last."""

    def __init__(self) -> None:
        self.ticks: list[float] = []

    def tick(self, *args: Any, **kwargs: Any) -> None:
        self.ticks.append(time.process_time())

    @property
    def microseconds(self) -> float:
        return 1e6 * (self.ticks[-1] - self.ticks[0]) / (len(self.ticks) - 1)


def of_lightning(stage: Stage) -> dict[str, Callable[[], float]]:
    """One fit each way."""
    import lightning.pytorch as lightning

    from reprise.integrations.lightning import ReplayCallback, TapeLoader

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Linear(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3072, CLASSES)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            x, y = batch
            return nn.functional.cross_entropy(self.layer(x.flatten(1).float() / 255), y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    def fit(loader: Any, *callbacks: Any) -> float:
        clock = Clock()
        last = lightning.callbacks.LambdaCallback(on_train_batch_end=clock.tick)
        quiet = dict.fromkeys(["logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"], False)
        options: dict[str, Any] = {"max_epochs": 1, "accelerator": "cpu", "callbacks": [*callbacks, last], **quiet}
        lightning.Trainer(**options).fit(Linear(), loader)
        return clock.microseconds

    def live() -> float:
        buffer = stage.buffer("0", "1")
        return fit(stage.loader(stage.arriving), ReplayCallback(buffer, REPLAYED))

    return {
        "live": live,
        "tape": lambda: fit(TapeLoader(stage.images, stage.tape)),
        "floor": lambda: fit(stage.loader(stage.plain)),
    }


def of_huggingface(stage: Stage) -> dict[str, Callable[[], float]]:
    """One run of a Trainer each way."""
    import transformers
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from reprise.integrations.huggingface import Replay, ReplayTrainer

    transformers.utils.logging.set_verbosity_error()

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3072, CLASSES)

        def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
            return (nn.functional.cross_entropy(self.layer(pixel_values.flatten(1).float() / 255), labels),)

    class Loaded(Trainer):  # type: ignore[misc]
        """The Trainer with a loader that is given."""

        batches = stage.plain

        def get_train_dataloader(self) -> Any:
            loader = DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator)
            return self.accelerator.prepare(loader)

    class Ticking(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.clock = Clock()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.clock.tick()

    def run(kind: Any, dataset: Any, **more: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder, num_train_epochs=1, per_device_train_batch_size=ARRIVING, save_strategy="no",
                logging_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
                train_sampling_strategy="sequential", optim="sgd",
            )  # fmt: skip
            ticking = Ticking()
            trainer = kind(Linear(), arguments, train_dataset=dataset, callbacks=[ticking], **more)
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        return ticking.clock.microseconds

    def live() -> float:
        buffer = stage.buffer("pixel_values", "labels")
        arriving = torch.utils.data.Subset(stage.images, range(stage.capacity, len(stage.images)))
        return run(ReplayTrainer, arriving, replay=Replay(buffer, REPLAYED))

    return {
        "live": live,
        "tape": lambda: run(ReplayTrainer, stage.images, replay=stage.tape),
        "floor": lambda: run(Loaded, stage.images),
    }


WAYS = {"lightning": of_lightning, "huggingface": of_huggingface}
NEEDED = {"lightning": "lightning", "huggingface": "transformers"}


def rows(name: str, capacity: int, steps: int, rounds: int) -> list[Row]:
    """Live draws and a tape in one library, at one capacity."""
    ways = WAYS[name](Stage(capacity, steps, named=name == "huggingface"))
    measured: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        order = list(ways.items())
        for way, job in order[number % 3 :] + order[: number % 3]:
            gc.collect()
            taken = job()
            if number:  # the first of each warms up
                measured[way].append(taken)
    floor = measured.pop("floor")
    return [
        compared(name, f"{name}, {way}, {capacity:,} stored", taken, floor, steps=steps)
        for way, taken in measured.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300, help="how many steps a fit has")
    parser.add_argument("--rounds", type=int, default=7, help="how many fits of each are timed")
    parser.add_argument("--capacities", type=int, nargs="+", default=[200, 2_000, 50_000])
    parser.add_argument("--only", nargs="+", choices=sorted(WAYS), default=sorted(WAYS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # what the libraries say of each other
    gc.disable()
    for name in arguments.only:
        if importlib.util.find_spec(NEEDED[name]) is None:
            print(f"{name}: skipped, {NEEDED[name]} is not installed")
            continue
        for capacity in arguments.capacities:
            for row in rows(name, capacity, arguments.steps, arguments.rounds):
                print(
                    f"{row.what}: {row.value:.0f} µs a step, floor {row.floor:.0f} µs, ratio {row.ratio:.2f} "
                    f"({row.low:.2f} … {row.high:.2f})",
                    flush=True,
                )
    facts = environment()
    print(f"{facts['machine']}, {facts['cores']} cores, Python {facts['versions']['python']}")


if __name__ == "__main__":
    main()
