"""Captured lanes on a GPU against the plain loop: one step from the same state, and whole runs."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.gpuruns import (
    CLASSES,
    DEVICE,
    Attentive,
    Kinks,
    Mixing,
    begin,
    config,
    images,
    make_lane,
    pixels,
    plan,
    sides_of,
    weights,
)
from train.tinyruns import Thin

from reprise import nets
from reprise.fleet.engine.flat_state import aligned, shaped
from reprise.fleet.engine.lane import Lane
from reprise.train import Run, Training, steps
from reprise.train.evaluate import correct_per_class

pytestmark = [
    pytest.mark.gpu,
    # Torch says so, once, of the thread that does the first backward pass, and then sets the context itself.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]
FIRST, FILLING, SHORT, REGULAR = 0, 1, 4, 6  # steps: nothing stored; a few; the last of a task, 6 examples; any other
SEEDS = range(10)
REMEMBERED = ("fisher", "gathered", "since", "key", "moves")  # by refresh, beside what der++ stores
REFRESH = {
    "learner": "refresh",
    "head": "linear",
    "hyper": {"unlearn": 1e-3, "noise": 0.1, "damping": 1.0, "fisher_every": 14},
}
NEAR = 2e-5  # an input of a ReLU that is nearer to 0 may fall on either side of it by rounding


@pytest.fixture(autouse=True)
def tidy():
    yield
    gc.collect()
    torch.cuda.empty_cache()


# One step from the same state.


@torch.no_grad()
def same_state(lane: Lane, run: Training) -> None:
    """Make the lane's last run stand where the plain run stands."""
    for mine, theirs in ((lane.nets[-1], run.net), (lane.mean_nets[-1], run.readout.net)):
        for name, value in theirs.state_dict().items():
            if value.is_floating_point():
                mine.state_dict()[name].copy_(value)
    if hasattr(run.learner, "stored"):
        lane.learners[-1].stored.logits[:-1].copy_(run.learner.stored.logits)
    if hasattr(run.learner, "fisher"):
        for name in REMEMBERED:
            lane.learners[-1].get_buffer(name).copy_(run.learner.get_buffer(name))
    lane.body.changed()
    lane.seen[-1, :-1].copy_(run.feed.seen)
    lane.counter.fill_(run.step)
    lane.counts_ahead = iter(plan(run.run).counts[run.step :].tolist())
    torch.cuda.synchronize()


class Apart(NamedTuple):
    """How far the lane's step is from the plain one, relative; gradients in the Euclidean norm."""

    loss: float
    whole: float  # all gradients as one vector
    farthest: float  # the tensor that is farthest off
    kinks: Kinks


def step_of_both(lane: Lane, run: Training, at: int) -> Apart:
    """Take the plain run to step `at`, the lane after it, then both one step on, on the same side of every kink.

    An input of a ReLU within rounding of 0 falls on either side of it, and moves the gradient by hundredths, between
    any two ways of computing it. So the plain step lets through what the lane does. What is not that near to 0 must be
    on the same side anyway; in most steps of a thin network all are, and then the plain step is left as it is.
    """
    going = steps(run)
    while run.step < at:
        next(going)
    same_state(lane, run)
    sides = sides_of(lane)
    before = lane.rows[-1].clone()  # from where SGD descends: moved, if the learner moves first
    same_state(lane, run)
    mean_before = lane.mean_rows[-1].clone()
    with Kinks(sides) as kinks:
        next(going)
    lane.advance(1)
    torch.cuda.synchronize()

    loss, other = lane.losses[-1, at].item(), run.losses[at].item()
    assert lane.hits[-1, at] == run.hits[at]
    for name, value in run.net.named_buffers():
        if value.is_floating_point():
            mine = lane.nets[-1].get_buffer(name)
            torch.testing.assert_close(mine, value, rtol=1e-5, atol=1e-6, msg=f"{name} at step {at}")
    if hasattr(run.learner, "stored"):
        torch.testing.assert_close(
            lane.learners[-1].stored.logits[:-1], run.learner.stored.logits, rtol=1e-4, atol=1e-4
        )
    if hasattr(run.learner, "fisher"):
        for name in REMEMBERED:
            mine, theirs = (learner.get_buffer(name).double() for learner in (lane.learners[-1], run.learner))
            assert (mine - theirs).norm() <= 1e-4 * theirs.norm(), f"{name} at step {at}"
    check_descent(lane, before, mean_before, at)

    mine = gradients(lane)
    theirs = {name: parameter.grad for name, parameter in run.net.named_parameters()}
    assert mine.keys() == theirs.keys()
    whole, wanted = (torch.cat([grads[name].flatten() for name in theirs]) for grads in (mine, theirs))
    each = max(((mine[name] - one).norm() / one.norm()).item() for name, one in theirs.items())
    return Apart(abs(loss / other - 1), ((whole - wanted).norm() / wanted.norm()).item(), each, kinks)


