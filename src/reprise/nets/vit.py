"""Vision transformers, and whatever else timm knows, under a head of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from reprise.core.extras import not_installed
from reprise.core.registry import did_you_mean, registered
from reprise.core.rng import Random
from reprise.nets.heads import make_head
from reprise.nets.network import Network


def import_timm(name: str) -> Any:
    """timm, or a sentence that says how to get it."""
    try:
        import timm
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise ModuleNotFoundError(without_timm(name), name="timm") from None
    return timm


def without_timm(name: str) -> str:
    """The sentence for a backbone of timm's where timm is missing."""
    said = not_installed(f"the backbone {name!r} comes from timm", "vit")
    return f"{said} (a backbone that needs no timm is 'resnet18')"


@contextmanager
def seeded(random: Random) -> Iterator[None]:
    """Within it, modules are made on the CPU, and torch's global generator is seeded; it is put back afterwards."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed: that would also seed the generators of every GPU, which are not put back.
        torch.default_generator.manual_seed(random.word())
        yield


class TimmNetwork(Network):
    """A model of timm without its classifier, and a head of ours in its place.

    `random` decides the weights that timm and torch draw, whatever state torch's global generator is in, and that
    generator is left as it was. `pretrained` asks timm for published weights, which it downloads or has at hand.
    """

    def __init__(
        self, name: str, classes: int, head: str = "cosine", *, random: Random, pretrained: bool = False
    ) -> None:
        super().__init__()
        timm = import_timm(name)
        if ":" not in name and not timm.is_model(name):  # "hf-hub:…" and the like are found by timm itself
            near = did_you_mean(name, [*registered("network"), *timm.list_models()])
            hint = f": did you mean {near!r}?" if near else "."
            raise ValueError(f"there is no backbone {name!r}, neither here nor in timm{hint}")
        with seeded(random):
            self.model: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
            size: Any = getattr(self.model, "head_hidden_size", None) or self.model.num_features
            self.fc = make_head(head, int(size), classes)
        about: Any = getattr(self.model, "pretrained_cfg", None) or {}
        named = about.get("classifier") or "head"
        self.classifier: str = named if isinstance(named, str) else named[0]  # distilled models have two

    def features(self, x: Tensor) -> Tensor:
        rows: Tensor = self.model(x)
        return rows

    def published(self, name: str) -> str:
        part, _, rest = name.partition(".")
        return rest if part == "model" else f"{self.classifier}.{rest}"
