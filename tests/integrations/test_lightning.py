"""Live replay and planned tapes in Lightning's own fit."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import reprise

lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning: make integrations")
from reprise.integrations.lightning import ReplayCallback, TapeLoader  # noqa: E402

# Warnings of other libraries about each other are theirs; ours are errors here, too.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.filterwarnings("error:::reprise")]
COUNT, BATCH, SIZE = 96, 8, 4


class Numbered(Dataset[Any]):
    """Examples that say who they are; class after class."""

    def __init__(self, count: int = COUNT) -> None:
        self.targets = [place * 6 // count for place in range(count)]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(place)), self.targets[place]


class Notes(lightning.LightningModule):
    """A small model that writes down what its steps were given."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.layer, self.seen, self.fail_at = nn.Linear(3, 6), [], fail_at
        self.hooked: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if batch_idx == self.fail_at:
            raise KeyboardInterrupt
        x, y = batch
        self.seen.append((batch_idx, x[:, 0].long().tolist(), y.tolist()))
        return nn.functional.cross_entropy(self.layer(x / COUNT), y)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.hooked.append(len(batch[0]) if isinstance(batch, list) else 0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(tmp_path: Path, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    quiet |= {"enable_checkpointing": "callbacks" in options and any("Check" in repr(c) for c in options["callbacks"])}
    return lightning.Trainer(**{"max_epochs": 1, "default_root_dir": tmp_path, **quiet, **options})


def saving(folder: Path, every: int = 1) -> Any:
    from lightning.pytorch.callbacks import ModelCheckpoint

    return ModelCheckpoint(folder, "{step}", every_n_train_steps=every, save_top_k=-1)


def expected(buffer: reprise.ReplayBuffer, dataset: Numbered) -> list[list[int]]:
    """The batches of a plain loop: draw, step, store."""
    rows = []
    for start in range(0, len(dataset), BATCH):
        ids = torch.arange(start, min(start + BATCH, len(dataset)))
        drawn = buffer.draw(SIZE)
        rows.append([*ids.tolist(), *(drawn.x[:, 0].long().tolist() if drawn else [])])
        buffer.store(torch.stack([dataset[int(place)][0] for place in ids]), [dataset.targets[place] for place in ids])
    return rows


def test_live_replay_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    dataset, plain = Numbered(), reprise.ReplayBuffer(30, seed=3)
    model, callback = Notes(), ReplayCallback(reprise.ReplayBuffer(30, seed=3), SIZE)
    trainer(tmp_path, callbacks=[callback]).fit(model, DataLoader(dataset, BATCH))
    assert [ids for _, ids, _ in model.seen] == expected(plain, dataset)
    assert all([dataset.targets[place] for place in ids] == labels for _, ids, labels in model.seen)
    assert callback.buffer.tape() == plain.tape()
    assert callback.buffer.audit().violations == 0
    assert callback.sizes == (BATCH, SIZE)
    assert set(model.hooked) == {BATCH}  # other hooks see the batch as it came
    assert "training_step" not in vars(model)
    tape = reprise.plan(dataset.targets, reprise.Memory(30, seed=3), SIZE, batch=BATCH)
    assert callback.buffer.tape().replay.tolist() == tape.replay.tolist()


def test_workers_do_not_draw_ahead(tmp_path: Path) -> None:
    plain, buffer = reprise.ReplayBuffer(30, seed=3), reprise.ReplayBuffer(30, seed=3)
    loader = DataLoader(Numbered(), BATCH, num_workers=2, prefetch_factor=3)
    trainer(tmp_path, callbacks=[ReplayCallback(buffer, SIZE)]).fit(Notes(), loader)
    expected(plain, Numbered())
    assert buffer.tape() == plain.tape()


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_fit_that_goes_on_draws_what_it_would_have_drawn(stop: int, tmp_path: Path) -> None:
    def fit(model: Notes, buffer: reprise.ReplayBuffer, **more: Any) -> None:
        callbacks = [saving(tmp_path), ReplayCallback(buffer, SIZE)]
        steps = more.pop("max_steps", -1)
        loader = Stateful(DataLoader(Numbered(), BATCH))
        trainer(tmp_path, callbacks=callbacks, max_steps=steps).fit(model, loader, **more)

    whole, first, second = Notes(), Notes(), Notes()
    first.load_state_dict(whole.state_dict())
    buffers = [reprise.ReplayBuffer(30, seed=1) for _ in range(3)]
    fit(whole, buffers[0])
    fit(first, buffers[1], max_steps=stop)
    fit(second, buffers[2], ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert first.seen + second.seen == whole.seen
    assert buffers[2].tape() == buffers[0].tape()
    assert all(torch.equal(one, other) for one, other in zip(second.parameters(), whole.parameters(), strict=True))


class Stateful:
    """A loader whose state Lightning keeps: it begins where it stood."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.taken = loader, 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        for place, batch in enumerate(self.loader):
            if place >= self.taken:
                self.taken += 1
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.taken = state["taken"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("whole", [True, False])
def test_a_tape_is_played(workers: int, whole: bool, tmp_path: Path) -> None:
    class Parts(Notes):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            if not whole:
                assert batch.step == tape[batch_idx]
                batch = batch.whole
            return super().training_step(batch, batch_idx)

    dataset, model = Numbered(), Parts()
    tape = reprise.plan(dataset.targets, reprise.Memory(30, seed=0), SIZE, batch=BATCH)
    trainer(tmp_path).fit(model, TapeLoader(dataset, tape, whole=whole, num_workers=workers))
    assert [ids for _, ids, _ in model.seen] == [step.ids.tolist() for step in tape]


@pytest.mark.parametrize("stop", [1, 7, 11])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_tape_goes_on_where_it_stood(stop: int, workers: int, tmp_path: Path) -> None:
    dataset = Numbered()
    tape = reprise.plan(dataset.targets, reprise.Memory(30, seed=0), SIZE, batch=BATCH)
    first, second = Notes(), Notes()

    def loader(tape: reprise.Tape = tape) -> TapeLoader:
        return TapeLoader(dataset, tape, num_workers=workers)

    trainer(tmp_path, callbacks=[saving(tmp_path)], max_steps=stop).fit(first, loader())
    checkpoint = tmp_path / f"step={stop}.ckpt"
    trainer(tmp_path).fit(second, loader(), ckpt_path=checkpoint)
    assert [ids for _, ids, _ in first.seen + second.seen] == [step.ids.tolist() for step in tape]
    assert [number for number, _, _ in second.seen] == list(range(stop, len(tape)))
    if not workers:
        other = reprise.plan(dataset.targets, reprise.Memory(30, seed=1), SIZE, batch=BATCH)
        with pytest.raises(ValueError, match="the state is of the tape"):
            trainer(tmp_path).fit(Notes(), loader(other), ckpt_path=checkpoint)


def test_a_tape_is_one_pass(tmp_path: Path) -> None:
    tape = reprise.plan(Numbered().targets, reprise.Memory(30), SIZE, batch=BATCH)
    with pytest.raises(RuntimeError, match=r"this tape has been played, and it is one pass: .*max_epochs=1"):
        trainer(tmp_path, max_epochs=2).fit(Notes(), TapeLoader(Numbered(), tape))
    with pytest.raises(TypeError, match="a tape says which examples a batch has, so batch_size, shuffle cannot"):
        TapeLoader(Numbered(), tape, batch_size=3, shuffle=True)
    with pytest.raises(ValueError, match="this tape is of 96 examples, and the data set has 60"):
        TapeLoader(Numbered(60), tape)


def test_accumulated_gradients_are_steps_of_the_memory(tmp_path: Path) -> None:
    plain, buffer = reprise.ReplayBuffer(30, seed=3), reprise.ReplayBuffer(30, seed=3)
    trainer(tmp_path, callbacks=[ReplayCallback(buffer, SIZE)], accumulate_grad_batches=3).fit(
        Notes(), DataLoader(Numbered(), BATCH)
    )
    expected(plain, Numbered())
    assert buffer.tape() == plain.tape()


def test_a_closure_that_runs_twice_draws_once(tmp_path: Path) -> None:
    class Twice(Notes):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.LBFGS(self.parameters(), max_iter=2, tolerance_change=0, tolerance_grad=0)

    plain, buffer, model = reprise.ReplayBuffer(30, seed=3), reprise.ReplayBuffer(30, seed=3), Twice()
    trainer(tmp_path, callbacks=[ReplayCallback(buffer, SIZE)]).fit(model, DataLoader(Numbered(), BATCH))
    assert len(model.seen) > COUNT // BATCH
    expected(plain, Numbered())
    assert buffer.tape() == plain.tape()


def test_a_validation_that_calls_the_training_step_sees_its_own_batch(tmp_path: Path) -> None:
    class Shared(Notes):
        def validation_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.training_step(batch, batch_idx)

    model, buffer = Shared(), reprise.ReplayBuffer(30, seed=3)
    dataset = Numbered()
    fit = trainer(tmp_path, callbacks=[ReplayCallback(buffer, SIZE)], val_check_interval=4)
    fit.fit(model, DataLoader(dataset, batch_size=BATCH), DataLoader(dataset, batch_size=32))
    steps = COUNT // BATCH
    assert [len(ids) for _, ids, _ in model.seen].count(32) == 2 + 3 * COUNT // 32  # two of the check at the beginning
    assert len(buffer.tape()) == steps
    assert len(model.seen) == steps + 2 + 3 * COUNT // 32


def test_a_domain_by_name_and_one_buffer_for_many_fits(tmp_path: Path) -> None:
    class Named(Notes):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            assert set(batch["domain"].tolist()) <= set(range(3))
            return super().training_step((batch["x"], batch["y"]), batch_idx)

    buffer, model = reprise.ReplayBuffer(30, seed=3), Named()
    for domain in range(3):
        x = torch.arange(40.0)[:, None].expand(40, 3)
        rows = [{"x": one, "y": int(one[0]) % 2, "domain": domain} for one in x]
        callback = ReplayCallback(buffer, SIZE, key="domain")
        trainer(tmp_path, callbacks=[callback]).fit(model, DataLoader(rows, BATCH))
    assert buffer.classes.tolist() == [0, 1, 2]
    assert buffer.audit().violations == 0
    assert len(buffer.tape()) == 15


def test_what_is_refused(tmp_path: Path) -> None:
    buffer = reprise.ReplayBuffer(30)
    loader = DataLoader(TensorDataset(torch.zeros(16, 3)), BATCH)
    with pytest.raises(ValueError, match="replay goes by field 1 of the batch, and a list has none"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4)]).fit(Notes(), loader)
    with pytest.raises(ValueError, match="one whole number per example, and the batch has 8 of them; got float32"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4, key=0)]).fit(Notes(), loader)
    with pytest.raises(TypeError, match=r"keeps tensors with a row per example, and batch\[1\] is a (list|tuple)"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4, key=lambda batch: [0] * 8)]).fit(
            Notes(), DataLoader([(torch.zeros(3), "cat")] * 16, BATCH)
        )
    with pytest.raises(RuntimeError, match="more than one stateful callback of type `ReplayCallback`"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4), ReplayCallback(buffer, 4)]).fit(Notes(), loader)
    with pytest.raises(TypeError, match=r"drawn from a reprise\.ReplayBuffer, got Memory"):
        ReplayCallback(reprise.Memory(4), 4)
    with pytest.raises(TypeError, match=r"one whole number per example, got \['cat', "):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4, key=lambda batch: ["cat"] * 8)]).fit(Notes(), loader)
    with pytest.raises(ValueError, match="a batch of one tensor has no field that replay could go by"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4)]).fit(Notes(), DataLoader(torch.ones(16, 8).long(), 8))
    assert not len(buffer)
    assert len(buffer.tape()) == 0

    class Fetching(Notes):
        def training_step(self, dataloader_iter: Any) -> None: ...

    with pytest.raises(TypeError, match="takes dataloader_iter fetches batches itself"):
        trainer(tmp_path, callbacks=[ReplayCallback(buffer, 4)]).fit(Fetching(), loader)


def test_a_checkpoint_without_a_memory_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, callbacks=[saving(tmp_path)], max_steps=3).fit(Notes(), DataLoader(Numbered(), BATCH))
    callback = ReplayCallback(reprise.ReplayBuffer(30), SIZE)
    with pytest.raises(ValueError, match="this checkpoint was written without a ReplayCallback"):
        trainer(tmp_path, callbacks=[callback]).fit(
            Notes(), DataLoader(Numbered(), BATCH), ckpt_path=tmp_path / "step=3.ckpt"
        )


def test_a_step_that_failed_is_not_stored(tmp_path: Path) -> None:
    buffer = reprise.ReplayBuffer(30)
    callback, model = ReplayCallback(buffer, SIZE), Notes(fail_at=3)
    with pytest.raises(BaseException):  # noqa: B017 - Lightning leaves by SystemExit or the interrupt itself
        trainer(tmp_path, callbacks=[callback]).fit(model, DataLoader(Numbered(), BATCH))
    assert len(buffer) == 24
    assert "training_step" not in vars(model)
    callback.state_dict()
    callback.on_train_batch_start(None, None, (torch.zeros(2, 3), torch.zeros(2).long()), 0)
    with pytest.raises(RuntimeError, match="a checkpoint cannot be made within a step"):
        callback.state_dict()


def test_an_epoch_that_the_module_ends_early(tmp_path: Path) -> None:
    """The batch it refuses was drawn for, and is neither trained nor stored; a checkpoint can be made after it."""

    class Early(Notes):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if batch_idx == 5 else None

    from lightning.pytorch.callbacks import ModelCheckpoint

    buffer, model = reprise.ReplayBuffer(60, seed=3), Early()
    each = ModelCheckpoint(tmp_path, "{epoch}", every_n_epochs=1, save_top_k=-1, save_on_train_epoch_end=True)
    trainer(tmp_path, callbacks=[ReplayCallback(buffer, SIZE), each], max_epochs=2).fit(
        model, DataLoader(Numbered(), BATCH)
    )
    assert (tmp_path / "epoch=0.ckpt").exists()
    assert [len(ids) for _, ids, _ in model.seen] == [BATCH] + [BATCH + SIZE] * 9
    assert len(buffer.tape().labels) == 10 * BATCH


def test_the_step_keeps_its_signature(tmp_path: Path) -> None:
    class Short(Notes):
        def training_step(self, batch: Any) -> torch.Tensor:
            assert list(inspect.signature(self.training_step).parameters) == ["batch"]
            return super().training_step(batch, 0)

    model = Short()
    trainer(tmp_path, callbacks=[ReplayCallback(reprise.ReplayBuffer(30), SIZE)]).fit(
        model, DataLoader(Numbered(), BATCH)
    )
    assert [len(ids) for _, ids, _ in model.seen] == [BATCH] + [BATCH + SIZE] * 11