def check(apart: Apart, which: str, near: float = NEAR, slack: float = 1) -> None:
    assert apart.kinks.farthest <= near, f"{which}: an input of a ReLU is on the other side of 0, {apart}"
    assert apart.loss < 1e-5, f"{which}: {apart}"
    assert apart.whole < slack * 1e-5, f"{which}: {apart}"
    assert apart.farthest < slack * 5e-5, f"{which}: {apart}"


def gradients(lane: Lane) -> dict[str, Tensor]:
    """What the lane's last run went down, each in its parameter's shape."""
    found = {}
    for name, parameter in lane.nets[-1].named_parameters():
        start, parts = lane.body.parts[name]
        size = aligned(parameter.numel())
        whole = lane.body.gradient[-1, start : start + parts * size].view(parts, size).sum(0)
        found[name] = shaped(whole[: parameter.numel()], parameter)
    return found


def check_descent(lane: Lane, before: Tensor, mean_before: Tensor, at: int) -> None:
    """That the lane's weights went down their own gradients, and its averaged read-out went after them."""
    descent, now = lane.descent, lane.rows[-1]
    for name, slope in gradients(lane).items():
        span = lane.layout.spans[name]
        old = shaped(before[span.start : span.end], slope)
        wanted = old - descent.lr * (slope + descent.weight_decay * old)
        torch.testing.assert_close(lane.nets[-1].get_parameter(name).detach(), wanted, msg=f"{name} at step {at}")
    rate = lane.counts[-1, at, 0].item() / lane.horizon
    torch.testing.assert_close(lane.mean_rows[-1], torch.lerp(mean_before, now, rate))
    if lane.biases is not None:
        assert torch.equal(lane.biases[-1, at + 1], lane.nets[-1].fc.bias)


def compare_steps(run: Run, width: int = 2) -> list[Kinks]:
    """One step from the same state, of every kind, under several seeds: every one must agree."""
    lane = make_lane(run, width)
    slack = 3 if run.learner.name == "refresh" else 1  # its moves end in other last digits, and so gradients differ
    found = []
    for seed in SEEDS:
        seeded = run.replace(seed=seed)
        assert plan(seeded).counts[SHORT, 0] == 6
        plain = Training(seeded, images(), DEVICE)
        begin(lane, seeded)
        for at in (FIRST, FILLING, SHORT, REGULAR):
            apart = step_of_both(lane, plain, at)
            check(apart, f"step {at}, seed {seed}", slack=slack)
            found.append(apart.kinks)
    return found


