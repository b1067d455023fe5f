"""Live replay and planned tapes in the Trainer of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import reprise

transformers = pytest.importorskip("transformers", reason="needs transformers: make integrations")
datasets = pytest.importorskip("datasets", reason="needs datasets: make integrations")
pytest.importorskip("accelerate", reason="needs accelerate: make integrations")
from reprise.integrations.huggingface import Replay, ReplayTrainer, ReplayTrainerMixin, plan_column  # noqa: E402

# Warnings of other libraries about each other are theirs; ours are errors here, too.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.filterwarnings("error:::reprise")]
COUNT, BATCH, SIZE = 96, 8, 4
DOMAINS = ["films", "hotels", "soups", "beers", "phones", "novels"]


def examples(count: int = COUNT) -> Any:
    """Rows that say who they are; domain after domain."""
    domains = [DOMAINS[place * 6 // count] for place in range(count)]
    columns = {"x": [[float(place)] * 3 for place in range(count)], "labels": [place % 2 for place in range(count)]}
    return datasets.Dataset.from_dict({**columns, "domain": domains, "text": ["not for the model"] * count})


class Notes(nn.Module):
    """A small model that writes down what it was given."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.fail_at = nn.Linear(3, 2), fail_at
        self.seen: list[list[int]] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            if len(self.seen) == self.fail_at:
                raise KeyboardInterrupt
            self.seen.append(x[:, 0].long().tolist())
            assert labels.tolist() == [place % 2 for place in self.seen[-1]]
        logits = self.layer(x / COUNT)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def arguments(folder: Path, **more: Any) -> Any:
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no", "save_strategy": "no"}
    ours = {"per_device_train_batch_size": BATCH, "num_train_epochs": 1, "train_sampling_strategy": "sequential"}
    ours |= {"dataloader_pin_memory": False, "learning_rate": 0.1}
    return transformers.TrainingArguments(output_dir=str(folder), **{**quiet, **ours, **more})


def trainer(folder: Path, model: nn.Module, replay: Any, dataset: Any = None, **more: Any) -> ReplayTrainer:
    given = {name: more.pop(name) for name in ("eval_dataset", "data_collator") if name in more}
    data = examples() if dataset is None else dataset
    return ReplayTrainer(model=model, args=arguments(folder, **more), train_dataset=data, replay=replay, **given)


def by_domain(seed: int = 3) -> Replay:
    return Replay(reprise.ReplayBuffer(30, seed=seed), SIZE, key="domain")


def planned(seed: int = 3, batch: int = BATCH) -> reprise.Tape:
    return plan_column(examples(), "domain", reprise.Memory(30, seed=seed), SIZE, batch=batch)


def test_live_replay_is_the_planned_one(tmp_path: Path) -> None:
    model, replay, tape = Notes(), by_domain(), planned()
    trainer(tmp_path, model, replay, eval_dataset=examples(), eval_strategy="epoch").train()
    assert model.seen == [step.ids.tolist() for step in tape]
    assert replay.buffer.tape().replay.tolist() == tape.replay.tolist()
    assert replay.buffer.audit().violations == 0
    assert replay.buffer.classes.tolist() == list(range(6))


@pytest.mark.parametrize("more", [{}, {"dataloader_num_workers": 2}, {"gradient_accumulation_steps": 3}], ids=str)
def test_workers_and_accumulation_change_no_draw(more: dict[str, int], tmp_path: Path) -> None:
    live, replay, played, tape = Notes(), by_domain(), Notes(), planned()
    trainer(tmp_path, live, replay, **more).train()
    trainer(tmp_path, played, tape, **more).train()
    assert live.seen == played.seen == [step.ids.tolist() for step in tape]
    assert torch.equal(live.layer.weight, played.layer.weight)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"train_sampling_strategy": "random", "num_train_epochs": 2},
        {"gradient_accumulation_steps": 2, "dataloader_num_workers": 1},
    ],
    ids=str,
)
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(more: dict[str, Any], tmp_path: Path) -> None:
    whole, broken, rest = Notes(), Notes(fail_at=11), Notes()
    replays = [by_domain() for _ in range(3)]
    saving = {"save_strategy": "steps", "save_steps": 2, **more}
    trainer(tmp_path / "whole", whole, replays[0], **saving).train()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "broken", broken, replays[1], **saving).train()
    again = trainer(tmp_path / "broken", rest, replays[2], **saving)
    again.train(resume_from_checkpoint=True)
    done = len(whole.seen) - len(rest.seen)
    assert 0 < done < 11
    assert rest.seen == whole.seen[done:]
    assert replays[2].buffer.tape() == replays[0].buffer.tape()
    assert torch.equal(rest.layer.weight, whole.layer.weight)


