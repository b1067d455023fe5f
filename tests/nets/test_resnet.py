"""The ResNet against a second, functional writing of it; its names, its sizes, its statistics."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reprise.nets import ResNet18, build

# Every block has these; the first of layers 2, 3 and 4 has a projection, too.
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
BLOCK = ["conv1.weight", *(f"bn1.{n}" for n in NORM), "conv2.weight", *(f"bn2.{n}" for n in NORM)]
PROJECTION = ["downsample.0.weight", *(f"downsample.1.{n}" for n in NORM)]
NAMES = ["conv1.weight", *(f"bn1.{n}" for n in NORM)]
for layer in "1234":
    for block in "01":
        parts = [*BLOCK, *PROJECTION] if block == "0" and layer != "1" else BLOCK
        NAMES += [f"layer{layer}.{block}.{part}" for part in parts]
NAMES += ["fc.weight", "fc.bias"]


def recomputed(state: dict[str, Tensor], x: Tensor, train: bool) -> Tensor:
    """The features, from the bare state: convolutions and batch statistics written out."""

    def norm(x: Tensor, name: str) -> Tensor:
        if train:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        else:
            mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        x = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        return x * state[f"{name}.weight"][:, None, None] + state[f"{name}.bias"][:, None, None]

    x = norm(F.conv2d(x, state["conv1.weight"], padding=1), "bn1").clamp(min=0)
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            name = f"layer{layer}.{block}"
            stride = 2 if layer > 1 and block == 0 else 1
            y = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            y = norm(y, f"{name}.bn1").clamp(min=0)
            y = norm(F.conv2d(y, state[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if stride == 2:
                x = norm(F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=2), f"{name}.downsample.1")
            x = (x + y).clamp(min=0)
    return F.avg_pool2d(x, x.shape[-1]).flatten(1)


def lively(width: int, head: str = "linear") -> ResNet18:
    """A network in double precision whose BatchNorms have statistics and weights of their own."""
    net = build("resnet18", classes=7, head=head, width=width, seed=1).double()
    generator = torch.Generator().manual_seed(0)
    for name, tensor in net.state_dict().items():
        if "bn" in name or "downsample.1" in name:
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5 if tensor.is_floating_point() else tensor)
    assert isinstance(net, ResNet18)
    return net


def images(count: int = 4, size: int = 16) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_network_is_what_its_functional_writing_says(train: bool) -> None:
    net = lively(width=5).train(train)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    expected = recomputed(state, images(), train)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(net.features(images()), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(net(images()), expected @ state["fc.weight"].T + state["fc.bias"], rtol=1e-9, atol=1e-9)


def test_training_moves_the_statistics_and_evaluation_does_not() -> None:
    net = lively(width=2)
    first = F.conv2d(images(), net.conv1.weight, padding=1)
    before = net.bn1.running_mean.clone()
    net.eval()(images())
    assert torch.equal(net.bn1.running_mean, before)
    net.train()(images())
    torch.testing.assert_close(net.bn1.running_mean, 0.9 * before + 0.1 * first.mean((0, 2, 3)))


def test_names_are_those_of_torchvision_and_timm() -> None:
    assert list(ResNet18(10, "linear", width=1).state_dict()) == NAMES
    assert list(ResNet18(10, "cosine", width=1).state_dict()) == NAMES[:-1]


def test_size_at_full_width() -> None:
    # ResNet-18's 11,689,512 parameters with 1,000 classes, less a 7×7 stem, plus a 3×3 one, and 100 classes.
    expected = 11_689_512 - 64 * 3 * (49 - 9) - 900 * 513
    with torch.device("meta"):
        net = ResNet18(100, "linear")
    assert sum(parameter.numel() for parameter in net.parameters()) == expected
    widths = [net.get_submodule(f"layer{layer}.1.conv2").weight.shape[0] for layer in (1, 2, 3, 4)]
    assert widths == [64, 128, 256, 512]


@pytest.mark.parametrize("width", [1, 3, 16])
def test_any_width(width: int) -> None:
    net = build("resnet18", classes=11, width=width)
    x = images(2, 32).float()
    assert net.features(x).shape == (2, 8 * width)
    assert net(x).shape == (2, 11)
    # 3×3 stem, then strides 1, 2, 2, 2 and no pooling on the way: 32 pixels become 4.
    assert isinstance(net, ResNet18)
    assert net.layer4(net.layer3(net.layer2(net.layer1(net.bn1(net.conv1(x)))))).shape == (2, 8 * width, 4, 4)


def test_channels_last_gives_the_same() -> None:
    net = build("resnet18", classes=5, width=4).eval()
    x = images(2).float()
    expected = net(x)
    net = net.to(memory_format=torch.channels_last)
    torch.testing.assert_close(net(x.to(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": 0}, "the number of classes must be 1 or more, got 0"),
        ({"classes": 10, "width": 0}, "width must be 1 or more, got 0"),
        ({"classes": 10, "width": 1.5}, "width must be a whole number, got 1.5"),
        ({"classes": 10, "head": "cosin"}, "a head is one of cosine, linear, got 'cosin'"),
        ({"classes": 10, "seed": -1}, "seed must be 0 or more, got -1"),
        ({"classes": 10, "pretrained": True}, "no weights are published for this 'resnet18'"),
    ],
)
def test_wrong_arguments_are_sentences(arguments: dict[str, object], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        build("resnet18", **arguments)  # type: ignore[arg-type]