SETTINGS = [
    {"learner": "er"},
    {"learner": "er-ace", "weight_decay": 0.01},
    {"learner": "er-ace", "head": "linear"},
    {"learner": "der"},
    {"learner": "der++", "head": "linear"},
    {"learner": "der++-ace"},
    {"learner": "none"},
    {"learner": "er", "replay": 0},
    REFRESH,
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_step_is_the_plain_loops(settings):
    found = compare_steps(config(**settings))
    assert all(kinks.calls > 0 for kinks in found)
    assert sum(kinks.flips == 0 for kinks in found) >= 0.7 * len(found)  # the plain step as it is


def test_a_step_of_the_papers_network_is_the_plain_loops():
    run = config(width=64, batch=32, replay=8)
    lane = make_lane(run)
    for seed in range(3):
        plain = Training(run.replace(seed=seed), images(), DEVICE)
        begin(lane, run.replace(seed=seed))
        for at in (0, 1, 2):  # nothing stored; the last of a task, 6 examples; 32 and 8
            apart = step_of_both(lane, plain, at)
            print(f"step {at}, seed {seed}: {apart}")
            check(apart, f"step {at}, seed {seed}", 1e-4)  # longer sums, more rounding


@pytest.fixture
def built_of(monkeypatch):
    def use(network):
        def build(backbone, *, classes, head="cosine", width=64, seed=0, **_):
            return network(classes, head, seed)

        monkeypatch.setattr(nets, "build", build)

    return use


@pytest.mark.parametrize(("network", "width"), [(Attentive, 2), (Mixing, 1)])
@pytest.mark.parametrize("settings", [{}, {"learner": "der++", "head": "linear"}], ids=str)
def test_a_step_of_a_network_of_ones_own_is_the_plain_loops(settings, network, width, built_of):
    built_of(network)
    assert all(kinks.calls == 0 for kinks in compare_steps(config(**settings), width))


@pytest.mark.parametrize("width", [1, 2], ids=["by itself", "stacked"])
def test_refresh_makes_its_moves_on_a_lane(width, built_of):
    """Its moves and the noise, in a graph and outside it, against the plain loop's: losses and weights."""
    if width == 1:
        built_of(partial(Thin, batchnorm=True))
    run = config(lr=2e-5, **REFRESH)  # so slow that rounding does not grow
    done = REGULAR + 1  # when examples have been gathered since F was refreshed
    lane, plain = make_lane(run, width), Training(run, images(), DEVICE)
    before = torch.cat([value.detach().flatten() for value in plain.net.parameters()])
    going = steps(plain)
    for _ in range(done):
        next(going)
    lane.advance(done)
    torch.cuda.synchronize()
    mine, theirs = lane.learners[-1], plain.learner
    assert mine.moves == theirs.moves == done
    assert mine.key == theirs.key
    torch.testing.assert_close(lane.losses[-1, : plain.step], plain.losses[: plain.step], rtol=5e-3, atol=0)
    for one, other in ((mine.fisher, theirs.fisher), (mine.gathered, theirs.gathered)):
        assert other.norm() > 0
        assert (one - other).norm() < 0.2 * other.norm()  # of squares; one input of a ReLU on the other side is a tenth
    ways = [
        torch.cat([value.detach().flatten() for value in net.parameters()]) - before
        for net in (lane.nets[-1], plain.net)
    ]
    assert (ways[0] - ways[1]).norm() < 0.05 * ways[1].norm()


# Whole runs.


def play(lane: Lane, run: Run, others: Sequence[Lane] = ()) -> dict[str, Tensor]:
    """Take the run in a lane's last slot to the end of its tape, the others with it, and give all that it leaves."""
    stream, slot = plan(run).plan.stream, lane.width - 1
    for step in range(len(stream)):
        for one in (lane, *others):
            one.advance(1)
        if step + 1 in stream.boundaries:
            lane.evaluate(slot, stream.boundaries.tolist().index(step + 1), np.arange(len(images().test)))
    lane.rest(slot)
    torch.cuda.synchronize()
    left = {"losses": lane.losses[:, : len(stream)], "hits": lane.hits[:, : len(stream)]}
    left |= {"row": lane.rows, "mean": lane.mean_rows, "correct": lane.correct}
    return {name: value[slot].clone() for name, value in left.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name].nan_to_num(), other[name].nan_to_num()) for name in one)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("settings", [{"learner": "der++", "head": "linear"}, REFRESH], ids=["der++", "refresh"])
def test_a_run_does_not_depend_on_its_neighbours_or_its_lane(settings, precision):
    run = config(precision=precision, seed=1, **settings)
    alone = play(make_lane(run, 1), run)
    assert torch.isfinite(alone["losses"]).all()
    assert alone["correct"][:5].sum() > 0
    lanes = [make_lane(run, width) for width in (3, 2)]
    amid = play(lanes[0], run, lanes[1:])
    assert same(alone, amid)
    begin(lanes[0], run.replace(seed=10))
    assert not same(alone, play(lanes[0], run))  # or a comparison would be worth nothing


