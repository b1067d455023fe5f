"""Replay in the Trainer of transformers: drawn live in its training step, or planned and played by its loader."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reprise.core.extras import NotInstalled, not_installed

try:
    import torch
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("transformers", "torch"):
        raise
    raise NotInstalled(not_installed("reprise.integrations.huggingface needs transformers", "huggingface")) from None

from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader

from reprise.buffer import ReplayBuffer
from reprise.core.files import write_atomic
from reprise.integrations.live import LiveReplay
from reprise.loader import TapeBatchSampler
from reprise.memory import Memory
from reprise.streams.in_order import numbered
from reprise.tape import Tape, plan

__all__ = ["Replay", "ReplayTrainer", "ReplayTrainerMixin", "plan_column"]
FILE = "reprise_replay.pt"  # in every checkpoint folder
_KEY = "reprise_key"
_PADS = {"attention_mask": 0, "token_type_ids": 0, "labels": -100}


@dataclass(frozen=True)
class Replay:
    """What a `ReplayTrainer` draws live: `size` examples a step from the buffer, which goes by the column `key`.

    The column may hold whole numbers or strings; strings are numbered in order of arrival, or as `classes` has them,
    which an `IterableDataset` needs. Texts that are padded batch by batch need `length`, the room for one; `pad` says
    by what fields are filled up, beyond what the tokenizer says.
    """

    buffer: ReplayBuffer
    size: int
    key: str = "labels"
    classes: Sequence[Hashable] | None = None
    length: int | None = None
    pad: Mapping[str, float] | None = None


def plan_column(
    dataset: Any, column: str, memory: Memory, replay: int = 8, *, batch: int = 32, boundaries: ArrayLike | None = None
) -> Tape:
    """A tape of a data set in its order, whose replay goes by a column: whole numbers or strings.

    As `reprise.plan` with the column's values. Shuffle the data set before, where it shall be: its rows are numbered as
    they stand.
    """
    return plan(_values(dataset, column), memory, replay, batch=batch, boundaries=boundaries)


class ReplayTrainerMixin:
    """Gives a Trainer replay, by one argument: `replay=Replay(buffer, …)` to draw live, or `replay=tape`.

    Stands before the Trainer among the bases: `class Mine(ReplayTrainerMixin, MyTrainer)`. `ReplayTrainer` is that with
    transformers' own.

    Live, `training_step` is given the batch with the drawn examples behind it. The draw comes before the step, and what
    came in is stored after it. A step of the memory is a call of `training_step`, also where gradients are accumulated.

    With a tape, the loader plays its steps, in every process its part of each.

    Either way the state is in every checkpoint folder, and `train(resume_from_checkpoint=…)` goes on from there.
    """

    replay: Replay | Tape
    _live: LiveReplay | None = None

    def __init__(self, *args: Any, replay: Replay | Tape, **kwargs: Any) -> None:
        if not isinstance(replay, (Replay, Tape)):
            raise TypeError(f"replay is a Replay, or a tape as reprise.plan makes one, got {type(replay).__name__}")
        super().__init__(*args, **kwargs)
        me: Any = self
        self.replay = replay
        self._classes: list[Hashable] = []
        if isinstance(replay, Replay):
            self._classes = list(replay.classes or [])
            pad = None if replay.length is None else {**_PADS, "input_ids": _pad_token(me), **(replay.pad or {})}
            if replay.pad is not None and pad is None:
                raise ValueError("pad is for texts that are padded batch by batch, and they need length, too")
            # Accelerate deals whole batches out, so the rows of processes follow each other.
            self._live = LiveReplay(replay.buffer, replay.size, pad=pad, length=replay.length, interleaved=False)
        _refuse(me.args, replay)
        me.add_callback(_Saver(self))

    def get_train_dataloader(self) -> Any:
        """The loader of the tape; or the Trainer's own, whose batches also hold what replay goes by."""
        me: Any = self
        if me.train_dataset is None:
            raise ValueError("training with replay needs a train_dataset")
        columns = _columns(me) if me.args.remove_unused_columns else None
        if isinstance(self.replay, Tape):
            _refuse(me.args, self.replay)
            return self._tape_loader(self.replay, columns)
        key = self.replay.key
        numbers = self._numbers(me.train_dataset, key)
        collate = partial(_collate, me.data_collator, columns, key, numbers)
        kept = None if columns is None else {*columns, key}
        with _replaced(me.args, remove_unused_columns=False):
            trimmed = _trimmed(me.train_dataset, kept)
            with _replaced(me, data_collator=collate, train_dataset=trimmed):
                return super().get_train_dataloader()  # type: ignore[misc]

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None, **more: Any) -> Tensor:
        """The Trainer's own step, with what was drawn behind what came in."""
        step: Callable[..., Tensor] = partial(super().training_step, model)  # type: ignore[misc]
        if self._live is None:
            return step(inputs, num_items_in_batch, **more)
        if _KEY not in inputs:
            raise ValueError("this batch is not from the loader of a ReplayTrainer: it has not what replay goes by")
        keys = inputs.pop(_KEY)
        try:
            enlarged = self._live.enlarge(inputs, keys)
            if num_items_in_batch is not None and enlarged is not inputs:
                # The loss is a sum over labels divided by this: a batch keeps its weight among those accumulated.
                came, all_of_it = (_items(self, batch) for batch in (inputs, enlarged))
                num_items_in_batch = num_items_in_batch * (all_of_it / came.clamp(min=1))
            loss = step(enlarged, num_items_in_batch, **more)
        except BaseException:
            self._live.forget()
            raise
        self._live.store()
        return loss

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's own; a run that goes on has its memory back before the first step."""
        me: Any = self
        if resume_from_checkpoint:
            folder = resume_from_checkpoint
            if folder is True and (folder := get_last_checkpoint(me.args.output_dir)) is None:
                raise ValueError(f"No valid checkpoint found in output directory ({me.args.output_dir})")
            _refuse_dispatched(me.args, me.train_dataset)
            self.load_replay(Path(str(folder)) / FILE)
        return super().train(resume_from_checkpoint, *args, **kwargs)  # type: ignore[misc]

    def save_replay(self, file: Path) -> None:
        """Write the state of replay; done for every checkpoint."""
        state = {"version": 1, "classes": list(self._classes)}
        state |= {"tape": self.replay.hash} if isinstance(self.replay, Tape) else {"live": self._live_state()}
        write_atomic(file, lambda out: torch.save(state, out))

    def load_replay(self, file: Path) -> None:
        """Go on from a state; one of another tape, or a checkpoint that has none, is refused."""
        if not file.parent.is_dir():
            raise ValueError(f"there is no checkpoint folder {str(file.parent)!r} to go on from")
        if not file.exists():
            raise ValueError(f"this checkpoint was written without replay, so there is no memory to go on with: {file}")
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, EOFError, RuntimeError, ValueError):
            raise ValueError(f"the state of replay in this checkpoint is damaged: {file}") from None
        mine = "tape" if isinstance(self.replay, Tape) else "live"
        if not isinstance(state, dict) or state.get("version") != 1 or mine not in state:
            raise ValueError(f"this is not the state of {'a tape' if mine == 'tape' else 'live replay'}: {file}")
        if isinstance(self.replay, Tape):
            if state["tape"] != self.replay.hash:
                theirs, ours = state["tape"][:12], self.replay.hash[:12]
                raise ValueError(f"the checkpoint is of the tape {theirs}…, and this is {ours}…")
            return
        assert self._live is not None
        self._live.load_state_dict(state["live"])
        self._classes = list(state["classes"])

    def _live_state(self) -> dict[str, Any]:
        assert self._live is not None
        return self._live.state_dict()

    def _tape_loader(self, tape: Tape, columns: list[str] | None) -> DataLoader[Any]:
        """A loader that Accelerate is not asked to prepare: it would give every process other steps."""
        me: Any = self
        args, dataset = me.args, _trimmed(me.train_dataset, columns)
        sampler = TapeBatchSampler(tape, dataset, rank=args.process_index, world_size=args.world_size)
        return DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=partial(_collate, me.data_collator, columns, None, None),
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )

    def _numbers(self, dataset: Any, key: str) -> dict[Hashable, int] | None:
        """The number of every value that replay goes by; None where they are numbers already."""
        names = getattr(dataset, "column_names", None)
        made = key not in (names or ()) and _transformed(dataset)  # seen in examples only, as that of a stream
        if names is not None and hasattr(dataset, "__len__") and not made:
            if key not in names:
                raise ValueError(
                    f"replay goes by the column {key!r}, and the data set has {', '.join(names)}: "
                    "Replay(…, key=…) names another"
                )
            _, known, anew = numbered(_values(dataset, key), self._classes or None)
            if anew and not self._classes and self._live is not None and len(self._live.buffer):
                raise ValueError(
                    f"this buffer holds examples that another trainer numbered, and {key!r} has names, which would be "
                    "numbered from 0 again: give all names as classes to every Replay, or go on with that trainer"
                )
            if anew or self._classes:
                self._classes = list(known)
        return {name: number for number, name in enumerate(self._classes)} or None


