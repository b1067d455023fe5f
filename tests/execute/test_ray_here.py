"""A Ray cluster that is started here for some runs, and what is refused."""

from __future__ import annotations

import os
import signal
import sys

import pytest

pytest.importorskip("ray", reason="the executor Ray needs ray")

import ray
from execute.on_nodes import children
from processes import wait_until

from reprise.core.extras import NotInstalled
from reprise.execute import Here, Job, ray_cluster
from reprise.execute.ray import Ray
from reprise.runs import Run

AUDIT = Run.of(learner=None, classes=5, steps=9)


def executed(executor, runs=(AUDIT,)):
    return executor.execute(runs, lambda _: Job(), lambda _: None)


def test_it_ends_with_the_runs_and_leaves_signals_alone(capfd, monkeypatch):
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    before, signals = set(children(os.getpid())), (signal.SIGINT, signal.SIGTERM)
    handlers = [*map(signal.getsignal, signals)]
    runs = [AUDIT.replace(seed=seed) for seed in range(5)]
    outcomes = executed(Ray(jobs=1), runs)
    first = next(outcomes)
    assert set(children(os.getpid())) > before
    assert [*map(signal.getsignal, signals)] == handlers
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ
    found = {one.run: one.record["audit"] for one in (first, *outcomes)}
    assert found == {one.run: one.record["audit"] for one in executed(Here(), runs)}
    assert not ray.is_initialized()
    wait_until(lambda: set(children(os.getpid())) <= before)
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_is_refused(monkeypatch):
    for name in ("lanes", "jobs"):
        with pytest.raises(ValueError, match=f"{name} must be 1 or more, got 0"):
            Ray(**{name: 0})
    with pytest.raises(ValueError, match="gpus must be 0 or 1, got 2"):
        Ray(gpus=2)
    assert list(executed(Ray("nowhere:1"), [])) == []
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    with pytest.raises(ValueError, match="the Ray cluster has no CPU"):
        next(executed(Ray()))


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    def refused(**options):
        raise ConnectionError("it is not there")

    monkeypatch.setattr(ray, "init", refused)
    with pytest.raises(ValueError, match="no Ray cluster answers at 'auto': it is not there"):
        next(executed(Ray("auto")))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotInstalled, match="the extra 'ray' brings it"):
        ray_cluster.load_ray()


def test_an_address_at_which_nobody_answers_is_a_sentence_at_once():
    with pytest.raises(ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:9': "):
        list(executed(Ray("127.0.0.1:9")))
