"""Steps made by hand, a tiny network, and its gradients worked out on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from reprise.learners import Batch, Learner, LearnerContext, Step
from reprise.nets import LinearHead, Network

CLASSES = 6
EXAMPLES = 50


class TinyNetwork(Network):
    """Logits = W·tanh(V·x) + b: no BatchNorm, and small enough to differentiate by hand."""

    def __init__(self, seed: int = 0, inputs: int = 12, hidden: int = 5) -> None:
        super().__init__()
        self.trunk = nn.Linear(inputs, hidden, bias=False)
        self.fc = LinearHead(hidden, CLASSES)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.trunk(x.flatten(1)))

    def published(self, name: str) -> str:
        return name


class ByHand:
    """The same network in NumPy, in double precision: one example at a time, and the chain rule written out."""

    def __init__(self, net: TinyNetwork) -> None:
        self.V = net.trunk.weight.detach().double().numpy()
        self.W = net.fc.weight.detach().double().numpy()
        self.b = net.fc.bias.detach().double().numpy()

    def logits(self, x: Tensor) -> np.ndarray:
        return self.W @ np.tanh(self.V @ _row(x)) + self.b

    def gradients(self, terms: Iterable[tuple[Tensor, np.ndarray]]) -> dict[str, np.ndarray]:
        """The gradient of a loss, given for each example x how the loss changes with its logits."""
        total = {"trunk.weight": np.zeros_like(self.V), "fc.weight": np.zeros_like(self.W), "fc.bias": self.b * 0}
        for x, slope in terms:
            hidden = np.tanh(self.V @ _row(x))
            total["fc.bias"] += slope
            total["fc.weight"] += np.outer(slope, hidden)
            total["trunk.weight"] += np.outer((self.W.T @ slope) * (1 - hidden**2), _row(x))
        return total


def _row(x: Tensor) -> np.ndarray:
    return x.double().numpy().reshape(-1)


def entropy_term(logits: np.ndarray, label: int, opened: Sequence[int]) -> tuple[float, np.ndarray]:
    """Cross-entropy of one example over the open classes, and its slope in each logit."""
    shares = {c: float(np.exp(logits[c] - logits.max())) for c in opened}
    slope = np.zeros(len(logits))
    for c in opened:
        slope[c] = shares[c] / sum(shares.values())
    loss = -float(np.log(slope[label]))
    slope[label] -= 1
    return loss, slope


def make_batch(labels: Sequence[int], ids: Sequence[int], seed: int, size: int = 2) -> Batch:
    """Random images with these labels and ids."""
    x = torch.randn(len(labels), 3, size, size, generator=torch.Generator().manual_seed(seed))
    weight = torch.full((len(labels),), 1 / len(labels))
    return Batch(x, torch.tensor(labels), torch.tensor(ids), weight)


def make_step(
    incoming: Batch,
    replay: Sequence[Batch] = (),
    seen: Iterable[int] = (),
    number: int = 0,
    classes: int = CLASSES,
) -> Step:
    """A step whose seen classes are these and the incoming ones."""
    present = torch.zeros(classes, dtype=torch.bool)
    present[incoming.y] = True
    before = torch.zeros(classes, dtype=torch.bool)
    before[list(seen)] = True
    return Step(number, incoming, tuple(replay), present, present | before, incoming.ids)


class NothingReadBack(TorchDispatchMode):
    """An error for whatever would make the host wait for the device: a number read, or a shape that needs one."""

    READS = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "bincount")

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function.overloadpacket.__name__ not in self.READS, f"{function} needs a value on the host"
        return function(*args, **(kwargs or {}))


def setting(passes: str = "separate", seed: int = 0) -> LearnerContext:
    return LearnerContext(CLASSES, EXAMPLES, seed=seed, passes=passes)


def gradients(learner: Learner, step: Step) -> tuple[float, dict[str, Tensor]]:
    """The loss of a step, and its gradient by the network's parameter."""
    named = dict(learner.net.named_parameters())
    loss = learner(step).loss
    slopes = torch.autograd.grad(loss, list(named.values()))
    return float(loss.detach()), dict(zip(named, slopes, strict=True))


def assert_same(found: tuple[float, dict[str, Tensor]], loss: float, slopes: dict[str, np.ndarray]) -> None:
    """A loss and its gradient in single precision against what was worked out in double."""
    assert abs(found[0] - loss) < 2e-6 * max(1.0, abs(loss))
    assert found[1].keys() == slopes.keys()
    for name, slope in slopes.items():
        np.testing.assert_allclose(found[1][name].numpy(), slope, rtol=1e-5, atol=2e-6, err_msg=name)
