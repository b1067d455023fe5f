"""Which runs lanes can play, and which of them may share a lane."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from train.tinyruns import Thin, config

from reprise import nets
from reprise.core import registry
from reprise.core.registry import register
from reprise.fleet import grouping
from reprise.fleet.grouping import capturable, foldable, has_own_passes, lane_kind, pool_size, stacks, together
from reprise.learners import find_learner
from reprise.memory import Fifo, MaximallyInterfered
from reprise.runs import Run
from reprise.runs.run import flat_names

# What can be captured.

CAN = [
    *({"learner": name} for name in ("er", "er-ace", "der", "der++", "der++-ace", "refresh", "none", "joint")),
    {"head": "linear"},
    {"replay": 0},
    {"learner": "der++", "replay": 0},
    {"lr": 0.1, "weight_decay": 0.01},
    {"precision": "bf16"},
    {"validation": True, "evaluate_every": 3},
    {"retrieval": "fixed", "storage": "cbrs"},
    {"learner": "er", "retrieval": "mir:12"},  # its candidates are planned
]
CANNOT = [
    {"learner": "ocm"},  # its views are drawn by the host
    {"passes": "joint"},  # BatchNorm would have to leave padding out within one batch
    {"momentum": 0.9},
    {"optimizer": "adam", "momentum": 0.0},
]


@pytest.fixture
def with_triton(monkeypatch):
    monkeypatch.setattr(grouping, "find_spec", lambda name: object())


@pytest.mark.usefixtures("with_triton")
@pytest.mark.parametrize("settings", CAN, ids=str)
def test_a_step_that_needs_nothing_from_the_host_can_be_captured(settings):
    assert capturable(config(**settings))


@pytest.mark.usefixtures("with_triton")
@pytest.mark.parametrize("settings", CANNOT, ids=str)
def test_a_step_that_needs_the_host_cannot_be_captured(settings):
    assert not capturable(config(**settings))


def test_networks_are_stacked_unless_the_learner_has_passes_of_its_own(monkeypatch):
    stackable, own = nets.build(classes=3, width=2), Thin(3, "cosine", 0, batchnorm=False)
    monkeypatch.setattr(find_learner("der"), "own_passes", True)
    assert [stacks(config(learner=name), stackable) for name in ("er", "refresh", "der")] == [True, True, False]
    assert not stacks(config(learner="er"), own)
    for momentum, stacked in ((0.1, True), (0.05, False)):  # the kernels know one
        assert stacks(config(), nets.build(classes=3, width=2, bn_momentum=momentum)) is stacked


@pytest.mark.parametrize(
    ("name", "value"),
    [("momentum", 0.05), ("momentum", None), ("eps", 1e-3), ("affine", False), ("track_running_stats", False)],
)
def test_networks_are_stacked_only_if_every_batchnorm_is_as_the_kernels_compute_it(name, value):
    net = nets.build(classes=3, width=2)
    assert stacks(config(), net)
    setattr(nets.batch_norms(net)[-1], name, value)
    assert not stacks(config(), net)


@pytest.mark.parametrize("name", ["conv1.weight", "bn1.bias", "fc.weight"])
def test_networks_are_stacked_only_if_all_their_parameters_are_trained(name):
    """They are tested by the kernels all the same, unless BatchNorm is more than a scale and a shift."""
    net = nets.build(classes=3, width=2)
    net.get_parameter(name).requires_grad_(False)
    assert not stacks(config(), net)
    assert foldable(net)
    net.bn1.track_running_stats = False
    assert not foldable(net)


@pytest.mark.parametrize(("moves", "own", "stacked"), [(True, False, True), (True, True, False), (False, True, False)])
def test_a_learner_is_stacked_unless_it_has_a_before_of_its_own(moves, own, stacked, monkeypatch):
    """What is in it is not known."""
    kind = find_learner("er")
    monkeypatch.setattr(kind, "moves_first", moves)
    if own:
        monkeypatch.setattr(kind, "before", lambda self, step: None)
    assert stacks(config(learner="er"), nets.build(classes=3, width=2)) is stacked
    assert has_own_passes(kind) is not stacked


class Asking(MaximallyInterfered):
    """Does not say whom it asks about."""

    pool = None


class Told(Fifo):
    """Keeps what the network says."""

    scored = "features"


@pytest.mark.usefixtures("with_triton")
def test_a_memory_that_asks_the_network_is_for_lanes_only_if_whom_it_asks_about_is_known(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    register("retrieval", "asking", argument=int)(Asking)
    register("storage", "told")(Told)
    usual = {"learner": "er", "buffer": 20}
    found = [
        pool_size(config(**usual, retrieval=retrieval, storage=storage))
        for retrieval in ("mir:12", "mir:99", "asking:12", "rpr")
        for storage in ("reservoir", "told")
    ]
    assert found == [12, None, 20, None, None, None, None, None]
    none = [("mir:12", {"replay": 0}), ("mir:3", {"replay": 4}), ("mir:12", {"buffer": 3, "replay": 4})]
    assert [pool_size(config(**{**usual, **more}, retrieval=retrieval)) for retrieval, more in none] == [None] * 3
    for retrieval, storage, can in (("mir:12", "brs", True), ("asking:12", "brs", False), ("mir:12", "told", False)):
        assert capturable(config(**usual, retrieval=retrieval, storage=storage)) is can
    assert not stacks(config(**usual, retrieval="mir:12"), nets.build(classes=3, width=2))


def test_runs_that_ask_about_as_many_candidates_share_lanes():
    """One after the other; which of them return is on no tape, but how many there are is the lane's."""
    run = config(learner="er", retrieval="mir:12", buffer=20)
    for alike in ({"seed": 7}, {"storage": "cbrs"}, {"imbalance": 4.0}):
        assert lane_kind(run.replace(**alike)) == lane_kind(run)
    for other in ({"retrieval": "mir:4"}, {"buffer": 30}, {"virtual_loss": "own"}, {"scoring": "eval"}):
        assert lane_kind(run.replace(**other)) != lane_kind(run)


