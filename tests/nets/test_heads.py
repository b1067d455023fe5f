"""The heads against their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from reprise.nets import CosineHead, LinearHead, make_head


def test_cosine_head_is_ten_times_the_cosine() -> None:
    head = CosineHead(5, 3).double()
    x = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = head(x)
    for row, features in enumerate(x.tolist()):
        for label, weights in enumerate(head.weight.tolist()):
            product = sum(a * b for a, b in zip(features, weights, strict=True))
            assert logits[row, label].item() == pytest.approx(
                10 * product / math.hypot(*features) / math.hypot(*weights)
            )


def test_cosine_head_knows_no_lengths_and_no_bias() -> None:
    head = CosineHead(6, 4)
    x = torch.randn(3, 6)
    expected = head(x)
    with torch.no_grad():
        head.weight *= torch.tensor([[0.5], [2.0], [7.0], [1.0]])
    torch.testing.assert_close(head(3 * x), expected)
    assert [name for name, _ in head.named_parameters()] == ["weight"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_features_of_zero_give_logits_of_zero(dtype: torch.dtype) -> None:
    head = CosineHead(8, 3).to(dtype)
    x = torch.zeros(2, 8, dtype=dtype, requires_grad=True)
    logits = head(x)
    assert torch.equal(logits, torch.zeros(2, 3, dtype=dtype))
    if dtype != torch.float16:  # whose largest number is below 10/eps
        logits.sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_linear_head_has_a_bias() -> None:
    head = LinearHead(5, 3)
    x = torch.randn(4, 5)
    torch.testing.assert_close(head(x), x @ head.weight.T + head.bias)


def test_heads_by_name() -> None:
    assert isinstance(make_head("cosine", 4, 2), CosineHead)
    assert isinstance(make_head("linear", 4, 2), LinearHead)
    assert repr(make_head("cosine", 4, 2)) == "CosineHead(4, 2, scale=10, eps=1e-06)"
    with pytest.raises(ValueError, match="a head is one of cosine, linear, got 'mlp'"):
        make_head("mlp", 4, 2)
