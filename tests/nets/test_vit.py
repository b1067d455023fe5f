"""Models of timm under our heads: with a stand-in for timm here, with timm itself where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from reprise.nets import CosineHead, LinearHead, TimmNetwork, build, load_checkpoint

TIMM = importlib.util.find_spec("timm") is not None


class Tiny(nn.Module):
    """As much of a vision transformer of timm as matters here."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_features = self.head_hidden_size = 12
        self.pretrained_cfg = {"classifier": "head"}
        self.cls_token = nn.Parameter(torch.randn(1, 12))
        self.patch_embed = nn.Conv2d(3, 12, 4, 4)
        self.head = nn.Linear(12, num_classes) if num_classes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.patch_embed(x).mean((2, 3)) + self.cls_token)
        return logits


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("timm")
    fake.is_model = lambda name: name.partition(".")[0] == "vit_tiny"  # type: ignore[attr-defined]
    fake.list_models = lambda: ["vit_tiny"]  # type: ignore[attr-defined]
    fake.create_model = lambda name, pretrained, num_classes: Tiny(num_classes)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", fake)


def test_missing_timm_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModuleNotFoundError, match=r"'vit_tiny' comes from timm.*pip install '\.\[vit\]'"):
        build("vit_tiny", classes=5)


@pytest.mark.usefixtures("timm")
def test_head_is_ours_and_features_are_what_it_sees() -> None:
    x = torch.randn(2, 3, 8, 8)
    for name, kind in {"cosine": CosineHead, "linear": LinearHead}.items():
        net = build("vit_tiny.some_tag", classes=5, head=name)
        assert isinstance(net, TimmNetwork)
        assert isinstance(net.fc, kind)
        assert net.features(x).shape == (2, 12)
        torch.testing.assert_close(net(x), net.fc(net.features(x)))


@pytest.mark.usefixtures("timm")
def test_seed_decides_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    first = build("vit_tiny", classes=5, seed=0).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = build("vit_tiny", classes=5, seed=0).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    other = build("vit_tiny", classes=5, seed=1).state_dict()
    assert not any(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.usefixtures("timm")
def test_checkpoint_of_timm_loads_by_its_own_names() -> None:
    published = Tiny(5).state_dict()
    assert list(published) == ["cls_token", "patch_embed.weight", "patch_embed.bias", "head.weight", "head.bias"]
    net = build("vit_tiny", classes=5, head="linear")
    assert load_checkpoint(net, published)
    assert torch.equal(net.fc.weight, published["head.weight"])
    cosine = build("vit_tiny", classes=7, head="cosine")
    with pytest.raises(
        ValueError, match=r"1 unexpected: head\.bias; 1 of another shape: head\.weight \(5×12, here 7×12"
    ):
        load_checkpoint(cosine, published)
    assert load_checkpoint(cosine, published, head=False)


@pytest.mark.usefixtures("timm")
def test_wrong_requests_are_sentences() -> None:
    with pytest.raises(ValueError, match="no backbone 'vit_tyny', neither here nor in timm: did you mean 'vit_tiny'"):
        build("vit_tyny", classes=5)
    with pytest.raises(ValueError, match=r"width is for 'resnet18'; .* got width=32"):
        build("vit_tiny", classes=5, width=32)


@pytest.mark.skipif(not TIMM, reason="timm is not installed: make vit runs this with it")
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet10t"])
def test_timm_itself(name: str) -> None:
    import timm

    published = timm.create_model(name, num_classes=10)
    net = build(name, classes=10, head="linear").eval()
    assert load_checkpoint(net, published.state_dict())
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(net(x), published.eval()(x))