def test_without_triton_nothing_is_captured(monkeypatch):
    monkeypatch.setattr(grouping, "find_spec", lambda name: None if name == "triton" else find_spec(name))
    assert not capturable(config())


# Which runs may share a lane: those alike in all but what is on the tape.

FREE = {
    "seed": 5,
    "imbalance": 10.0,
    "imbalance_seed": 3,
    "storage": "cbrs",
    "retrieval": "iid",
    "buffer": 30,
    "order": "permuted",
    "disjoint": 0.5,
    "blur": 0.1,
}
BOUND = {
    "dataset": "glyphs",
    "learner": "er",
    "hyper": {"mask": "none"},
    "replay": 5,
    "backbone": "vit_tiny_patch16_224",
    "width": 3,
    "head": "linear",
    "pretrained": True,
    "bn_momentum": 0.05,
    "batch": 9,
    "tasks": 2,
    "validation": True,
    "size": 8,
    "holdout": 0.5,
    "per_class": 3,
    "test_per_class": 2,
    "optimizer": "adam",
    "lr": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "augment": "none",
    "passes": "joint",
    "precision": "bf16",
    "ema": 99,
    "evaluate_every": 2,
}
INERT = {"virtual_loss", "scoring", "draws"}  # of scored retrieval, which is below; the last is the learner's


def test_every_setting_is_accounted_for():
    assert FREE.keys() | BOUND.keys() | INERT == {"seed", *flat_names()}


@pytest.mark.parametrize("name", FREE)
def test_runs_that_differ_on_their_tapes_share_a_lane(name):
    tail = {"imbalance": 4.0} if name == "imbalance_seed" else {}  # which a balanced stream does not have
    other = config(**tail).replace(**{name: FREE[name]})
    assert other != config(**tail)
    assert lane_kind(other) == lane_kind(config(**tail))


@pytest.mark.parametrize("name", BOUND)
def test_runs_that_differ_in_their_step_or_their_tests_share_none(name):
    wide = {"width": 64} if name == "backbone" else {}  # other backbones have a width of their own
    other = config(**{**wide, name: BOUND[name]})
    assert lane_kind(other) != lane_kind(config(**wide))


def test_an_audit_needs_no_lane():
    assert not capturable(Run.of(learner=None))


def test_groups_are_in_order_of_first_appearance():
    runs = [config(seed=seed, lr=lr) for seed in range(2) for lr in (0.5, 0.1)]
    assert together(runs, lane_kind) == [[runs[0], runs[2]], [runs[1], runs[3]]]
