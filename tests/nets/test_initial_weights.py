"""Initial weights depend on the seed alone."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from reprise.nets import ResNet18, build


def digest(net: nn.Module) -> str:
    state = net.state_dict()
    return hashlib.sha256(b"".join(name.encode() + state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def small(seed: int = 0, **options: object) -> nn.Module:
    return build("resnet18", **{"classes": 10, "width": 4, "seed": seed, **options})  # type: ignore[arg-type]


def test_same_seed_same_weights_whatever_torch_has_drawn_before() -> None:
    torch.manual_seed(1)
    first = digest(small())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert digest(small()) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert digest(small(seed=1)) != first


def test_weights_are_the_same_on_every_machine() -> None:
    assert digest(small()) == "dae75d5d7c0a052f2f312ca593465258b4882edc18f7569e29d3d41128146154"


def test_seed_decides_under_another_default_device_too() -> None:
    expected = digest(small())
    torch.set_default_device("meta")
    try:
        net = small()
    finally:
        torch.set_default_device(None)
    assert digest(net) == expected


def test_below_the_head_neither_head_nor_classes_count() -> None:
    def below(net: nn.Module) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in net.state_dict().items() if not name.startswith("fc.")}

    one, other = below(small(head="cosine")), below(small(head="linear", classes=100))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_law_is_that_of_torch() -> None:
    """The same spread, layer by layer, as layers that torch has initialised itself, and no parameter left out."""
    torch.manual_seed(0)
    ours, theirs = build("resnet18", classes=50, head="linear", width=16), ResNet18(50, "linear", width=16)
    for (name, mine), (_, default) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        if "bn" in name or "downsample.1" in name:
            assert torch.equal(mine, default), name
            continue
        count = mine.numel()
        limit = (theirs.get_submodule(name.rpartition(".")[0]).weight[0].numel()) ** -0.5
        for tensor in (mine, default):
            assert limit * (1 - 10 / count) <= tensor.abs().max() <= limit, name
            assert tensor.mean().abs() < 5 * limit / (3 * count) ** 0.5, name
            assert abs(tensor.var() / (limit**2 / 3) - 1) < 5 * (0.8 / count) ** 0.5 + 1 / count, name
