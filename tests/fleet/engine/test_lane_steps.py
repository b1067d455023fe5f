"""A lane of two runs, step by step, against the plain loop; without a GPU, Triton's interpreter runs its kernels."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.stacked import few_tiles
from train.tinyruns import Thin

from reprise import nets
from reprise.data import from_arrays
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.engine.lane import Lane
from reprise.fleet.lane_plan import LanePlan, make_lane_plan
from reprise.learners import Learner
from reprise.learners.er import ER
from reprise.learners.losses import cross_entropy
from reprise.learners.refresh import Refresh
from reprise.runs.plan import Labels
from reprise.train import Images, Run, Training, steps
from reprise.train.evaluate import correct_per_class
from reprise.train.machine import computes_bf16
from reprise.train.pixels import Pixels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES, SIDE = 4, 8
DONE = 5  # steps: three of the first task, the last of them short, and two of the second


def some_images() -> Images:
    """Random pixels, brighter the larger the class's number; not in the order of C."""
    random = np.random.default_rng(3)

    def part(each, split):
        labels = np.repeat(np.arange(CLASSES), each)
        pixels = random.integers(0, 100, (len(labels), SIDE, SIDE, 3)) + 40 * labels[:, None, None, None]
        backwards = pixels.transpose(3, 2, 1, 0).astype(np.uint8, order="C").transpose(3, 2, 1, 0)
        return from_arrays(backwards if DEVICE.type == "cuda" else pixels.astype(np.uint8), labels, split=split)

    return Images(part(7, "train"), part(5, "test"))


def far(mine, other, start):
    """How far apart two networks are, relative to the way that one of them has come."""
    ways = [
        torch.cat([(value.detach() - start[name]).flatten() for name, value in net.named_parameters()])
        for net in (mine, other)
    ]
    return ((ways[0] - ways[1]).norm() / ways[1].norm()).item()


def plainly(run: Run, images: Images, done: int) -> tuple[Training, dict[str, torch.Tensor]]:
    """The plain loop's run after so many steps, and where it began."""
    plain = Training(run, images, DEVICE)
    start = {name: value.detach().clone() for name, value in plain.net.named_parameters()}
    going = steps(plain)
    while plain.step < done:
        next(going)
    return plain, start


def check(lane: Lane, slot: int, run: Run, images: Images, done: int = DONE) -> None:
    plain, start = plainly(run, images, done)
    torch.testing.assert_close(lane.losses[slot, :done], plain.losses[:done], rtol=2e-3, atol=0)
    assert torch.equal(lane.hits[slot, :done], plain.hits[:done])
    assert torch.equal(lane.seen[slot, :-1], plain.feed.seen)
    assert far(lane.nets[slot], plain.net, start) < 1e-2
    assert far(lane.mean_nets[slot], plain.readout.net, start) < 1e-2
    for name, value in plain.net.named_buffers():
        if value.is_floating_point():
            torch.testing.assert_close(lane.nets[slot].get_buffer(name), value, rtol=1e-3, atol=1e-4, msg=name)
    if hasattr(plain.learner, "stored"):
        mine = lane.learners[slot].stored.logits[:-1]
        torch.testing.assert_close(mine, plain.learner.stored.logits, rtol=1e-3, atol=1e-3)
    if hasattr(plain.learner, "fisher"):
        check_remembered(lane.learners[slot], plain.learner)
    if lane.biases is not None:
        torch.testing.assert_close(lane.biases[slot, : done + 1], plain.biases[: done + 1], rtol=1e-3, atol=1e-6)


def check_remembered(mine: Refresh, theirs: Refresh) -> None:
    """Moves and examples are counted alike, and F has been refreshed from the same gradients, to rounding."""
    assert mine.moves > 0
    for name in ("key", "moves", "since"):
        assert torch.equal(mine.get_buffer(name), theirs.get_buffer(name)), name
    for name in ("fisher", "gathered"):
        one, other = mine.get_buffer(name), theirs.get_buffer(name)
        assert (one - other).norm() < 1e-2 * other.norm(), name


