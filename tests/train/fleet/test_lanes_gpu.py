"""Captured lanes on a GPU against the plain loop: one step from the same state, and whole runs."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from train.fleet.gpuruns import CLASSES, DEVICE, Attentive, begin, config, images, make_lane, pixels, plan, weights

from reprise import nets
from reprise.train import Run, TrainRun, steps
from reprise.train.evaluate import correct_per_class
from reprise.train.fleet.lane import Lane

pytestmark = [
    pytest.mark.gpu,
    # Torch says so, once, of the thread that does the first backward pass, and then sets the context itself.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]
FIRST, FILLING, SHORT, REGULAR = 0, 1, 4, 6  # steps: nothing stored; a few; the last of a task, 6 examples; any other
SEEDS = range(5)


@pytest.fixture(autouse=True)
def tidy():
    yield
    gc.collect()
    torch.cuda.empty_cache()


# One step from the same state.


@torch.no_grad()
def same_state(lane: Lane, run: Run) -> None:
    """Make the lane stand where the plain run stands."""
    for mine, theirs in ((lane.net, run.net), (lane.mean_net, run.readout.net)):
        for name, value in theirs.state_dict().items():
            if value.is_floating_point():
                mine.state_dict()[name].copy_(value)
    if hasattr(run.learner, "stored"):
        lane.learner.stored.logits[:-1].copy_(run.learner.stored.logits)
    lane.seen[:-1].copy_(run.feed.seen)
    lane.counter.fill_(run.step)
    lane.done = run.step
    torch.cuda.synchronize()


def step_of_both(lane: Lane, run: Run, at: int) -> tuple[float, float]:
    """Take the plain run to step `at`, the lane after it, then both one step on; gives how far gradients are apart.

    All of them as one vector, and the farthest tensor: relative, in the Euclidean norm.
    """
    going = steps(run)
    while run.step < at:
        next(going)
    same_state(lane, run)
    before, mean_before = lane.row.values.clone(), lane.mean_row.values.clone()
    next(going)
    lane.advance(1)
    torch.cuda.synchronize()

    loss, other = lane.losses[at].item(), run.losses[at].item()
    assert abs(loss - other) <= 1e-5 * abs(other), f"the loss of step {at} is {loss}, not {other}"
    assert lane.hits[at] == run.hits[at]
    for name, value in run.net.named_buffers():
        if value.is_floating_point():
            mine = lane.net.get_buffer(name)
            torch.testing.assert_close(mine, value, rtol=1e-5, atol=1e-6, msg=f"{name} at step {at}")
    if hasattr(run.learner, "stored"):
        torch.testing.assert_close(lane.learner.stored.logits[:-1], run.learner.stored.logits, rtol=1e-4, atol=1e-4)
    check_descent(lane, before, mean_before, at)

    names = {parameter: name for name, parameter in lane.net.named_parameters()}
    mine = {names[one]: part for one, part in zip(lane.row.parameters, lane.pieces[False].parts, strict=True)}
    theirs = {name: parameter.grad for name, parameter in run.net.named_parameters()}
    assert mine.keys() == theirs.keys()
    whole, wanted = (torch.cat([grads[name].flatten() for name in theirs]) for grads in (mine, theirs))
    each = max(((mine[name] - one).norm() / one.norm()).item() for name, one in theirs.items())
    return ((whole - wanted).norm() / wanted.norm()).item(), each


def check_descent(lane: Lane, before: Tensor, mean_before: Tensor, at: int) -> None:
    """That the lane's weights went down their own gradients, and its averaged read-out went after them."""
    run, row = lane.config, lane.row
    parts = [one.permute(0, 2, 3, 1) if one.dim() == 4 else one for one in lane.pieces[False].parts]
    slope = torch.cat([one.reshape(-1) for one in parts])
    old = before[: row.weights]
    torch.testing.assert_close(row.values[: row.weights], old - run.lr * (slope + run.weight_decay * old))
    rate = lane.planned.counts[at, 0] / run.ema
    torch.testing.assert_close(lane.mean_row.values, torch.lerp(mean_before, row.values, float(rate)))
    if lane.biases is not None:
        assert torch.equal(lane.biases[at + 1], lane.net.fc.bias)


def compare_steps(run: TrainRun) -> None:
    """One step from the same state, of every kind, under several seeds.

    An activation at a ReLU's kink falls on either side of it by rounding, and moves the gradient by a hundredth,
    between any two ways of computing it. That is rare: a fault shows under every seed, this under few.
    """
    lane = make_lane(run)
    apart: dict[int, list[tuple[float, float]]] = {FIRST: [], FILLING: [], SHORT: [], REGULAR: []}
    for seed in SEEDS:
        seeded = run.with_seed(seed)
        assert plan(seeded).counts[SHORT, 0] == 6
        plain = Run(seeded, images(), DEVICE)
        begin(lane, seeded)
        for at, found in apart.items():
            found.append(step_of_both(lane, plain, at))
    for at, found in apart.items():
        assert min(found)[0] < 1e-5, f"step {at}: {found}"
        assert min(found)[1] < 1e-4, f"step {at}: {found}"
        assert max(found)[0] < 0.2, f"step {at}: {found}"


