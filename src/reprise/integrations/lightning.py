"""Replay in Lightning: a callback that draws live, and a loader that plays a planned tape."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reprise.core.extras import NotInstalled, not_installed

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("lightning", "torch"):
        raise
    raise NotInstalled(not_installed("reprise.integrations.lightning needs lightning", "lightning")) from None

from torch import Tensor
from torch.utils.data import DataLoader

from reprise.buffer import ReplayBuffer
from reprise.integrations.live import LiveReplay, place
from reprise.loader import TapeBatchSampler, TapeDataset
from reprise.loader.sampler import step_of
from reprise.tape import Tape

__all__ = ["ReplayCallback", "TapeLoader"]


class ReplayCallback(Callback):
    """Live replay for any module: `training_step` is given the batch with `size` stored examples behind it.

        buffer = reprise.ReplayBuffer(capacity=2000, retrieval="rpr", seed=0)
        trainer = Trainer(max_epochs=1, callbacks=[ReplayCallback(buffer, size=8)])
        trainer.fit(model, loader)
        print(buffer.audit().violations)

    A draw is made when a batch starts, and what came in is stored when it has ended, so that an example is never
    replayed in the step that brings it. Other hooks and other callbacks see the batch as it came. A step of the memory
    is a batch, also where gradients of several are accumulated.

    `key` is what replay goes by: the name or place of a field of the batch, or a function of the batch; a whole number
    per example. It is the target where batches are (x, y).

    The state goes into Lightning's checkpoints. In several processes all hold the same memory, and each takes its part
    of every draw. `pad` and `length` are for texts that are padded batch by batch.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        size: int,
        *,
        key: int | str | Callable[[Any], Any] = 1,
        pad: Mapping[str, float] | None = None,
        length: int | None = None,
    ) -> None:
        self.key = key
        self._replay = LiveReplay(buffer, size, pad=pad, length=length)
        self._batch: Any = None
        self._restore: Callable[[], None] | None = None

    @property
    def buffer(self) -> ReplayBuffer:
        """The buffer that is drawn from."""
        return self._replay.buffer

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the batch of this step: how many examples came in, and how many stand behind them."""
        return self._replay.sizes

    @property
    def state_key(self) -> str:
        return "reprise.ReplayCallback"

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Have `training_step` be given the enlarged batch, until the fit has ended."""
        if stage != "fit":
            return
        step = pl_module.training_step
        if "dataloader_iter" in inspect.signature(step).parameters:
            raise TypeError("a training_step that takes dataloader_iter fetches batches itself: draw there, too")
        self._undo()
        before = vars(pl_module).get("training_step")

        @functools.wraps(step)
        def training_step(batch: Any, *args: Any, **kwargs: Any) -> Any:
            # None outside of a training batch: a validation_step may call training_step with a batch of its own.
            return step(batch if self._batch is None else self._batch, *args, **kwargs)

        def restore() -> None:
            if before is None:
                vars(pl_module).pop("training_step", None)
            else:
                pl_module.training_step = before

        pl_module.training_step = training_step
        self._restore = restore

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Draw."""
        self._batch = self._replay.enlarge(batch, self._keys(batch))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Store. Lightning calls callbacks that write checkpoints after all others."""
        self._batch = None
        self._replay.store()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave a batch unstored that was not trained: a module's `on_train_batch_start` may end an epoch with −1."""
        self._leave()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave what came in last unstored, as its step has failed, and the module as it was."""
        self._leave()
        self._undo()  # Lightning does not call teardown then

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the module its own `training_step` back."""
        self._undo()

    def state_dict(self) -> dict[str, Any]:
        """The buffer and its position in every draw."""
        return self._replay.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the draws that would have come."""
        self._replay.load_state_dict(state_dict)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Refuse to go on from a checkpoint that has no memory in it."""
        if trainer.training and self.state_key not in checkpoint.get("callbacks", {}):
            raise ValueError(
                "this checkpoint was written without a ReplayCallback, so there is no memory to go on with"
            )

    def _keys(self, batch: Any) -> Any:
        if callable(self.key):
            return self.key(batch)
        if isinstance(batch, Tensor):  # of which [1] is an example, not a field
            raise ValueError("a batch of one tensor has no field that replay could go by: key must be a function of it")
        try:
            return batch[self.key]
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"replay goes by field {self.key!r} of the batch, and a {type(batch).__name__} has none: key is the "
                "name or the place of a field, or a function of the batch"
            ) from None

    def _leave(self) -> None:
        self._batch = None
        self._replay.forget()

    def _undo(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_restore": None, "_batch": None}  # for processes that are spawned


class TapeLoader:
    """A planned tape as the training loader of a fit: batches are a step's examples, those that arrive first.

        tape = reprise.plan(dataset.targets, reprise.Memory(2000, seed=0), replay=8, batch=32)
        Trainer(max_epochs=1).fit(model, TapeLoader(dataset, tape, num_workers=4))

    Every process loads its part of every step, also where Lightning would put a sampler of its own into a loader: this
    is none of torch's loaders, so it is left alone. Its state goes into Lightning's checkpoints, and a fit that goes on
    begins with the next step.

    A tape is one pass, so `max_epochs` must be 1; what is seen more than once is planned more than once. `whole=False`
    gives `TapeBatch`es, in which what came and what is replayed are apart. Further arguments are those of torch's
    `DataLoader`.
    """

    def __init__(
        self, dataset: Any, tape: Tape, *, whole: bool = True, check_targets: bool = True, **loader: Any
    ) -> None:
        ours = {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "in_order"} & loader.keys()
        if ours:
            raise TypeError(f"a tape says which examples a batch has, so {', '.join(sorted(ours))} cannot be given")
        TapeDataset(dataset, tape, check_targets=check_targets)  # the two belong together
        self.dataset, self.tape, self.whole, self.options = dataset, tape, whole, loader
        self._next = 0

    def __len__(self) -> int:
        return len(self.tape)

    def __iter__(self) -> Iterator[Any]:
        """The steps from the next on; Lightning asks for an iterator more often than it uses one."""
        if self._next >= len(self.tape) > 0:
            raise RuntimeError(
                "this tape has been played, and it is one pass: give the trainer max_epochs=1, a TapeLoader to each "
                "fit, and plan what shall be seen more than once into the tape (reprise.streams.from_batches)"
            )
        for batch in self._loader(self._next):
            self._next += 1  # counted here, where the loop takes batches: workers are ahead of it
            yield batch

    def _loader(self, start: int) -> DataLoader[Any]:
        rank, world = place()
        part: dict[str, Any] = {"start": start, "rank": rank, "world_size": world, "check_targets": False}
        if self.whole:
            sampler = TapeBatchSampler(self.tape, **part)
            return DataLoader(self.dataset, batch_sampler=sampler, **self.options)
        options = dict(self.options)
        collate = {"collate_fn": options.pop("collate_fn")} if "collate_fn" in options else {}
        return DataLoader(TapeDataset(self.dataset, self.tape, **collate, **part), batch_size=None, **options)

    def state_dict(self) -> dict[str, Any]:
        """Which tape, and the step that comes next; the same in every process."""
        return {"version": 1, "tape": self.tape.hash, "step": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with that step; the state of another tape is refused."""
        self._next = step_of(state, self.tape)