REFRESH = {
    "learner": "refresh",
    "head": "linear",
    "hyper": {"unlearn": 1e-3, "noise": 0.1, "damping": 1.0, "fisher_every": 8},
}


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01}, {"learner": "der++", "head": "linear"}, REFRESH], ids=str)
def test_steps_are_the_plain_loops(settings, monkeypatch):
    """Nothing stored; a few; a short batch; a second task. Little is learnt, so that little drifts apart.

    The second slot has run something before, and rests while the first goes one step on.
    """
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **settings)
    runs = [run.replace(seed=seed) for seed in range(3)]
    plans = [make_lane_plan(one, Labels.of(images, one)) for one in runs]
    assert plans[0].counts[:DONE, 0].tolist() == [5, 5, 4, 5, 5]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    lane = Lane(run, train, test, CLASSES, plans[0].plan.steps, 2, width=2)

    def begin(slot, seed):
        net = nets.build(classes=CLASSES, head=run.network.head, width=run.network.width, seed=seed)
        lane.begin(slot, plans[seed], initial_row(net))

    begin(1, 2)
    lane.rest(0)
    lane.advance(1)
    begin(0, 0)
    begin(1, 1)
    lane.advance(DONE)
    lane.rest(1)
    for slot in (0, 1):
        lane.evaluate(slot, 0, np.arange(len(images.test)))
    lane.synchronize()
    check(lane, 0, runs[0], images)
    check(lane, 1, runs[1], images)
    before = lane.rows[1].clone()
    lane.advance(1)
    lane.synchronize()
    assert lane.counter.tolist() == [DONE + 1, DONE]
    assert torch.equal(lane.rows[1], before)
    ids = torch.arange(len(images.test), device=DEVICE)
    for which, net in enumerate((lane.mean_nets[1], lane.nets[1])):
        assert lane.correct[1, 0, which].tolist() == correct_per_class(net, test, ids, CLASSES).tolist()


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01}, {"learner": "der++", "head": "linear"}], ids=str)
def test_batches_that_are_not_full_are_no_matter_of_batchnorm(settings, monkeypatch):
    """A network with BatchNorm that is not stacked: its statistics are those of the real images of every step."""
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: Thin(classes, head, seed, batchnorm=True))
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=1e-3, ema=32, **settings)
    planned = make_lane_plan(run, Labels.of(images, run))
    assert planned.counts[:DONE, :2].tolist() == [[5, 0], [5, 3], [4, 3], [5, 3], [5, 3]]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    with pytest.raises(ValueError, match="a lane each, got 2"):
        Lane(run, train, test, CLASSES, planned.plan.steps, 2, width=2)
    lane = Lane(run, train, test, CLASSES, planned.plan.steps, 2)
    net = nets.build(classes=CLASSES, head=run.network.head, seed=run.seed)
    lane.rewind()
    lane.advance(2)  # as a measurement does, on whatever is there
    for _ in range(2):  # the second time, nothing of the first remains
        lane.begin(0, planned, initial_row(net))
        lane.advance(DONE)
        lane.evaluate(0, 0, np.arange(len(images.test)))
        lane.rest(0)
        before = lane.rows.clone()
        lane.advance(2)
        lane.synchronize()
        assert torch.equal(lane.rows, before)
        check(lane, 0, run, images)
    same_tests(lane, test)


class FullSteps:
    """Stands in for a graph: takes steps whose batches are full, and no others."""

    def __init__(self, lane: Lane) -> None:
        self.lane, self.replayed = lane, 0

    def replay(self) -> None:
        lane = self.lane
        assert lane.counts[0, lane.counter[0]].tolist() == list(lane.sizes)
        self.replayed += 1
        lane._step()


@pytest.fixture
def own_norm(monkeypatch):
    """Networks that have BatchNorm and are not stacked."""
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: Thin(classes, head, seed, batchnorm=True))


def one_of(images: Images) -> tuple[Lane, LanePlan, torch.Tensor]:
    """A lane of one run, its plan and its initial weights."""
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=1e-3, ema=32)
    planned = make_lane_plan(run, Labels.of(images, run))
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    weights = initial_row(nets.build(classes=CLASSES, head="cosine", seed=0))
    return Lane(run, train, test, CLASSES, planned.plan.steps, 2), planned, weights


@pytest.mark.usefixtures("own_norm")
def test_full_steps_are_of_the_graph_and_others_search_for_no_algorithm(monkeypatch):
    lane, planned, weights = one_of(some_images())
    lane.graph = graph = FullSteps(lane)
    searched, usual = [], Lane._step

    def noted(self, counts=None):
        searched.append((counts, torch.backends.cudnn.benchmark))
        usual(self, counts)

    monkeypatch.setattr(Lane, "_step", noted)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    lane.begin(0, planned, weights)
    lane.advance(DONE)
    lane.synchronize()
    assert graph.replayed == 3
    assert [(list(counts), found) for counts, found in searched if counts is not None] == [
        ([5, 0], False),
        ([4, 3], False),
    ]
    assert lane.counter.tolist() == [DONE]
    lane.rest(0)
    lane.advance(2)
    assert lane.counter.tolist() == [DONE]
    lane.counts.copy_(torch.tensor(lane.sizes))
    lane.rewind()  # as if all batches were full, also where a run has ended
    lane.advance(2)
    lane.synchronize()
    assert (lane.counter.tolist(), graph.replayed) == ([2], 5)