SETTINGS = [
    {"learner": "er"},
    {"learner": "er-ace", "weight_decay": 0.01},
    {"learner": "er-ace", "head": "linear"},
    {"learner": "der"},
    {"learner": "der++", "head": "linear"},
    {"learner": "der++-ace"},
    {"learner": "none"},
    {"learner": "er", "replay": 0},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_step_is_the_plain_loops(settings):
    compare_steps(config(**settings))


@pytest.fixture
def attentive(monkeypatch):
    def build(backbone, *, classes, head="cosine", width=64, seed=0, pretrained=False):
        return Attentive(classes, head, seed)

    monkeypatch.setattr(nets, "build", build)


@pytest.mark.usefixtures("attentive")
@pytest.mark.parametrize("settings", [{}, {"learner": "der++", "head": "linear"}], ids=str)
def test_a_step_of_a_network_without_batchnorm_is_the_plain_loops(settings):
    compare_steps(config(**settings))


# Whole runs.


def play(lane: Lane, others: list[Lane] = ()) -> dict[str, Tensor]:
    """Run a lane to the end of its tape, the others beside it, and give all that it leaves."""
    stream = lane.planned.stream
    for step in range(len(stream)):
        for one in (lane, *others):
            one.advance(1)
        if step + 1 in stream.boundaries:
            lane.evaluate(stream.boundaries.tolist().index(step + 1), np.arange(len(images().test)))
    torch.cuda.synchronize()
    left = {"losses": lane.losses, "hits": lane.hits, "row": lane.row.values, "mean": lane.mean_row.values}
    return {name: value.clone() for name, value in {**left, "correct": lane.correct}.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name].nan_to_num(), other[name].nan_to_num()) for name in one)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_does_not_depend_on_its_neighbours_or_its_lane(precision):
    run = config(learner="der++", head="linear", precision=precision, seed=1)
    lanes = [make_lane(run) for _ in range(4)]
    alone = play(lanes[0])
    total = len(plan(run).stream)
    assert torch.isfinite(alone["losses"][:total]).all()
    assert alone["correct"][:5].sum() > 0
    for number, lane in enumerate(lanes):
        begin(lane, run if number == 2 else run.with_seed(10 + number))
    amid = play(lanes[2], [lanes[0], lanes[1], lanes[3]])
    assert same(alone, amid)
    assert not same(alone, play_other(lanes[0]))


def play_other(lane: Lane) -> dict[str, Tensor]:
    """What another seed leaves: a comparison that finds everything equal would be worth nothing."""
    begin(lane, lane.config.with_seed(10))
    return play(lane)


@pytest.mark.parametrize("settings", [{"learner": "der", "head": "linear"}, {}], ids=str)
def test_nothing_of_a_diverged_run_remains_on_its_lane(settings):
    run = config(**settings)
    lane = make_lane(run)
    clean = play(lane)
    lane.begin(plan(run), torch.full_like(weights(run), torch.nan))
    assert torch.isnan(play(lane)["losses"]).all()
    begin(lane, run)
    assert same(play(lane), clean)


@pytest.mark.parametrize("settings", [{}, {"head": "linear", "learner": "der++"}], ids=str)
def test_a_lane_in_bf16_stays_near_the_plain_loop(settings):
    run = config(precision="bf16", **settings)
    lane, plain = make_lane(run), Run(run, images(), DEVICE)
    for _ in steps(plain):
        pass
    losses = play(lane)["losses"][: plain.steps]
    assert torch.isfinite(losses).all()
    assert abs(losses[0] - plain.losses[0]) < 0.1 * plain.losses[0]
    assert abs(losses.mean() - plain.losses.mean()) < 0.15 * plain.losses.mean()


def test_a_lane_counts_what_the_plain_evaluation_counts():
    run = config()
    lane = make_lane(run)
    lane.advance(20)
    chosen = np.flatnonzero(images().test.labels != 3)
    lane.evaluate(1, chosen)
    lane.evaluate(2, np.empty(0, np.int64))
    torch.cuda.synchronize()
    ids = torch.from_numpy(chosen).to(DEVICE)
    for place, net in enumerate((lane.mean_net, lane.net)):
        expected = correct_per_class(net, pixels()[1], ids, CLASSES)
        assert lane.correct[1, place].tolist() == expected.tolist()
        assert lane.correct[1, place, 3] == 0
    assert lane.correct[1].sum() > 0
    assert lane.correct[2].sum() == 0