@pytest.mark.parametrize("more", [{}, {"gradient_accumulation_steps": 2, "dataloader_num_workers": 2}], ids=str)
def test_a_tape_goes_on_where_it_stood(more: dict[str, int], tmp_path: Path) -> None:
    whole, broken, rest, tape = Notes(), Notes(fail_at=9), Notes(), planned()
    saving = {"save_strategy": "steps", "save_steps": 1, **more}
    trainer(tmp_path / "whole", whole, tape, **saving).train()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "broken", broken, tape, **saving).train()
    folder = tmp_path / "broken" / "checkpoint-3"
    trainer(tmp_path / "broken", rest, tape, **saving).train(resume_from_checkpoint=str(folder))
    assert rest.seen == [step.ids.tolist() for step in tape][3 * more.get("gradient_accumulation_steps", 1) :]
    assert torch.equal(rest.layer.weight, whole.layer.weight)
    with pytest.raises(ValueError, match="the checkpoint is of the tape"):
        trainer(tmp_path / "other", Notes(), planned(seed=4)).train(resume_from_checkpoint=str(folder))
    with pytest.raises(ValueError, match="this is not the state of live replay"):
        trainer(tmp_path / "other", Notes(), by_domain()).train(resume_from_checkpoint=str(folder))


def test_a_checkpoint_without_replay_is_refused(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 4}
    plain = examples().remove_columns(["domain", "text"])
    transformers.Trainer(model=Notes(), args=arguments(tmp_path, **saving), train_dataset=plain).train()
    for replay in (by_domain(), planned()):
        with pytest.raises(ValueError, match="written without replay, so there is no memory to go on with"):
            trainer(tmp_path, Notes(), replay).train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match=r"there is no checkpoint folder '.*nowhere' to go on from"):
        trainer(tmp_path, Notes(), by_domain()).train(resume_from_checkpoint=str(tmp_path / "nowhere"))
    (tmp_path / "checkpoint-4" / "reprise_replay.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"the state of replay in this checkpoint is damaged: .*reprise_replay\.pt"):
        trainer(tmp_path, Notes(), by_domain()).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))