@pytest.mark.usefixtures("own_norm")
@pytest.mark.parametrize("which", [1, 2], ids=["average", "live"])
def test_a_test_that_fails_leaves_nothing_for_the_next_run(which, monkeypatch):
    images = some_images()
    lane, planned, weights = one_of(images)

    def losses():
        lane.begin(0, planned, weights)
        lane.advance(DONE)
        lane.synchronize()
        return lane.losses[0, :DONE].clone()

    first, usual, tested = losses(), Thin.features, []

    def failing(net, x):
        if not net.training:
            tested.append(net)
            if len(tested) == which:
                raise torch.OutOfMemoryError("so it is said")
        return usual(net, x)

    with monkeypatch.context() as patched:
        patched.setattr(Thin, "features", failing)
        with pytest.raises(torch.OutOfMemoryError):
            lane.evaluate(0, 0, np.arange(len(images.test)))
    assert torch.equal(losses(), first)


def same_tests(lane: Lane, test: Pixels) -> None:
    """The counts of the first slot are those of its networks."""
    ids = torch.arange(len(test.labels), device=DEVICE)
    for which, net in enumerate((lane.mean_nets[0], lane.nets[0])):
        assert lane.correct[0, 0, which].tolist() == correct_per_class(net, test, ids, CLASSES).tolist()


def left_by(lane: Lane, slot: int, steps: int) -> dict[str, torch.Tensor]:
    """All that a run leaves after so many steps."""
    left = {name: getattr(lane, name)[slot] for name in ("rows", "mean_rows", "counter")}
    left |= {name: getattr(lane, name)[slot, :steps] for name in ("losses", "hits")}
    return {name: one.clone() for name, one in (left | dict(lane.learners[slot].named_buffers())).items()}


def test_a_learner_that_moves_first_depends_neither_on_its_neighbour_nor_on_who_was_there_before(monkeypatch):
    """It comes after a run whose weights were not numbers, and beside one of another seed; and is the plain loop's."""
    taken = 3  # with nothing stored, with little, and a short batch
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **REFRESH)
    planned = [make_lane_plan(run.replace(seed=seed), Labels.of(images, run)) for seed in range(2)]
    rows = [initial_row(nets.build(classes=CLASSES, head="linear", width=2, seed=seed)) for seed in range(2)]
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    alone, amid = (Lane(run, train, test, CLASSES, planned[0].plan.steps, 2, width=width) for width in (1, 2))
    amid.begin(1, planned[0], torch.full_like(rows[0], torch.nan))
    amid.rest(0)
    amid.advance(1)
    amid.synchronize()
    assert amid.learners[1].fisher.isnan().any()
    amid.begin(0, planned[1], rows[1])
    amid.begin(1, planned[0], rows[0])
    alone.begin(0, planned[0], rows[0])
    for lane in (alone, amid):
        lane.advance(taken)
        lane.synchronize()
    mine, theirs = left_by(amid, 1, taken), left_by(alone, 0, taken)
    assert mine["fisher"].any()
    for name, value in theirs.items():
        if name == "stored.logits":  # the last row is of what is not real
            value, mine[name] = value[:-1], mine[name][:-1]
        assert torch.equal(mine[name], value), name
    assert not torch.equal(left_by(amid, 0, taken)["rows"], mine["rows"])
    check(alone, 0, run.replace(seed=0), images, taken)


def move_and_more(learner, step):
    """What a learner does before a step that is not only to move."""
    Learner.before(learner, step)
    with torch.no_grad():
        for parameter in learner.net.parameters():
            parameter.mul_(1.01)


def test_what_a_learner_does_before_a_step_by_itself_is_done_on_a_lane(monkeypatch):
    monkeypatch.setattr(Refresh, "before", move_and_more)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, lr=2e-5, ema=32, **REFRESH)
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    assert not lane.padded  # the network is not stacked
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="linear", width=2, seed=0)))
    lane.advance(3)
    lane.synchronize()
    check(lane, 0, run, images, 3)


