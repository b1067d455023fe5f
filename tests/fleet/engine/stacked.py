"""Networks computed together, small enough for Triton's interpreter, and what they are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from reprise import nets
from reprise.fleet.engine.flat_state import Layout, aligned

if TYPE_CHECKING:
    from reprise.fleet.engine.stack import Stack

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES = 5


def network(head="linear", width=2, seed=1):
    """A network whose BatchNorm has learnt something already."""
    net = nets.build(classes=CLASSES, width=width, head=head, seed=seed).to(DEVICE)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.weight, module.bias, module.running_mean):
                    tensor.add_(0.3 * torch.randn(tensor.shape, generator=random).to(DEVICE))
                module.running_var.mul_(0.5 + torch.rand(module.running_var.shape, generator=random).to(DEVICE))
    return net.to(memory_format=torch.channels_last).train()


def noise(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def make_stack(networks, sizes, counts, image, precision="fp32") -> Stack:
    """A stack of these networks, whose state it takes over."""
    from reprise.fleet.engine.stack import Stack  # needs Triton

    layout = Layout.of(networks[0])
    rows = torch.zeros(len(networks), layout.length, device=DEVICE)
    for net, row in zip(networks, rows, strict=True):
        layout.attach(net, row)
    half = rows[:, : layout.copied].to(torch.bfloat16) if precision == "bf16" else None
    stack = Stack(networks[0], layout, rows, half, counts, sizes, image, precision)
    stack.turn()
    return stack


def gradients(stack, run):
    """What the stack found for each parameter of a run, in the shapes of the network's."""
    found = {}
    for name in stack.layout.parameters:
        start, parts = stack.parts[name]
        size, step = stack.layout.spans[name].size, aligned(stack.layout.spans[name].size)
        found[name] = stack.gradient[run, start : start + parts * step].view(parts, step).sum(0)[:size]
    return found


def flat(gradient):
    return (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).reshape(-1)


def set_tiles(monkeypatch, bm: int, bn: int, bk: int, parts: int = 1, chunk: int = 64) -> None:
    """Other tiles than a GPU's: an interpreter goes through them one by one, and is slow."""
    from reprise.fleet.engine import layers, stack  # needs Triton

    for blocks in (layers.FORWARD, layers.BACKWARD, layers.WEIGHTS):
        for precision in ("fp32", "tf32"):
            monkeypatch.setitem(blocks, precision, layers.Block(bm, bn, bk, 4, 2))
    monkeypatch.setattr(stack, "PARTS", parts)
    monkeypatch.setattr(stack, "CHUNK", chunk)


def few_tiles(monkeypatch) -> None:
    """Tiles as large as the layers."""
    set_tiles(monkeypatch, 512, 64, 512)