class ReplayTrainer(ReplayTrainerMixin, Trainer):
    """The Trainer of transformers with replay: `ReplayTrainer(model, args, train_dataset=…, replay=…)`."""


class _Saver(TrainerCallback):
    """Writes the state of replay into a checkpoint folder as soon as there is one."""

    def __init__(self, trainer: ReplayTrainerMixin) -> None:
        self.trainer = trainer

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if args.should_save:
            if not folder.is_dir():
                raise RuntimeError(f"the state of replay belongs into a checkpoint folder, and there is no {folder}")
            self.trainer.save_replay(folder / FILE)


def _refuse(args: Any, replay: Replay | Tape) -> None:
    """What would silently train on something else than the draws or the tape say."""
    if args.auto_find_batch_size:
        raise ValueError("auto_find_batch_size begins anew with other batches, and replay has gone on: leave it False")
    if getattr(args, "enable_jit_checkpoint", False):
        raise ValueError("enable_jit_checkpoint writes checkpoints of which replay is not told: leave it False")
    if isinstance(replay, Replay):
        return
    if args.max_steps < 0 and args.num_train_epochs != 1:
        raise ValueError(
            f"a tape is one pass, and num_train_epochs is {args.num_train_epochs:g}: set 1, and plan what shall be "
            "seen more than once into the tape (reprise.streams.from_batches)"
        )
    steps = -(-len(replay) // args.gradient_accumulation_steps)
    if args.max_steps > steps:
        raise ValueError(f"max_steps is {args.max_steps}, and the tape has enough for {steps} steps of the optimizer")
    if args.ignore_data_skip:
        raise ValueError("ignore_data_skip would begin the tape anew after a checkpoint: leave it False")
    config = args.accelerator_config
    for name in ("split_batches", "dispatch_batches"):
        if getattr(config, name, None):
            raise ValueError(f"a tape gives every process its part of a step, so {name} has no place: leave it unset")


def _refuse_dispatched(args: Any, dataset: Any) -> None:
    """Accelerate reads a batch per process for each step then, and after a checkpoint leaves out one for each."""
    if args.accelerator_config.dispatch_batches and args.world_size > 1 and hasattr(dataset, "__len__"):
        raise ValueError(
            "with dispatch_batches a Trainer of several processes goes on at an earlier example than it stood at, so "
            "that examples come twice: leave it unset to go on from a checkpoint"
        )


def _columns(trainer: Any) -> list[str]:
    """The columns that the model takes, by its signature, and those that become labels."""
    model = trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model
    return [*inspect.signature(model.forward).parameters, "label", "label_ids", *(trainer.label_names or [])]


def _transformed(dataset: Any) -> bool:
    """Whether examples are made by a function of the user's when they are read (`set_transform`)."""
    form = getattr(dataset, "format", None)
    return isinstance(form, dict) and form.get("type") == "custom"


def _values(dataset: Any, column: str) -> list[Any]:
    """All values of a column: as stored, where a transform leaves it alone, for that would make every example whole."""
    if _transformed(dataset) and len(dataset) and column in dataset.column_names:
        stored, first = dataset.with_format(None).select_columns([column]), dataset[0]
        if column not in first or first[column] == stored[0][column]:
            dataset = stored
    return list(dataset[column])


def _trimmed(dataset: Any, columns: Iterable[str] | None) -> Any:
    """A data set of `datasets` without columns that nobody asks for, so that they are never read."""
    if columns is None or not hasattr(dataset, "remove_columns") or not getattr(dataset, "column_names", None):
        return dataset
    ignored = [name for name in dataset.column_names if name not in set(columns)]
    return dataset.remove_columns(ignored) if ignored else dataset


def _collate(
    collate: Callable[[list[Any]], Any],
    columns: list[str] | None,
    key: str | None,
    numbers: Mapping[Hashable, int] | None,
    features: list[Any],
) -> Any:
    """A batch of features as the Trainer's own collator makes it, with the number that replay goes by for each."""
    if key is not None and (not isinstance(features[0], Mapping) or key not in features[0]):
        raise ValueError(f"replay goes by the column {key!r}, and an example has none: {features[0]!r:.80}")
    keys = [] if key is None else [_number(feature[key], key, numbers) for feature in features]
    if columns is not None and isinstance(features[0], Mapping):
        features = [{name: value for name, value in one.items() if name in columns} for one in features]
    elif key is not None and numbers is not None:
        features = [{name: value for name, value in one.items() if name != key} for one in features]
    batch = collate(features)
    if key is not None:
        batch[_KEY] = torch.tensor(keys)
    return batch


def _number(value: Any, key: str, numbers: Mapping[Hashable, int] | None) -> int:
    plain = value.tolist() if hasattr(value, "tolist") else value
    if numbers is None and isinstance(plain, int):
        return int(plain)
    if numbers is None or plain not in numbers:
        known = "there are no classes" if numbers is None else f"classes are {', '.join(map(str, list(numbers)[:8]))}"
        raise ValueError(f"{key!r} of an example is {plain!r}, and {known}: give classes to Replay")
    return numbers[plain]


def _items(trainer: Any, batch: Mapping[str, Any]) -> Tensor:
    """How many labels the loss of a batch is over, as the Trainer counts them."""
    shifted = getattr(trainer, "_loss_shifts_labels", False) and "shift_labels" not in batch
    labels: Tensor = batch["shift_labels"] if "shift_labels" in batch else batch["labels"]
    return (labels[..., 1:] if shifted else labels).ne(-100).sum()


def _pad_token(trainer: Any) -> int:
    tokenizer, config = getattr(trainer, "processing_class", None), getattr(trainer.model, "config", None)
    for owner in (tokenizer, config):
        if isinstance(token := getattr(owner, "pad_token_id", None), int):
            return token
    return 0


@contextmanager
def _replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Within it, attributes have other values."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
