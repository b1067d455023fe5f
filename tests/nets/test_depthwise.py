"""Gradients of depthwise convolutions that do not go by torch's slow ways are torch's all the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reprise.nets import build
from reprise.nets import depthwise as module
from reprise.nets.depthwise import _Depthwise, depthwise

Gradients = tuple[Tensor, Tensor, Tensor]


def both(
    x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int], *, exactly: bool = False
) -> tuple[Gradients, Gradients]:
    """Output, gradient of the images and of the weights: ours, and torch's own, in double precision if told so."""
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    ours: Tensor = _Depthwise.apply(x, weight, stride, padding)  # type: ignore[no-untyped-call]
    dy = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1)).to(ours.dtype)
    found = ours, *torch.autograd.grad(ours, (x, weight), dy)
    if exactly:
        x, weight, dy = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_(), dy.double()
    theirs = F.conv2d(x, weight, None, stride, padding, 1, len(weight))
    return found, (theirs, *torch.autograd.grad(theirs, (x, weight), dy))


@given(
    images=st.integers(1, 3),
    channels=st.integers(1, 5),
    sides=st.tuples(st.integers(3, 7), st.integers(3, 7)),
    more=st.tuples(st.integers(0, 7), st.integers(0, 7)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    last=st.booleans(),
)
def test_gradients_are_torchs(
    images: int,
    channels: int,
    sides: tuple[int, int],
    more: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    last: bool,
) -> None:
    random = torch.Generator().manual_seed(0)
    size = [max(1, side - 2 * pad) + extra for side, pad, extra in zip(sides, padding, more, strict=True)]
    x = torch.randn(images, channels, *size, generator=random, dtype=torch.float64)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, *sides, generator=random, dtype=torch.float64)
    ours, theirs = both(x, weight, stride, padding)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 6), (torch.float32, 18)])
@pytest.mark.parametrize(
    ("side", "stride", "size"), [(3, 1, 12), (3, 2, 13), (5, 1, 1), (5, 1, 3), (5, 1, 12), (5, 2, 15), (7, 2, 9)]
)
def test_they_are_as_near_as_their_digits(side: int, stride: int, size: int, dtype: torch.dtype, digits: int) -> None:
    """By oneDNN's kernels, beside double precision."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(8, 48, size, size, generator=random).to(dtype, memory_format=torch.channels_last)
    weight = torch.randn(48, 1, side, side, generator=random).to(dtype)
    ours, exact = both(x, weight, (stride, stride), (side // 2, side // 2), exactly=True)
    for one, other in zip(ours, exact, strict=True):
        assert one.dtype == dtype
        assert (one.double() - other).norm() < 2**-digits * other.norm()


def test_it_is_taken_in_bf16_alone() -> None:
    """There a gradient has no gradient of its own. In single precision it is torch's, and has."""
    x, weight = torch.randn(2, 3, 6, 6), torch.randn(3, 1, 5, 5, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        halved = depthwise(x, weight, (1, 1), (2, 2))
    single = depthwise(x, weight, (1, 1), (2, 2))
    assert (halved.dtype, single.dtype) == (torch.bfloat16, torch.float32)
    for y, way in ((halved, pytest.raises(RuntimeError, match="once_differentiable")), (single, nullcontext())):
        (found,) = torch.autograd.grad(y.float().square().sum(), weight, create_graph=True)
        assert found.dtype == torch.float32
        with way:
            found.sum().backward()


@pytest.mark.parametrize(("wanted", "other"), [(0, "_weight_grad"), (1, "_input_grad")])
def test_no_gradient_that_is_not_asked_for(wanted: int, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, other, refuse)
    given = [torch.randn(2, 3, 6, 6).bfloat16(), torch.randn(3, 1, 5, 5).bfloat16()]
    given[wanted].requires_grad_()
    depthwise(given[0], given[1], (2, 2), (2, 2)).sum().backward()
    assert given[wanted].grad is not None


def refuse(*_: object) -> Tensor:
    raise AssertionError("this is not to be called")


def test_what_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gradients, in other precisions, and for kernels that are small."""
    monkeypatch.setattr(_Depthwise, "apply", refuse)
    x, weight = torch.randn(2, 3, 6, 6), torch.randn(3, 1, 5, 5, requires_grad=True)
    with torch.no_grad():
        assert not depthwise(x.bfloat16(), weight.bfloat16(), (1, 1), (2, 2)).requires_grad
    assert depthwise(x, weight, (1, 1), (2, 2)).dtype == torch.float32
    assert depthwise(x.bfloat16(), weight[:, :, :1].bfloat16(), (1, 1), (0, 2)).shape == x.shape
    with torch.autocast("cpu", torch.bfloat16):
        assert depthwise(x.double(), weight.double(), (1, 1), (2, 2)).dtype == torch.float64
    with torch.autocast("cpu", torch.float16):
        assert depthwise(x, weight, (1, 1), (2, 2)).dtype == torch.float16


def test_a_network_takes_it_for_its_depthwise_convolutions_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: list[int] = []
    ours = _Depthwise.apply

    def counted(x: Tensor, weight: Tensor, *rest: object) -> Tensor:
        kernels.append(weight.shape[2])
        found: Tensor = ours(x, weight, *rest)  # type: ignore[no-untyped-call]
        return found

    monkeypatch.setattr(_Depthwise, "apply", counted)
    net, x = build("efficientnet_lite0", classes=10), torch.rand(2, 3, 40, 56)
    with torch.autocast("cpu", torch.bfloat16):
        net(x)
    assert (kernels.count(3), kernels.count(5), len(kernels)) == (7, 9, 16)
    net(x)
    assert len(kernels) == 16


def test_a_network_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision, where nothing but an error can tell them apart."""
    net, x = build("efficientnet_lite0", classes=10).double(), torch.rand(4, 3, 48, 48, dtype=torch.float64)

    def gradients(way: Callable[..., Tensor]) -> dict[str, Tensor | None]:
        monkeypatch.setattr("reprise.nets.efficientnet.depthwise", way)
        net.zero_grad(set_to_none=True)
        net(x).square().sum().backward()
        return {name: parameter.grad for name, parameter in net.named_parameters()}

    ours, theirs = gradients(_Depthwise.apply), gradients(depthwise)
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, msg=name)
