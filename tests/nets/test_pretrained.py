"""Published weights into a network, and what is said when they do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from reprise.nets import ResNet18, build, load_checkpoint

State = dict[str, Tensor]


def network(head: str = "linear", seed: int = 0) -> ResNet18:
    net = build("resnet18", classes=6, head=head, width=2, seed=seed)
    assert isinstance(net, ResNet18)
    return net


def copy(net: ResNet18) -> State:
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def published() -> State:
    return copy(network(seed=9))


@pytest.mark.parametrize("kind", ["mapping", "weights.safetensors", "weights.pth"])
def test_checkpoint_is_loaded(kind: str, published: State, tmp_path: Path) -> None:
    source: State | Path = published
    if kind != "mapping":
        source = tmp_path / kind
        if kind.endswith("safetensors"):
            save_file(published, source)
        else:
            torch.save(published, source)
    net = network()
    fit = load_checkpoint(net, source)
    assert fit
    assert str(fit) == f"the checkpoint fits: {len(published)} tensors"
    assert same(copy(net), published)


def test_older_files_do_not_count_batches(published: State) -> None:
    older = {name: tensor for name, tensor in published.items() if "num_batches_tracked" not in name}
    assert load_checkpoint(network(), older)


def test_what_does_not_fit_is_said_and_nothing_changes(published: State) -> None:
    del published["layer1.0.conv1.weight"], published["bn1.bias"]
    published["extra.weight"] = torch.zeros(1)
    published["conv1.weight"] = torch.zeros(2, 3, 7, 7)
    net = network()
    before = copy(net)
    with pytest.raises(ValueError) as caught:
        load_checkpoint(net, published)
    assert str(caught.value) == (
        "the checkpoint does not fit this network: 2 missing: bn1.bias, layer1.0.conv1.weight; "
        "1 unexpected: extra.weight; 1 of another shape: conv1.weight (2×3×7×7, here 2×3×3×3)"
    )
    assert same(copy(net), before)

    fit = load_checkpoint(net, published, strict=False)
    assert not fit
    assert str(fit) == str(caught.value)
    after = copy(net)
    left = {"layer1.0.conv1.weight", "bn1.bias", "conv1.weight"}
    assert all(torch.equal(after[name], before[name] if name in left else published[name]) for name in after)


def test_long_lists_are_cut() -> None:
    with pytest.raises(ValueError, match=r"101 missing: conv1\.weight, bn1\.weight, .* and 97 more$"):
        load_checkpoint(network("cosine"), {})


def test_head_may_be_left_out(published: State) -> None:
    published["fc.weight"] = torch.zeros(1000, 16)
    net = network("cosine")
    with pytest.raises(
        ValueError, match=r"1 unexpected: fc\.bias; 1 of another shape: fc\.weight \(1000×16, here 6×16"
    ):
        load_checkpoint(net, published)
    head = net.fc.weight.clone()
    assert load_checkpoint(net, published, head=False)
    assert torch.equal(net.fc.weight, head)
    assert torch.equal(net.conv1.weight, published["conv1.weight"])


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    for name in ("broken.safetensors", "broken.pth", "empty.pth"):
        (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"these are no weights")
        with pytest.raises(ValueError, match=f"{name} is not a .*, or is damaged"):
            load_checkpoint(network(), tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(network(), tmp_path / "none.pth")


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save({"conv1.weight": Path("anything")}, tmp_path / "code.pth")
    with pytest.raises(ValueError, match=r"code\.pth is not a checkpoint of plain tensors"):
        load_checkpoint(network(), tmp_path / "code.pth")


def test_weights_inside_something_else(published: State, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'model' is a dict: if the weights are inside, give that part"):
        load_checkpoint(network(), {"model": published})  # type: ignore[dict-item]
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="holds a list, not a mapping"):
        load_checkpoint(network(), tmp_path / "list.pth")
