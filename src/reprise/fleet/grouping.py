"""Which runs lanes can play, and which of them can share lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from reprise.learners import Learner, find_learner
from reprise.memory import as_retrieval
from reprise.nets import Network, batch_norms
from reprise.runs.run import Run

_FREE = {"seed", "imbalance", "imbalance_seed", "storage", "retrieval", "buffer", "order", "disjoint", "blur"}
"""What runs on one lane may differ in: it is on their tapes, or in their initial weights."""
_POOLED = _FREE - {"retrieval", "buffer"}
"""The same of runs whose memory asks the network: the number of its candidates is the lane's."""
MOMENTUM, EPS = 0.1, 1e-5
"""Of BatchNorm in the kernels that compute several networks together; it has weights, and running statistics."""


def capturable(run: Run) -> bool:
    """Whether a run's step can be captured, as far as its settings tell: nothing in it asks the host."""
    if run.learner is None or run.descent is None:
        return False
    learner = find_learner(run.learner.name)
    return (
        learner.capturable
        and learner.predictor is Learner.predictor  # a lane tests logits
        and run.descent.optimizer == "sgd"
        and not run.descent.momentum
        and (not run.scored or pool_size(run) is not None)
        and run.learner.passes == "separate"
        and 1 + (learner.draws if run.memory.replay else 0) <= 3
        and find_spec("triton") is not None
    )


def pool_size(run: Run) -> int | None:
    """How many stored examples a run's memory asks the network about, if a lane can choose among them.

    It must say so, ask about nothing else, and choose fewer than that or all.
    """
    pool = getattr(as_retrieval(run.memory.retrieval), "pool", None)
    if not run.chooses or run.description or not isinstance(pool, int):
        return None
    size = min(pool, run.memory.buffer)
    return size if 0 < run.replay_size <= size else None


def stacks(run: Run, net: Network) -> bool:
    """Whether the networks of several such runs are computed together; else a run has a lane to itself.

    The kernels train every parameter, and know no passes but those of a step.
    """
    usual = foldable(net) and all(norm.momentum == MOMENTUM and norm.eps == EPS for norm in batch_norms(net))
    trained = all(parameter.requires_grad for parameter in net.parameters())
    own = run.scored or (run.learner is not None and has_own_passes(find_learner(run.learner.name)))
    return usual and trained and not own


def foldable(net: Network) -> bool:
    """Whether kernels can test it: a stackable network whose BatchNorm is a scale and a shift."""
    return net.stackable and all(norm.affine and norm.track_running_stats for norm in batch_norms(net))


def has_own_passes(kind: type[Learner]) -> bool:
    """Whether such a learner does more in a step than give a loss of logits, and move first, as lanes do for it.

    What is in a `before` of its own is not known.
    """
    return kind.own_passes or kind.before is not Learner.before


def lane_kind(run: Run) -> tuple[object, ...]:
    """What the runs of one lane must share, as it is built for it; the rest is on their tapes."""
    free = _POOLED if run.scored else _FREE
    settings = {name: value for name, value in run.flat().items() if name not in free}
    return tuple(sorted((name, str(value)) for name, value in settings.items()))


def together(runs: Sequence[Run], key: Callable[[Run], object]) -> list[list[Run]]:
    """The runs in groups of equal key, in order of first appearance."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())
