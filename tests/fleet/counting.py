"""A machine that seems to have a GPU, with lanes that only count."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from fleet.planner import Planner

from reprise import nets
from reprise.execute import gpus
from reprise.fleet import driver, grouping, plans
from reprise.fleet.engine.flat_state import initial_row

CPU = torch.device("cpu")
LANE = "reprise.fleet.engine.lane"


class Reversed:
    """Chooses the first candidates of every step, in reverse."""

    def __init__(self, run, longest):
        self.chosen = torch.arange(run.replay_size).flip(0).expand(longest + 1, -1)
        self.failed = torch.zeros(longest + 1, dtype=torch.bool)


class CountingLane:
    """Does no arithmetic, and sees that it is asked for what can be."""

    padded = True
    made: list[CountingLane]
    trouble: dict[int, Exception]  # of evaluating a run, by seed

    def __init__(self, run, pixels, test, classes, longest, tests, width=1):
        self.width, self.longest, self.device, self.biases = width, longest, CPU, None
        self.losses, self.hits = torch.full((width, longest + 1), torch.nan), torch.zeros(width, longest + 1).long()
        self.correct = torch.zeros(width, tests, 2, classes, dtype=torch.int64)
        self.rows = torch.zeros(width, 3)
        self.candidates = None if grouping.pool_size(run) is None else Reversed(run, longest)
        self.runs = [None] * width
        self.at = [0] * width
        self.test, self.classes = test, classes
        self.made.append(self)

    def begin(self, slot, planned, weights):
        assert self.runs[slot] is None, "a run is there already"
        wanted = initial_row(nets.build(classes=self.classes, width=2, seed=planned.plan.run.seed))
        assert torch.equal(weights, wanted)
        self.runs[slot], self.at[slot] = planned, 0

    def rest(self, slot):
        self.runs[slot] = None

    def advance(self, steps):
        for slot, planned in enumerate(self.runs):
            if planned is not None:
                assert self.at[slot] + steps <= planned.plan.steps, "asked for more than the tape has"
                self.losses[slot, self.at[slot] : self.at[slot] + steps] = 1.0
                self.at[slot] += steps

    def evaluate(self, slot, number, chosen):
        planned = self.runs[slot]
        assert self.at[slot] == planned.plan.tests.due[number]
        if (error := self.trouble.get(planned.plan.run.seed)) is not None:
            raise error
        self.correct[slot, number] = torch.bincount(self.test.labels[chosen], minlength=self.classes)

    def mark(self):
        return lambda: True


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a GPU and Triton."""
    monkeypatch.setattr(CountingLane, "made", [], raising=False)
    monkeypatch.setattr(CountingLane, "trouble", {}, raising=False)
    module = types.ModuleType(LANE)
    module.Lane = CountingLane  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, LANE, module)
    monkeypatch.setattr(driver, "RUNS_PER_LANE", 3)
    monkeypatch.setattr(driver, "measured_rate", lambda lanes: 1.0 + len(lanes))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU that counts")
    monkeypatch.setattr(gpus, "Group", lambda given, device: driver.Group(given, CPU))
    monkeypatch.setattr(gpus, "find_device", torch.device)
    monkeypatch.setattr(grouping, "find_spec", lambda name: name)
    monkeypatch.setattr(plans, "Pool", Planner)


def lanes_are(monkeypatch: pytest.MonkeyPatch, build) -> None:
    """Let lanes be made by this function."""
    monkeypatch.setattr(sys.modules[LANE], "Lane", build)
