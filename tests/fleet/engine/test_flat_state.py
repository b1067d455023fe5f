"""A network's state as one row: what is trained comes first, and a network attached to a row is the same network."""

from __future__ import annotations

import pytest
import torch
from train.tinyruns import Thin

from reprise.fleet.engine.flat_state import Layout, aligned, initial_row


@pytest.mark.parametrize("still", [(), ("conv2.weight",), ("conv1.weight", "bn1.bias", "fc.weight")])
def test_a_row_holds_convolutions_then_other_weights_then_what_no_step_moves(still: tuple[str, ...]) -> None:
    net = Thin(3, "linear", 0, batchnorm=True)
    for name in still:
        net.get_parameter(name).requires_grad_(False)
    layout = Layout.of(net)
    convolutions = [name for name in ("conv1.weight", "conv2.weight") if name not in still]
    others = [name for name, one in net.named_parameters() if one.requires_grad and name not in convolutions]
    assert layout.parameters == convolutions + others
    assert layout.copied == max(aligned(layout.spans[name].end) for name in convolutions) if convolutions else 0
    assert layout.weights == max(aligned(layout.spans[name].end) for name in layout.parameters)
    floats = {name for name, one in net.state_dict().items() if one.is_floating_point()}
    assert layout.spans.keys() == floats
    assert all(layout.spans[name].start >= layout.weights for name in floats - {*layout.parameters})
    ends = [0, *(aligned(span.end) for span in layout.spans.values())]
    assert [span.start for span in layout.spans.values()] == ends[:-1]
    assert layout.length == ends[-1]

    before = {name: value.clone() for name, value in net.state_dict().items()}
    row, elsewhere = initial_row(net), torch.full((layout.length,), 7.0)
    layout.attach(net, elsewhere)
    for span in layout.spans.values():
        assert torch.equal(elsewhere[span.start : span.end], row[span.start : span.end])
    elsewhere.zero_()
    assert not any(one.any() for name, one in net.state_dict().items() if name in floats)
    elsewhere.copy_(row)
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items())
