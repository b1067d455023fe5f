"""Published weights into a network, and a plain account of what did not fit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reprise.nets.network import Network

_NAMED = 4  # how many names of a kind a sentence lists


@dataclass(frozen=True)
class Fit:
    """How a checkpoint fits a network; true when it fits wholly. Names are the checkpoint's."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]  # the network has it, the checkpoint has not
    unexpected: tuple[str, ...]  # the checkpoint has it, the network has not
    reshaped: tuple[str, ...]  # both have it, of different shapes: 'conv1.weight (64×3×7×7, here 64×3×3×3)'

    def __bool__(self) -> bool:
        return not (self.missing or self.unexpected or self.reshaped)

    def __str__(self) -> str:
        if self:
            return f"the checkpoint fits: {len(self.loaded)} tensors"
        kinds = {"missing": self.missing, "unexpected": self.unexpected, "of another shape": self.reshaped}
        parts = [f"{len(names)} {kind}: {_listed(names)}" for kind, names in kinds.items() if names]
        return f"the checkpoint does not fit this network: {'; '.join(parts)}"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def load_checkpoint(
    net: Network, source: str | os.PathLike[str] | Mapping[str, Tensor], *, strict: bool = True, head: bool = True
) -> Fit:
    """Copy the weights of a checkpoint into a network, and say what fitted.

    `source` is a safetensors file, a file that `torch.load(weights_only=True)` reads, or a mapping of names to
    tensors; names are those of torchvision and timm. With `strict`, anything missing, unexpected or of another
    shape is an error and the network is left as it was. Without, all that fits is loaded; the return value says
    what did not. With `head=False` the head is left out on both sides: for other classes, or another head.

    How many batches a BatchNorm has counted (`num_batches_tracked`) may be missing: older files lack it.
    """
    state = dict(source) if isinstance(source, Mapping) else _read(Path(source))
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"a checkpoint maps names to tensors, but {name!r} is a {type(value).__name__}: "
                "if the weights are inside, give that part"
            )
    fit, found = _compare(net, state, head)
    if strict and not fit:
        raise ValueError(str(fit))
    net.load_state_dict(found, strict=False)
    return fit


def _compare(net: Network, state: Mapping[str, Tensor], head: bool) -> tuple[Fit, dict[str, Tensor]]:
    parts = {net.published(f"fc.{name}") for name in ("weight", "bias")}
    left_out = set() if head else parts
    own = {net.published(name): (name, tensor) for name, tensor in net.state_dict().items()}
    found: dict[str, Tensor] = {}
    loaded, missing, reshaped = [], [], []
    for name, (inner, tensor) in own.items():
        if name in left_out:
            continue
        given = state.get(name)
        if given is None:
            if not name.endswith("num_batches_tracked"):
                missing.append(name)
        elif given.shape != tensor.shape:
            reshaped.append(f"{name} ({_shape(given)}, here {_shape(tensor)})")
        else:
            found[inner] = given
            loaded.append(name)
    unexpected = [name for name in state if name not in own and name not in left_out]
    return Fit(tuple(loaded), tuple(missing), tuple(unexpected), tuple(reshaped)), found


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a single number"


def _read(path: Path) -> dict[str, Any]:
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file, or is damaged: {error}") from error
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a file of anything else fails in torch's reader in every way there is
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is not a checkpoint of plain tensors, or is damaged: {first}") from error
    if not isinstance(loaded, Mapping):
        raise ValueError(f"{path} holds a {type(loaded).__name__}, not a mapping of names to tensors")
    return dict(loaded)