@pytest.mark.parametrize("norm", [True, False], ids=["BatchNorm", "padded"])
def test_a_learner_moves_first_on_a_lane_of_its_own(norm, monkeypatch):
    """Of networks that are not stacked: its moves are the plain loop's, whichever run the lane had before."""
    build = partial(Thin, batchnorm=norm)
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: build(classes, head, seed))
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, lr=2e-5, ema=32, **REFRESH)
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    with pytest.raises(ValueError, match="a lane each, got 2"):
        Lane(run, train, test, CLASSES, 20, 2, width=2)
    lane = Lane(run, train, test, CLASSES, 20, 2)
    for seed in (1, 0):
        one = run.replace(seed=seed)
        planned = make_lane_plan(one, Labels.of(images, one))
        lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="linear", seed=seed)))
        lane.advance(DONE)
        lane.evaluate(0, 0, np.arange(len(images.test)))
        lane.synchronize()
        check(lane, 0, one, images)
    same_tests(lane, test)


@pytest.mark.parametrize("settings", [{"weight_decay": 0.01, "head": "linear"}, REFRESH], ids=["er-ace", "refresh"])
@pytest.mark.parametrize("stackable", [True, False], ids=["ResNet", "Thin"])
def test_parameters_that_are_not_trained_stay_as_they_are(stackable, settings, monkeypatch):
    """A convolution's and a norm's. Such a network has a lane to itself, and is tested like any other."""
    usual, still = nets.build, ("conv1.weight", "bn1.bias", "fc.bias")

    def build(*names, classes, head, seed, **settings):
        net = Thin(classes, head, seed, batchnorm=True)
        if stackable:
            net = usual(*names, classes=classes, head=head, seed=seed, **settings)
        for name in still:
            net.get_parameter(name).requires_grad_(False)
        return net

    monkeypatch.setattr(nets, "build", build)
    images = some_images()
    run = Run.of(dataset="some", tasks=2, batch=5, replay=3, buffer=9, width=2, **{"lr": 1e-4, "ema": 32, **settings})
    planned = make_lane_plan(run, Labels.of(images, run))
    train, test = Pixels(images.train, DEVICE), Pixels(images.test, DEVICE)
    lane = Lane(run, train, test, CLASSES, planned.plan.steps, 2)
    net = nets.build(classes=CLASSES, head="linear", width=2, seed=0)
    lane.begin(0, planned, initial_row(net))
    lane.advance(DONE)
    lane.evaluate(0, 0, np.arange(len(images.test)))
    lane.synchronize()
    check(lane, 0, run, images)
    same_tests(lane, test)
    for name, parameter in net.named_parameters():
        for now in (lane.nets[0], lane.mean_nets[0]):
            assert torch.equal(now.get_parameter(name).cpu(), parameter) is (name in still), name


@pytest.mark.usefixtures("own_norm")
@pytest.mark.parametrize("moves", [True, False])
def test_before_is_called_of_learners_that_have_one_of_their_own(moves, monkeypatch):
    """And where the step's own passes are: a run in bf16 has them in bf16, where the device computes in it."""
    called = []
    monkeypatch.setattr(ER, "before", lambda self, step: called.append(torch.is_autocast_enabled(DEVICE.type)))
    monkeypatch.setattr(ER, "moves_first", moves)
    images = some_images()
    run = Run.of(dataset="some", learner="er", tasks=2, batch=5, replay=3, buffer=9, precision="bf16")
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    called.clear()
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, head="cosine", seed=0)))
    lane.advance(1)  # with nothing stored, and so outside the graph
    lane.synchronize()
    assert called == [computes_bf16(DEVICE.type)]


def test_the_loss_before_a_move_is_computed_as_the_step_s_own(monkeypatch):
    """In bf16 where the run is and the device computes in it; what the learner is given is in single precision."""
    seen = []

    def first_loss(self, logits, incoming):
        seen.append((torch.is_autocast_enabled(DEVICE.type), logits.dtype))
        return cross_entropy(logits, incoming)

    monkeypatch.setattr(ER, "moves_first", True)
    monkeypatch.setattr(ER, "first_loss", first_loss)
    monkeypatch.setattr(ER, "first_move", lambda self, gradient, incoming: torch.zeros_like(gradient))
    images = some_images()
    run = Run.of(dataset="some", learner="er", tasks=2, batch=5, replay=3, buffer=9, precision="bf16", width=2)
    planned = make_lane_plan(run, Labels.of(images, run))
    lane = Lane(run, Pixels(images.train, DEVICE), Pixels(images.test, DEVICE), CLASSES, planned.plan.steps, 2)
    assert lane.incoming is not None
    lane.begin(0, planned, initial_row(nets.build(classes=CLASSES, width=2, seed=0)))
    lane.advance(1)
    lane.synchronize()
    assert {*seen} == {(computes_bf16(DEVICE.type), torch.float32)}
