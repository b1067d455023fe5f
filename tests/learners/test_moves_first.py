"""Learners that move the weights before a step: what `first_move` gives is checked, and added to the weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from learners.steps import TinyNetwork, make_batch, make_step, setting
from torch import Tensor

from reprise.learners import Batch
from reprise.learners.er import ER
from reprise.learners.losses import cross_entropy

INCOMING = make_batch([1, 4, 1], [10, 11, 12], seed=1)


class Moving(ER):
    """Moves by whatever its test says."""

    moves_first = True
    how: Callable[[Tensor], Tensor]

    def first_loss(self, logits: Tensor, incoming: Batch) -> Tensor:
        return cross_entropy(logits, incoming)

    def first_move(self, gradient: Tensor, incoming: Batch) -> Tensor:
        return self.how(gradient)


def learner(how: Callable[[Tensor], Tensor]) -> Moving:
    made = Moving(TinyNetwork(), setting())
    made.how = how
    return made


def weights(made: Moving) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in made.net.parameters()])


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda gradient: 0.5 * gradient,
    "in place": lambda gradient: gradient.mul_(0.5),
    "one number for all": lambda gradient: torch.full((), 0.25).expand(len(gradient)),
    "every second": lambda gradient: torch.stack([0.5 * gradient, 9 + gradient], 1)[:, 0],
    "double": lambda gradient: 0.5 * gradient.double(),
    "half": lambda gradient: torch.full_like(gradient, 0.25, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_a_move_is_added_whatever_it_is_kept_as(how: Callable[[Tensor], Tensor]) -> None:
    made = learner(how)
    gradient = made._first_gradient(INCOMING)
    wanted = weights(made) + how(gradient.clone()).float()
    row = made.checked_move(gradient.clone(), INCOMING)
    assert row.is_contiguous()
    assert row.dtype == torch.float32
    made.before(make_step(INCOMING))
    torch.testing.assert_close(weights(made), wanted)


@pytest.mark.parametrize(
    "wrong", [lambda row: row[:-1], lambda row: row[None], lambda row: row.sum(), lambda row: None]
)
def test_a_move_of_another_shape_is_refused(wrong: Callable[[Tensor], Tensor]) -> None:
    made = learner(wrong)
    before = weights(made)
    with pytest.raises(
        ValueError,
        match=r"first_move of Moving must give a number for each of 96 parameters, got (a tensor of shape|None)",
    ):
        made.before(make_step(INCOMING))
    assert torch.equal(weights(made), before)


def test_a_parameter_that_the_pass_leaves_out_has_no_gradient_and_moves_all_the_same() -> None:
    made = learner(lambda gradient: 1 + gradient)
    made.net.register_parameter("aside", torch.nn.Parameter(torch.zeros(4)))
    gradient = made._first_gradient(INCOMING)
    names = [name for name, parameter in made.net.named_parameters() for _ in range(parameter.numel())]
    aside = torch.tensor([name == "aside" for name in names])
    assert not gradient[aside].any()
    assert gradient[~aside].any()
    made.before(make_step(INCOMING))
    assert torch.equal(made.net.get_parameter("aside").detach(), torch.ones(4))


def test_a_parameter_that_is_not_trained_has_no_gradient_and_stays() -> None:
    made = learner(lambda gradient: 1 + gradient)
    names = [name for name, _ in made.net.named_parameters()]
    wanted = {name: made.net.get_parameter(name).detach() + 1 for name in names}
    gradient = dict(zip(names, parts_of(made, made._first_gradient(INCOMING)), strict=True))
    still = names[0]
    made.net.get_parameter(still).requires_grad_(False)
    for name, part in zip(names, parts_of(made, made._first_gradient(INCOMING)), strict=True):
        assert torch.equal(part, torch.zeros_like(part) if name == still else gradient[name]), name
    before = made.net.get_parameter(still).clone()
    made.before(make_step(INCOMING))
    assert torch.equal(made.net.get_parameter(still), before)
    for name in names[1:]:
        torch.testing.assert_close(made.net.get_parameter(name).detach(), wanted[name] + gradient[name])


def parts_of(made: Moving, row: Tensor) -> list[Tensor]:
    """A row of all parameters, cut into them."""
    parameters = list(made.net.parameters())
    parts = torch.split(row, [parameter.numel() for parameter in parameters])
    return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]


def test_a_move_is_computed_in_single_precision_whatever_the_step_is() -> None:
    seen: list[tuple[bool, bool]] = []

    def how(gradient: Tensor) -> Tensor:
        seen.append((torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()))
        return torch.zeros_like(gradient)

    made = learner(how)
    made.before(make_step(INCOMING))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made.before(make_step(INCOMING))
        assert torch.is_autocast_enabled("cpu")
    assert seen == [(False, False)] * 2
