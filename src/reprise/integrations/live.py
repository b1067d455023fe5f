"""Batches of any structure with live replay: what a buffer draws stands behind what came in, in one process or many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor, distributed

from reprise.buffer import ReplayBuffer
from reprise.core.arguments import as_int
from reprise.loader.nested import leaves, mapped


class LiveReplay:
    """Enlarges a batch by a draw before the step, and stores what came in after it.

    A batch is a tensor, or dicts, tuples and lists of tensors, with a row per example. In the buffer, `x` is a dict of
    its fields by their names or places, and `y` is what replay goes by.

    Where texts are padded to the longest of their batch, `pad` says by which number in which field, and `length` how
    much room a stored example has; a batch that is enlarged is as wide as its longest row.

    Several processes hold the same memory. Each takes every `world_size`-th example of a draw, and before anything is
    stored, all have the rows of all. `interleaved` says in which order: row by row, as torch's `DistributedSampler`
    deals examples out, or process by process.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        size: int,
        *,
        pad: Mapping[str, float] | None = None,
        length: int | None = None,
        interleaved: bool = True,
    ) -> None:
        if not isinstance(buffer, ReplayBuffer):
            raise TypeError(f"replay is drawn from a reprise.ReplayBuffer, got {type(buffer).__name__}")
        if (pad is None) != (length is None):
            raise ValueError("pad and length go together: which fields are padded by what, and how long a row may be")
        self.buffer, self.size = buffer, as_int(size, "the replay size", 0)
        self.pad = {} if pad is None else dict(pad)
        self.length = None if length is None else as_int(length, "length", 1)
        self.interleaved = interleaved
        self.sizes = (0, 0)  # of the batch of this step: what came in, what was drawn
        self._came: tuple[dict[str, Tensor], Tensor] | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}  # of one stored example

    def enlarge(self, batch: Any, keys: Any) -> Any:
        """The batch with this process's part of a draw behind it; `keys` has a whole number for each row."""
        fields = _fields(batch)
        rows = len(next(iter(fields.values())))
        try:
            labels = torch.as_tensor(keys)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"replay goes by one whole number per example, got {keys!r:.60}: number names yourself"
            ) from None
        if labels.shape != (rows,) or labels.dtype.is_floating_point or labels.dtype.is_complex:
            raise ValueError(
                f"replay goes by one whole number per example, and the batch has {rows} of them; got "
                f"{str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
            )
        self._check(fields)  # before anything is drawn
        rank, world = place()
        draw = self.buffer.draw(self.size)
        self._came = (fields, labels)
        drawn = {name: draw.x[name][rank::world] for name in fields} if draw else {}
        count = len(next(iter(drawn.values()))) if drawn else 0
        self.sizes = (rows, count)
        if not count:
            return batch
        joined = iter(self._joined(fields, drawn))
        return mapped(lambda _: next(joined), batch)

    def store(self) -> None:
        """Offer what came in with the last batch to the buffer; in every process what came in with all."""
        if self._came is None:
            return
        fields, labels = self._came
        self._came = None
        wide = {name: self._widened(name, value) for name, value in fields.items()}
        first, *_ = wide.values()
        *values, labels = gathered([*wide.values(), labels.to(first.device)], self.interleaved)
        stored = (value.to(self.buffer.device) for value in values)
        self.buffer.store(dict(zip(wide, stored, strict=True)), labels)

    def forget(self) -> None:
        """Leave the last batch unstored: its step has failed."""
        self._came = None

    def state_dict(self) -> dict[str, Any]:
        """The state of the buffer; between steps only, as a draw belongs to what is stored after it."""
        if self._came is not None:
            raise RuntimeError("a checkpoint cannot be made within a step: its draw is made, and nothing stored yet")
        return {"version": 1, "buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there, with the draws that would have come."""
        if not isinstance(state, Mapping) or state.get("version") != 1 or "buffer" not in state:
            raise ValueError(f"this is not the state of live replay: {state!r:.80}")
        self.buffer.load_state_dict(state["buffer"])
        self._came, self._shapes = None, {}

    def _check(self, fields: Mapping[str, Tensor]) -> None:
        """Refuse fields that do not fit what is stored."""
        if not self._shapes and len(self.buffer):
            if self.buffer.keys is not None:
                raise ValueError(
                    "this buffer goes by keys, and replay here goes by whole numbers: give it a new buffer"
                )
            held: Any = self.buffer.at([0]).x
            if not isinstance(held, dict) or held.keys() != fields.keys():
                raise ValueError(f"this buffer holds examples of another kind: batches have {', '.join(fields)}")
            self._shapes = {name: tuple(value.shape[1:]) for name, value in held.items()}
        shapes = {name: tuple(self._widened(name, value[:1]).shape[1:]) for name, value in fields.items()}
        for name, shape in shapes.items():
            if self._shapes and self._shapes.get(name) != shape:
                raise ValueError(
                    f"field {name} of an example has the shape {shape}, and {self._shapes.get(name)} in the first "
                    "batch; texts that are padded batch by batch need pad and length"
                )
        self._shapes = shapes

    def _widened(self, name: str, value: Tensor) -> Tensor:
        """A field as it is stored: if it is padded, to the full length."""
        if name not in self.pad or value.dim() < 2 or self.length is None:
            return value
        if value.shape[1] > self.length:
            raise ValueError(f"{name} is {value.shape[1]} long, and length says that a stored row has {self.length}")
        return _filled(value, self.length, self.pad[name])

    def _joined(self, came: Mapping[str, Tensor], drawn: Mapping[str, Tensor]) -> list[Tensor]:
        """Every field with the drawn rows behind those that came, padded ones as wide as the longest row of all."""
        padded = [name for name, value in came.items() if name in self.pad and value.dim() > 1]
        width = max((came[name].shape[1] for name in padded), default=0)
        for name in padded:
            used = torch.nonzero(drawn[name] != self.pad[name])
            width = max(width, int(used[:, 1].max()) + 1 if len(used) else 0)
        whole = []
        for name, value in came.items():
            rows = drawn[name].to(value.device)
            if name in padded:
                value, rows = (_filled(part[:, :width], width, self.pad[name]) for part in (value, rows))
            whole.append(torch.cat([value, rows]))
        return whole


def place() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def gathered(values: list[Tensor], interleaved: bool) -> list[Tensor]:
    """The rows of all processes, the same in each: row by row, or process by process."""
    _, world = place()
    if world == 1:
        return values
    rows, device = len(values[0]), values[0].device
    content = torch.cat([_bytes(value) for value in values], dim=1)
    mine = torch.tensor([rows, content.shape[1]], device=device)
    sizes = [torch.empty_like(mine) for _ in range(world)]
    distributed.all_gather(sizes, mine)
    counts, widths = zip(*(size.tolist() for size in sizes), strict=True)
    if len(set(widths)) > 1:
        raise ValueError(f"processes have examples of different shapes: {', '.join(map(str, widths))} bytes a row")
    sent = content.new_zeros(max(counts), widths[0])
    sent[:rows] = content
    received = [torch.empty_like(sent) for _ in range(world)]
    distributed.all_gather(received, sent)
    if interleaved:
        held = [row for row in range(max(counts) * world) if row // world < counts[row % world]]
        whole = torch.stack(received, dim=1).flatten(0, 1)[held]
    else:
        whole = torch.cat([part[:count] for part, count in zip(received, counts, strict=True)])
    bytes_of = [prod(value.shape[1:]) * value.element_size() for value in values]
    parts = torch.split(whole, bytes_of, dim=1)
    return [
        part.new_empty(part.shape).copy_(part).view(value.dtype).reshape(len(whole), *value.shape[1:])
        for part, value in zip(parts, values, strict=True)
    ]


def _bytes(value: Tensor) -> Tensor:
    """A row of bytes for every row; copied, as one row alone counts as contiguous whatever its strides are."""
    flat = value.new_empty(len(value), prod(value.shape[1:]))
    return flat.copy_(value.detach().reshape(flat.shape)).view(torch.uint8)


def _fields(batch: Any) -> dict[str, Tensor]:
    """The tensors of a batch by their names or places, each with as many rows."""
    fields: dict[str, Tensor] = {}
    for path, leaf in leaves(batch, ""):
        if not isinstance(leaf, Tensor) or not leaf.dim():
            what = "a number" if isinstance(leaf, Tensor) else f"a {type(leaf).__name__}"
            raise TypeError(f"a buffer keeps tensors with a row per example, and batch{path} is {what}")
        name = re.sub(r"\['?([^'\]]*)'?\]", r".\1", path)[1:] or "x"
        if name in fields:
            raise ValueError(f"two fields of a batch would both be named {name!r} in the buffer: rename one of them")
        fields[name] = leaf
    if not fields:
        raise TypeError(f"a batch of tensors is needed, got {batch!r:.60}")
    counts = {name: len(value) for name, value in fields.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(f"every field of a batch must have one row per example: {told}")
    return fields


def _filled(value: Tensor, width: int, filler: float) -> Tensor:
    """Rows of this width, filled up on the right."""
    if value.shape[1] == width:
        return value
    wide = value.new_full((len(value), width, *value.shape[2:]), filler)
    wide[:, : value.shape[1]] = value
    return wide
