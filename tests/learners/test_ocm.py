"""OCM: its contrastive terms and its whole loss against literal computations; its previous model."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from reprise.core.rng import Random
from reprise.learners import Batch, LearnerContext, Step, contrast, ocm, ocm_views
from reprise.learners.ocm import OCM
from reprise.nets import build

CLASSES, SIZE, WIDTH = 6, 8, 2
EPS = 1e-8


def images(count: int, seed: int) -> torch.Tensor:
    numbers = Random(seed, "images").fractions(count * 3 * SIZE * SIZE)
    return torch.from_numpy(numbers).view(count, 3, SIZE, SIZE).float() * 4 - 2


def batch(labels: list[int], seed: int) -> Batch:
    count = len(labels)
    return Batch(images(count, seed), torch.tensor(labels), torch.arange(count), torch.full((count,), 1 / count))


def a_step(number: int, labels: list[int], replay: list[int] | None = None, seen: list[int] | None = None) -> Step:
    incoming = batch(labels, 10 * number)
    marks = [torch.zeros(CLASSES, dtype=torch.bool) for _ in range(2)]
    marks[0][labels] = True
    marks[1][labels if seen is None else seen] = True
    stored = () if replay is None else (batch(replay, 10 * number + 1),)
    return Step(number, incoming, stored, marks[0], marks[1], incoming.ids)


def learner(passes: str = "separate", **given: object) -> OCM:
    net = build(classes=CLASSES, width=WIDTH, head="linear", seed=1)
    given = {"rotations": 4, "projection": 5, "refresh": 4, **given}
    return OCM(net, LearnerContext(CLASSES, 100, seed=3, passes=passes), **given)  # type: ignore[arg-type]


def train(model: OCM, *steps: Step) -> list[float]:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses = []
    for step in steps:
        loss, logits = model(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.after(step, logits.detach())
        losses.append(float(loss.detach()))
    return losses


# Contrast


def literal_costs(matrix: NDArray[np.float64], temperature: float, itself: bool) -> list[list[float]]:
    rows = []
    for i, row in enumerate(matrix.tolist()):
        weights = [
            0.0 if i == j and not itself else math.exp((value - max(row)) / temperature) for j, value in enumerate(row)
        ]
        rows.append([-math.log(weight / (sum(weights) + EPS) + EPS) for weight in weights])
    return rows


def literal_same(cost: list[list[float]], labels: list[int]) -> float:
    total = 0.0
    for row, label in zip(cost, labels, strict=True):
        own = [value for value, other in zip(row, labels, strict=True) if other == label]
        total += sum(own) / len(own)
    return total / len(cost)


def literal_incoming(matrix: NDArray[np.float64], labels: list[int], temperature: float) -> float:
    half = len(labels)
    cost = literal_costs(matrix, temperature, itself=False)
    pairs = sum(cost[i][half + i] + cost[half + i][i] for i in range(half)) / (2 * half)
    return pairs + 2 * literal_same(cost, labels + labels)


def literal_memory(matrix: NDArray[np.float64], labels: list[int], temperature: float) -> float:
    return literal_same(literal_costs(matrix, temperature, itself=True), labels + labels)


def literal_previous(matrix: NDArray[np.float64], labels: list[int], temperature: float) -> float:
    return literal_same(literal_costs(matrix, temperature, itself=True), labels)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("labels", [[0, 1, 0, 2], [3, 3, 3, 3], [0, 1, 2, 3]])
def test_contrastive_terms_are_the_published_ones(labels: list[int], temperature: float) -> None:
    two = Random(0, "similarities").fractions(64).reshape(8, 8) * 4 - 2
    two += 2 * np.eye(8)  # the diagonal is the largest, so leaving it out matters
    one = two[:4, :4]
    given = torch.tensor(labels)
    for term, literal, matrix in [
        (contrast.incoming_term, literal_incoming, two),
        (contrast.memory_term, literal_memory, two),
        (contrast.previous_term, literal_previous, one),
    ]:
        value = float(term(torch.from_numpy(matrix), given, temperature))
        assert value == pytest.approx(literal(matrix, labels, temperature), rel=1e-12)
        single = float(term(torch.from_numpy(matrix).float(), given, temperature))
        assert single == pytest.approx(value, rel=1e-4)


def test_similarity_is_not_taken_in_reduced_precision() -> None:
    rows = contrast.unit(images(6, 0).flatten(1))
    with torch.autocast("cpu", torch.bfloat16):
        assert (rows @ rows.T).dtype == torch.bfloat16  # what it would be
        inside = contrast.similarity(rows, rows)
    torch.testing.assert_close(inside, rows @ rows.T, rtol=1e-6, atol=1e-6)


# The whole loss


def a_view(x: torch.Tensor, random: Random) -> torch.Tensor:
    """A view without chance in it."""
    return 0.5 * x.flip(3) + 0.1


def literal_loss(model: OCM, step: Step, passes: str) -> tuple[float, NDArray[np.float64]]:
    """The loss and the incoming logits by loops over examples, on features that copies of the two networks give."""
    net, previous, temperature, turns = copy.deepcopy(model.net), model.previous_net, model.temperature, model.rotations
    weight, bias = (p.detach().double().numpy() for p in (model.projection.weight, model.projection.bias))
    head, offset = (p.detach().double().numpy() for p in (net.fc.weight, net.fc.bias))

    def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([row / math.sqrt(sum(row**2)) for row in rows])

    def pair(x: torch.Tensor) -> torch.Tensor:
        turned = ocm_views.rotations(x, turns)
        return torch.cat([turned, a_view(turned, Random(0, ""))])

    def features(network: torch.nn.Module, x: torch.Tensor) -> NDArray[np.float64]:
        with torch.no_grad():
            return network.features(x).double().numpy()  # type: ignore[operator, no-any-return]

    def mean_cross_entropy(rows: NDArray[np.float64], labels: list[int]) -> float:
        each = [math.log(sum(np.exp(row))) - row[label] for row, label in zip(rows, labels, strict=True)]
        return sum(each) / len(each)

    def matrix(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        start = random.below(rows.shape[1] - len(weight))
        projected, run = unit(rows @ weight.T + bias), unit(rows)[:, start : start + len(weight)]
        size = range(len(rows))
        return np.array([[sum(projected[i] * (projected[j] + run[j])) for j in size] for i in size])

    def names(labels: list[int]) -> list[int]:
        return [label + 1000 * position for position in range(turns) for label in labels]

    random = Random(model.setting.seed, f"OCM views/{step.number}")
    pairs = [pair(one.x) for one in (step.incoming, *step.replay)]
    if passes == "joint":
        joint = features(net, torch.cat(pairs))
        rows = [joint[: len(pairs[0])], joint[len(pairs[0]) :]]
    else:
        rows = [features(net, x) for x in pairs]
    incoming = step.incoming.y.tolist()
    loss = literal_incoming(matrix(rows[0]), names(incoming), temperature)
    logits = rows[0][: len(incoming)] @ head.T + offset
    if not step.replay:
        seen = features(net, a_view(step.incoming.x, random)) @ head.T + offset
        return loss + mean_cross_entropy(seen, incoming), logits

    (memory,) = step.replay
    labels = memory.y.tolist()
    loss += literal_memory(matrix(rows[1]), names(labels), temperature)
    seen = features(net, a_view(memory.x, random)) @ head.T + offset
    loss += mean_cross_entropy(seen, labels)
    known = [c for c in range(CLASSES) if model.known[c]]
    if known:
        then_weight, then_bias = (p.double().numpy() for p in model.previous_projection.parameters())
        then_head, then_offset = (p.double().numpy() for p in (previous.fc.weight, previous.fc.bias))
        half = len(rows[1]) // 2
        now = unit(rows[1][:half] @ weight.T + bias)
        then = unit(features(previous, pairs[1][:half]) @ then_weight.T + then_bias)
        loss += literal_previous(now @ then.T, names(labels), temperature)
        earlier = features(previous, a_view(memory.x, random)) @ then_head.T + then_offset
        squares = [(seen[i, c] - earlier[i, c]) ** 2 for i in range(len(labels)) for c in known]
        loss += sum(squares) / len(squares)
    return loss, logits


def doubled(batch: Batch) -> Batch:
    return dataclasses.replace(batch, x=batch.x.double())


@pytest.mark.parametrize("passes", ["separate", "joint"])
@pytest.mark.parametrize("turns", [4, 16])
def test_whole_loss_is_the_published_one(turns: int, passes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocm, "views", a_view)
    model = learner(passes, rotations=turns, refresh=5).double()
    steps = [
        a_step(0, [4, 1, 1]),
        a_step(1, [1, 2, 4], replay=[1, 4], seen=[1, 2, 4]),  # no previous model yet
        a_step(2, [0, 2], replay=[2, 4, 1], seen=[0, 1, 2, 4]),
    ]
    for number, single in enumerate(steps):
        step = dataclasses.replace(single, incoming=doubled(single.incoming), replay=tuple(map(doubled, single.replay)))
        assert int(model.known.sum()) == (0, 0, 3)[number]
        expected, expected_logits = literal_loss(model, step, passes)
        loss, logits = copy.deepcopy(model)(step)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(logits.numpy(), expected_logits, atol=1e-6)
        assert not logits.requires_grad
        train(model, step)


@pytest.mark.parametrize("part", ["net.conv1", "net.layer4", "net.fc", "projection"])
def test_gradient_is_the_slope_of_the_literal_loss(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocm, "views", a_view)
    model = learner(refresh=2, temperature=0.5).double()
    steps = [a_step(0, [4, 1]), a_step(1, [0, 2], replay=[4, 1, 4], seen=[0, 1, 2, 4])]
    first, step = (
        dataclasses.replace(one, incoming=doubled(one.incoming), replay=tuple(map(doubled, one.replay)))
        for one in steps
    )
    train(model, first)
    train(model, dataclasses.replace(first, number=7, ids=first.ids[:1]))  # away from the previous model
    weights = [weight for name, weight in model.named_parameters() if name.startswith(part)]
    random = Random(0, part)
    way = [torch.from_numpy(random.fractions(w.numel()) - 0.5).view(w.shape) for w in weights]
    slopes = torch.autograd.grad(model(step).loss, weights)
    expected = sum(float((slope * one).sum()) for slope, one in zip(slopes, way, strict=True))
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            for weight, one in zip(weights, way, strict=True):
                weight += sign * 1e-6 * one
            ends.append(literal_loss(model, step, "separate")[0])
            for weight, one in zip(weights, way, strict=True):
                weight -= sign * 1e-6 * one
    assert abs(expected) > 1e-3
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(expected, rel=1e-3)


# Between steps

STEPS = [a_step(0, [0, 1]), *[a_step(n, [n % 5, (n + 1) % 5], replay=[0, 1], seen=[0, 1, 2]) for n in range(1, 6)]]


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = learner(rotations=16)
    losses = train(whole, *STEPS)
    first = learner(rotations=16)
    assert train(first, *STEPS[:3]) == losses[:3]
    save_file(first.state_dict(), tmp_path / "learner.safetensors")
    second = learner(rotations=16)
    train(second, *STEPS[1:3])  # something else to forget: other weights, another count
    second.load_state_dict(load_file(tmp_path / "learner.safetensors"))
    assert train(second, *STEPS[3:]) == losses[3:]
    assert all(
        torch.equal(a, b) for a, b in zip(second.state_dict().values(), whole.state_dict().values(), strict=True)
    )


def previous_state(model: OCM) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items() if name.startswith("previous_")}


def test_previous_model_is_the_network_of_every_so_many_examples() -> None:
    model = learner(refresh=5)  # two examples a step: due after steps 3, 5, 8
    taken = previous_state(model)
    for number, step in enumerate(STEPS, 1):
        before = model.known.clone()
        train(model, step)
        now = previous_state(model)
        if number in (3, 5):
            taken = now
            for name, weight in [*model.net.named_parameters(), *model.projection.named_parameters()]:
                place = "previous_projection" if name in ("weight", "bias") else "previous_net"
                assert torch.equal(now[f"{place}.{name}"], weight)
            assert torch.equal(model.known, step.seen)
        else:
            assert all(torch.equal(now[name], taken[name]) for name in taken)
            assert torch.equal(model.known, before)


def test_no_statistics_of_the_previous_model_move_and_those_of_the_network_do() -> None:
    model = learner(refresh=2)
    train(model, *STEPS[:2])
    assert not list(model.previous_net.buffers())  # it keeps none
    before, counted = previous_state(model), int(model.net.bn1.num_batches_tracked)  # type: ignore[arg-type]
    mean = model.net.bn1.running_mean.clone()  # type: ignore[union-attr, operator]
    model(STEPS[2])
    after = previous_state(model)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert int(model.net.bn1.num_batches_tracked) == counted + 3  # type: ignore[arg-type]
    assert not torch.equal(model.net.bn1.running_mean, mean)  # type: ignore[arg-type]


def test_gradient_reaches_network_head_and_projection_and_not_the_previous_model() -> None:
    model = learner(refresh=2)
    train(model, *STEPS[:2])
    model.zero_grad(set_to_none=True)
    model(STEPS[2]).loss.backward()
    for name, weight in model.named_parameters():
        if name.startswith("previous_"):
            assert weight.grad is None
            assert not weight.requires_grad
        else:
            assert weight.grad is not None, name
            assert weight.grad.abs().sum() > 0, name


def test_chance_comes_from_seed_and_step_number_alone() -> None:
    step = a_step(7, [0, 1], replay=[2, 3])
    state = torch.get_rng_state()
    one, two, other = learner(), learner(), learner()
    two(a_step(2, [3, 4]))  # BatchNorm's running statistics are all that this moves, and training does not read them
    assert torch.equal(one(step).loss, two(step).loss)
    assert not torch.equal(one(step).loss, other(a_step(8, [0, 1], replay=[2, 3])).loss)
    assert torch.equal(torch.get_rng_state(), state)
    seeded = OCM(build(classes=CLASSES, width=WIDTH, seed=1), LearnerContext(CLASSES, 100, seed=4), projection=5)
    assert not torch.equal(seeded.projection.weight, one.projection.weight)


def test_a_narrow_network_has_a_projection_no_wider_than_its_features() -> None:
    model = learner(projection=128)
    assert model.projection.weight.shape == (8 * WIDTH, 8 * WIDTH)
    assert math.isfinite(train(model, STEPS[0])[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rotations": 8}, "rotations.*1, 4, 16.*8"),
        ({"refresh": 0}, "refresh.*1 or more.*0"),
        ({"projection": -1}, "projection.*1 or more.*-1"),
        ({"temperature": 0.0}, "temperature.*above 0.*0.0"),
    ],
)
def test_wrong_hyperparameters_are_named(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        learner(**given)  # type: ignore[arg-type]


def test_its_descent_is_the_published_one() -> None:
    assert (OCM.descent.optimizer, OCM.descent.lr, OCM.descent.weight_decay) == ("adam", 1e-3, 1e-4)
    assert not OCM.parallel