class Texts:
    """Token rows of different lengths, padded to the longest of a batch."""

    def __init__(self, count: int = 40) -> None:
        random = torch.Generator().manual_seed(0)
        lengths = torch.randint(3, 10, (count,), generator=random).tolist()
        rows = [torch.randint(1, 50, (length,), generator=random).tolist() for length in lengths]
        columns = {"input_ids": rows, "labels": [place % 2 for place in range(count)]}
        self.data = datasets.Dataset.from_dict({**columns, "domain": [place * 4 // count for place in range(count)]})
        self.config = transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip

    def model(self) -> Any:
        torch.manual_seed(0)
        return transformers.BertForSequenceClassification(self.config)

    @staticmethod
    def collate(features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        width = max(len(one["input_ids"]) for one in features)
        rows = torch.tensor([one["input_ids"] + [0] * (width - len(one["input_ids"])) for one in features])
        labels = torch.tensor([one["labels"] for one in features])
        return {"input_ids": rows, "attention_mask": (rows > 0).long(), "labels": labels}


class Watched(ReplayTrainer):
    """Writes down what the model is given, and the loss that the step returns."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.given = {name: value.clone() for name, value in inputs.items()}
        with torch.no_grad():
            self.plain = model(**self.given)["loss"]
        return super().compute_loss(model, inputs, *args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        self.notes = [*getattr(self, "notes", []), (self.given, self.plain, loss)]
        return loss


def test_texts_of_different_lengths(tmp_path: Path) -> None:
    texts = Texts()
    replay = Replay(reprise.ReplayBuffer(12, seed=0), SIZE, key="domain", length=16)
    given = {"train_dataset": texts.data, "data_collator": texts.collate, "replay": replay}
    watched = Watched(model=texts.model(), args=arguments(tmp_path), **given)
    watched.train()
    rows = {tuple(row) for row in texts.data["input_ids"]}
    assert len(watched.notes) == 5
    for step, (given, plain, loss) in enumerate(watched.notes):
        assert len(given["input_ids"]) == BATCH + SIZE * (step > 0)
        assert (given["attention_mask"] == (given["input_ids"] > 0)).all()
        assert given["attention_mask"].any(0).all()  # no wider than the longest row
        assert {tuple(row[row > 0].tolist()) for row in given["input_ids"]} <= rows
        assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    assert replay.buffer.audit().violations == 0


class Summing(Notes):
    """A model that divides the sum of its losses by what the Trainer says, as language models do."""

    def forward(self, x: torch.Tensor, labels: torch.Tensor, num_items_in_batch: Any = None, **more: Any) -> Any:
        loss = nn.functional.cross_entropy(self.layer(x / COUNT), labels, reduction="sum")
        return {"loss": loss / (len(x) if num_items_in_batch is None else num_items_in_batch)}


@pytest.mark.parametrize("accumulated", [1, 2, 5])
def test_a_loss_is_the_mean_over_all_rows(accumulated: int, tmp_path: Path) -> None:
    args = arguments(tmp_path, gradient_accumulation_steps=accumulated)
    watched = Watched(model=Summing(), args=args, train_dataset=examples(), replay=by_domain())
    watched.train()
    for step, (given, plain, loss) in enumerate(watched.notes):
        assert len(given["x"]) == BATCH + SIZE * (step > 0)
        group = min(accumulated, 12 - step // accumulated * accumulated)
        assert loss.item() == pytest.approx(plain.item() / group, rel=1e-5)


def test_texts_without_a_length_are_refused(tmp_path: Path) -> None:
    texts = Texts()
    replay = Replay(reprise.ReplayBuffer(12, seed=0), SIZE, key="domain")
    with pytest.raises(ValueError, match=r"input_ids of an example has the shape .* need pad and length"):
        trainer(tmp_path, texts.model(), replay, texts.data, data_collator=texts.collate).train()
    short = Replay(reprise.ReplayBuffer(12, seed=0), SIZE, key="domain", length=4)
    with pytest.raises(ValueError, match="input_ids is 9 long, and length says that a stored row has 4"):
        trainer(tmp_path, texts.model(), short, texts.data, data_collator=texts.collate).train()
    assert len(short.buffer.tape()) == 0


def test_images_and_labels_of_a_plain_data_set(tmp_path: Path) -> None:
    class Images(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 48

        def __getitem__(self, place: int) -> dict[str, Any]:
            pixels = torch.full((3, 8, 8), place, dtype=torch.uint8)
            return {"pixel_values": pixels, "labels": place // 12, "place": place}

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(192, 4)
            self.seen: list[list[int]] = []

        def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
            self.seen.append(pixel_values[:, 0, 0, 0].tolist())
            return (nn.functional.cross_entropy(self.layer(pixel_values.flatten(1).float() / 48), labels),)

    labels = [place // 12 for place in range(48)]
    tape = reprise.plan(labels, reprise.Memory(20, seed=0), SIZE, batch=BATCH)
    for replay in (Replay(reprise.ReplayBuffer(20, seed=0), SIZE), tape):
        model = Small()
        trainer(tmp_path, model, replay, Images()).train()
        assert model.seen == [step.ids.tolist() for step in tape]


def test_examples_that_a_transform_makes(tmp_path: Path) -> None:
    """Images are decoded where they are read (`set_transform`): to number labels, no more than one of them is."""
    made: list[int] = []

    def transform(rows: dict[str, Any]) -> dict[str, Any]:
        made.extend(rows["place"])
        x = [torch.full((3,), float(place)) for place in rows["place"]]
        return {"x": x, "labels": rows["label"], "topic": rows["topic"]}

    columns = {"place": range(COUNT), "label": [place % 2 for place in range(COUNT)]}
    data = datasets.Dataset.from_dict({**columns, "topic": [DOMAINS[place * 6 // COUNT] for place in range(COUNT)]})
    data.set_transform(transform)
    tape = plan_column(data, "topic", reprise.Memory(30, seed=3), SIZE, batch=BATCH)
    assert tape == planned()
    assert made == [0]
    assert plan_column(data, "label", reprise.Memory(30), SIZE).labels.tolist() == [*columns["label"]]  # is renamed

    made.clear()
    model, live = Notes(), Replay(reprise.ReplayBuffer(30, seed=3), SIZE, key="topic")
    trainer(tmp_path, model, live, data, remove_unused_columns=False, data_collator=without_topic).train()
    assert made == [0, *range(COUNT)]
    assert model.seen == [step.ids.tolist() for step in tape]

    by_label = Replay(reprise.ReplayBuffer(30, seed=3), SIZE)  # by "labels", which only the transform makes
    trainer(tmp_path, Notes(), by_label, data, remove_unused_columns=False, data_collator=without_topic).train()
    assert by_label.buffer.classes.tolist() == [0, 1]


def without_topic(rows: list[dict[str, Any]]) -> Any:
    labels = torch.tensor([row["labels"] for row in rows])
    return {"x": torch.stack([row["x"] for row in rows]), "labels": labels}


def test_a_stream_and_one_buffer_for_many_domains(tmp_path: Path) -> None:
    model, buffer = Notes(), reprise.ReplayBuffer(30, seed=3)
    replay = Replay(buffer, SIZE, key="domain", classes=DOMAINS)
    stream = examples().to_iterable_dataset()
    trainer(tmp_path, model, replay, stream, max_steps=COUNT // BATCH).train()
    assert model.seen == [step.ids.tolist() for step in planned()]
    apart, other = Notes(), reprise.ReplayBuffer(30, seed=3)
    rows = examples()
    mine = trainer(tmp_path, apart, Replay(other, SIZE, key="domain"), rows)
    for domain in DOMAINS:
        mine.train_dataset = rows.filter(lambda row, domain=domain: row["domain"] == domain)
        mine.train()
    assert apart.seen == model.seen
    assert other.tape() == buffer.tape()


def test_names_keep_their_numbers_from_trainer_to_trainer(tmp_path: Path) -> None:
    """Each trainer would number the names of its own data set from 0: all domains would be one class."""
    parts = [examples().select(range(start, start + 16)) for start in range(0, COUNT, 16)]
    buffer = reprise.ReplayBuffer(30, seed=3)
    trainer(tmp_path, Notes(), Replay(buffer, SIZE, key="domain"), parts[0]).train()
    with pytest.raises(ValueError, match="give all names as classes"):
        trainer(tmp_path, Notes(), Replay(buffer, SIZE, key="domain"), parts[1]).train()
    buffer = reprise.ReplayBuffer(30, seed=3)
    for part in parts:
        trainer(tmp_path, Notes(), Replay(buffer, SIZE, key="domain", classes=DOMAINS), part).train()
    assert buffer.classes.tolist() == list(range(6))


def test_a_trainer_of_ones_own(tmp_path: Path) -> None:
    class Mine(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return model(**inputs)["loss"] * 2

    class Both(ReplayTrainerMixin, Mine):
        pass

    model = Notes()
    Both(model=model, args=arguments(tmp_path), train_dataset=examples(), replay=planned()).train()
    assert model.seen == [step.ids.tolist() for step in planned()]


@pytest.mark.parametrize(
    ("replay", "more", "words"),
    [
        (planned(), {"num_train_epochs": 3}, "a tape is one pass, and num_train_epochs is 3: set 1"),
        (planned(), {"max_steps": 13}, "max_steps is 13, and the tape has enough for 12 steps"),
        (planned(), {"ignore_data_skip": True}, "would begin the tape anew"),
        (planned(), {"accelerator_config": {"split_batches": True}}, "so split_batches has no place"),
        (planned(), {"accelerator_config": {"dispatch_batches": True}}, "so dispatch_batches has no place"),
        (planned(), {"auto_find_batch_size": True}, "auto_find_batch_size begins anew"),
        (by_domain(), {"auto_find_batch_size": True}, "auto_find_batch_size begins anew"),
    ],
)
def test_what_is_refused_at_once(replay: Any, more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        trainer(tmp_path, Notes(), replay, **more)


def test_what_is_refused_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"replay is a Replay, or a tape as reprise\.plan makes one, got ReplayBuffer"):
        trainer(tmp_path, Notes(), reprise.ReplayBuffer(4))
    with pytest.raises(ValueError, match="by the column 'topic', and the data set has x, labels, domain, text"):
        trainer(tmp_path, Notes(), Replay(reprise.ReplayBuffer(4), 2, key="topic")).train()
    with pytest.raises(ValueError, match="this tape is of 96 examples, and the data set has 48"):
        trainer(tmp_path, Notes(), planned(), examples(48)).train()
    stream = examples().to_iterable_dataset()
    with pytest.raises(ValueError, match="'domain' of an example is 'films', and there are no classes: give classes"):
        trainer(tmp_path, Notes(), by_domain(), stream, max_steps=2).train()
    with pytest.raises(ValueError, match="not from the loader of a ReplayTrainer"):
        trainer(tmp_path, Notes(), by_domain()).training_step(Notes(), {"x": torch.zeros(1, 3)})
