"""Replay in the Trainer of transformers: a small BERT learns texts domain after domain, and replay goes by the domain.

Reviews of ten kinds of things arrive, one kind after the other, once. A word may praise in one domain and blame in
another. The network is a BERT of two layers with random weights, and the texts are made here: nothing is downloaded.

Prints, for no replay, live replay (`rpr`) and a planned tape: the accuracy over all domains at the end, and the longest
that a stored domain waited. Then the live run is stopped half-way and goes on from the Trainer's checkpoint: it draws
what it would have drawn, and its tape has the same hash. It is one run of each. Sizes and initial weights were chosen
so that so small a network learns: the example shows how to set replay up, and is no evidence of what replay is worth.

It needs the extra `huggingface`: pip install '.[huggingface]' in the clone.

    python examples/08_huggingface.py
"""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import numpy as np
import torch

import reprise

with warnings.catch_warnings():  # what other libraries say of themselves when they are imported
    warnings.simplefilter("ignore")
    import transformers
    from datasets import Dataset
    from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments

    from reprise.integrations.huggingface import Replay, ReplayTrainer, plan_column

DOMAINS = ["films", "hotels", "soups", "beers", "phones", "novels", "shoes", "trains", "games", "lamps"]
OPINIONS, REVIEWS, BATCH, REPLAY, CAPACITY = 12, 480, 16, 8, 120
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # the network is too small to share out


def reviews(count: int, seed: int) -> Dataset:
    """Rows of tokens: 0 pads, 1 to 10 say the domain, the others are opinions; of six to nine words."""
    praises = np.random.default_rng(0).random((len(DOMAINS), OPINIONS)) < 0.5
    random, rows = np.random.default_rng(seed), []
    for number, domain in enumerate(DOMAINS):
        for _ in range(count):
            label = int(random.integers(2))
            agreeing = np.flatnonzero(praises[number] == label)
            words = [1 + number] * 3 + (1 + len(DOMAINS) + random.choice(agreeing, random.integers(3, 7))).tolist()
            rows.append({"input_ids": random.permutation(words).tolist(), "labels": label, "domain": domain})
    return Dataset.from_list(rows)


def padded(features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch as wide as its longest text."""
    width = max(len(one["input_ids"]) for one in features)
    rows = torch.tensor([one["input_ids"] + [0] * (width - len(one["input_ids"])) for one in features])
    return {
        "input_ids": rows,
        "attention_mask": (rows > 0).long(),
        "labels": torch.tensor([one["labels"] for one in features]),
    }


def train(folder: str, dataset: Dataset, replay: Replay | reprise.Tape | None, **more: Any) -> Any:
    """Train once; the model."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1 + len(DOMAINS) + OPINIONS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        initializer_range=0.2,  # it is not pretrained, and small weights would learn slowly
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    resume = more.pop("resume", None)
    arguments = TrainingArguments(
        folder,
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        train_sampling_strategy="sequential",  # the Trainer shuffles unless it is told not to
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        save_steps=150,
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        **more,
    )
    given = {"args": arguments, "train_dataset": dataset, "data_collator": padded}
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, **given) if replay is None else ReplayTrainer(model, **given, replay=replay)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return model.eval()


def accuracy(model: Any, test: Dataset) -> float:
    batch = padded(list(test))
    labels = batch.pop("labels")
    with torch.no_grad():
        return 100 * (model(**batch).logits.argmax(1) == labels).float().mean().item()


def live() -> Replay:
    return Replay(reprise.ReplayBuffer(CAPACITY, retrieval="rpr", seed=0), REPLAY, key="domain", length=16)


def main() -> None:
    dataset, test = reviews(REVIEWS, seed=1), reviews(50, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        print(f"none: accuracy {accuracy(train(folder, dataset, None), test):.1f}%")
    whole, rest = live(), live()
    with tempfile.TemporaryDirectory() as folder:
        model = train(folder, dataset, whole)
        print(f"live: accuracy {accuracy(model, test):.1f}%, longest wait {whole.buffer.audit().longest}")
        train(folder, dataset, rest, resume=f"{folder}/checkpoint-150")
    with tempfile.TemporaryDirectory() as folder:
        tape = plan_column(dataset, "domain", reprise.Memory(CAPACITY, retrieval="rpr", seed=0), REPLAY, batch=BATCH)
        model = train(folder, dataset, tape)
        print(f"tape: accuracy {accuracy(model, test):.1f}%, longest wait {reprise.audit.measure(tape).longest}")
    hashes = [replay.buffer.tape().hash[:12] for replay in (whole, rest)]
    print(f"tape of the run in one go {hashes[0]}, in two {hashes[1]}")
    assert whole.buffer.tape() == rest.buffer.tape()


if __name__ == "__main__":
    main()
