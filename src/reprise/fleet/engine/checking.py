"""What a lane cannot do for a network or a learner of somebody's own; its runs then go by the plain loop."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reprise.fleet.engine.flat_state import Layout
from reprise.learners import Learner
from reprise.nets import Network
from reprise.runs.run import Run
from reprise.train.state import make_network


def check_trained(learners: Sequence[Learner], networks: Sequence[Network], layout: Layout) -> None:
    """Steps train what the learners leave to be trained: they may have frozen something, or have parameters."""
    for net, learner in zip(networks, learners, strict=True):
        mine = {id(net.get_parameter(name)): name for name in layout.parameters}
        trained = {id(one): name for name, one in learner.named_parameters() if one.requires_grad}
        others = [
            *(mine[one] for one in mine if one not in trained),
            *(trained[one] for one in trained if one not in mine),
        ]
        if others:
            raise ValueError(
                "a lane trains those parameters that are trained in a new network; "
                f"{type(learner).__name__} freezes some of them, or has parameters of its own: {', '.join(others[:3])}"
            )


def check_buffers(run: Run, classes: int, net: Network) -> None:
    """Whole-number buffers begin alike for every run: initial weights, which are each run's own, do not hold them."""
    counts = {name for name, _ in net.named_buffers() if name.endswith("num_batches_tracked")}
    whole = {name: one for name, one in net.named_buffers() if not one.is_floating_point() and name not in counts}
    if not whole:
        return
    other = dict(make_network(run.replace(seed=run.seed + 1), classes).named_buffers())
    for name, one in whole.items():
        if not torch.equal(one.cpu(), other[name]):
            raise ValueError(f"a lane begins with the same {name!r} for every run; here it depends on the seed")
