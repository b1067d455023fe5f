"""The averaged read-out: against the recursion written out, and without influence on training."""

from __future__ import annotations

import pytest
import torch
from train.tinyruns import config, go_to, images, run_to, thin_networks

from reprise.train import Training, steps
from reprise.train.average import Readout


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def state(net):
    return {name: value.clone() for name, value in net.state_dict().items()}


@pytest.mark.parametrize("horizon", [50, 1024])
def test_it_is_the_average_written_out_step_by_step(horizon):
    run = Training(config(ema=horizon), images())
    average = {name: value.double() for name, value in state(run.net).items()}
    sizes = []
    for trained in steps(run):
        sizes.append(trained.examples)
        for name, value in state(run.net).items():
            if value.is_floating_point():
                share = trained.examples / horizon
                average[name] = (1 - share) * average[name] + share * value.double()
            else:
                average[name] = value.double()
    assert sorted(set(sizes)) == [4, 8], "a short batch must be among them, for it has a weight of its own"
    found = state(run.readout.net)
    assert {name for name, value in found.items() if not value.is_floating_point()} == {
        "bn1.num_batches_tracked",
        "bn2.num_batches_tracked",
    }
    for name, expected in average.items():
        torch.testing.assert_close(found[name].double(), expected, rtol=1e-5, atol=1e-6, msg=name)
    assert int(found["bn1.num_batches_tracked"]) == 2 * run.steps - 1  # no replay in the first step
    moved = [name for name, value in found.items() if not torch.equal(value, run.net.state_dict()[name])]
    assert {"conv1.weight", "fc.weight", "bn1.weight", "bn1.running_mean", "bn2.running_var"} <= set(moved)


def test_training_does_not_know_the_horizon():
    short, long = (run_to(config(ema=horizon)) for horizon in (16, 4096))
    assert torch.equal(short.losses, long.losses)
    for name, value in state(short.learner).items():
        assert torch.equal(value, long.learner.state_dict()[name]), name
    assert not torch.equal(short.readout.net.fc.weight, long.readout.net.fc.weight)


def test_a_step_larger_than_the_horizon_is_all_that_counts():
    run = run_to(config(ema=4), 7)
    for name, value in state(run.net).items():
        assert torch.equal(value, run.readout.net.state_dict()[name]), name


def test_it_is_apart_from_the_network_and_is_never_trained():
    run = Training(config(), images())
    assert not run.readout.net.training
    assert not [one for one in run.readout.net.parameters() if one.requires_grad]
    held = {id(one) for group in run.optimizer.param_groups for one in group["params"]}
    assert not held & {id(one) for one in run.readout.net.parameters()}
    live = {one.data_ptr() for one in run.net.state_dict().values()}
    assert not live & {one.data_ptr() for one in run.readout.net.state_dict().values()}
    go_to(run)
    assert not run.readout.net.training
    assert run.net.training


def test_the_usual_horizon_is_1024_examples():
    run = Training(config(), images())
    before = run.readout.net.fc.weight.clone()
    go_to(run, 1)
    expected = before + 8 / 1024 * (run.net.fc.weight.detach() - before)
    torch.testing.assert_close(run.readout.net.fc.weight, expected, rtol=1e-6, atol=1e-8)
    assert Readout(run.net).horizon == 1024