MIR = {"learner": "er-ace", "retrieval": "mir:12"}


@pytest.mark.parametrize(
    "settings", [{"learner": "der++"}, {"learner": "refresh"}, MIR], ids=["der++", "refresh", "mir"]
)
def test_a_run_that_has_a_lane_to_itself_does_not_depend_on_it(settings, built_of):
    """Of a network that mixes examples."""
    built_of(partial(Thin, batchnorm=True))
    run = config(**settings, head="linear", precision="bf16", seed=1)
    lanes = [make_lane(run, 1) for _ in range(3)]
    alone = play(lanes[0], run)
    assert torch.isfinite(alone["losses"]).all()
    for lane in lanes[1:]:
        for one in lanes:
            begin(one, run)
        assert same(alone, play(lane, run, [one for one in lanes if one is not lane]))
    begin(lanes[0], run.replace(seed=10))
    assert not same(alone, play(lanes[0], run))


@pytest.mark.parametrize("settings", [{"learner": "der++", "head": "linear"}, REFRESH], ids=["der++", "refresh"])
def test_a_slot_at_rest_stays_as_it_is(settings):
    run = config(**settings)
    lane = make_lane(run, 2)
    lane.advance(3)
    lane.rest(1)
    lane.synchronize()
    names = ("rows", "mean_rows", "counter", "losses", "hits", "biases", "seen")
    before = {name: getattr(lane, name).clone() for name in names}
    logits = lane.learners[1].stored.logits[:-1].clone()
    lane.advance(4)
    lane.synchronize()
    for name, value in before.items():
        now, then = getattr(lane, name)[1], value[1]
        if name in ("losses", "hits"):  # of what was done
            now, then = now[:3], then[:3]
        if name == "seen":  # the last entry is for what is not real
            now, then = now[:-1], then[:-1]
        assert torch.equal(now.nan_to_num(), then.nan_to_num()), name
    assert torch.equal(lane.learners[1].stored.logits[:-1], logits)
    assert lane.counter.tolist() == [7, 3]
    assert not torch.equal(lane.rows[0], before["rows"][0])


@pytest.mark.parametrize(
    "settings", [{"learner": "der", "head": "linear"}, {"precision": "bf16"}, REFRESH, MIR], ids=str
)
def test_nothing_of_a_diverged_run_remains_on_its_lane(settings):
    run = config(**settings)
    lane = make_lane(run, 1 if run.scored else 2)
    clean = play(lane, run)
    lane.begin(lane.width - 1, plan(run), torch.full_like(weights(run), torch.nan))
    assert torch.isnan(play(lane, run)["losses"]).all()
    begin(lane, run)
    assert same(play(lane, run), clean)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
@pytest.mark.parametrize("settings", [{}, {"head": "linear", "learner": "der++"}, REFRESH], ids=str)
def test_a_lane_that_rounds_stays_near_the_plain_loop(settings, precision):
    run = config(precision=precision, **settings)
    lane, plain = make_lane(run), Training(run, images(), DEVICE)
    for _ in steps(plain):
        pass
    losses = play(lane, run)["losses"]
    assert torch.isfinite(losses).all()
    assert abs(losses[0] - plain.losses[0]) < 0.02 * plain.losses[0]
    assert abs(losses.mean() - plain.losses.mean()) < 0.15 * plain.losses.mean()


def test_a_lane_counts_what_the_plain_evaluation_counts():
    run = config()
    lane = make_lane(run)
    lane.advance(20)
    chosen = np.flatnonzero(images().test.labels != 3)
    lane.evaluate(1, 1, chosen)
    lane.evaluate(1, 2, np.empty(0, np.int64))
    torch.cuda.synchronize()
    ids = torch.from_numpy(chosen).to(DEVICE)
    found = lane.correct[1]
    for which, net in enumerate((lane.mean_nets[1], lane.nets[1])):
        expected = correct_per_class(net, pixels()[1], ids, CLASSES)
        assert found[1, which].tolist() == expected.tolist()
        assert found[1, which, 3] == 0
    assert found[1].sum() > 0
    assert found[2].sum() == 0
    assert lane.correct[0].sum() == 0
