"""An Avalanche strategy with replay by a schedule at every iteration, beside Avalanche's own replay and none.

Ten classes of small patterns arrive two at a time, one experience each, and are seen once in mini-batches of ten.
`Naive` trains a small network. Its plugin is none; Avalanche's `ReplayPlugin` with the exemplars kept by our balanced
reservoir; or `ScheduledReplayPlugin`, which draws five stored examples at every iteration.

Prints for each the accuracy on all classes at the end, and for the schedules the longest that a stored class waited for
replay. It is one run of each: a few points of accuracy between schedules are chance here. Then the last one is trained
again, with a checkpoint of Avalanche's in the middle, and replays the very same.

It needs the extra `avalanche`, in an environment of its own: pip install '.[avalanche]' in the clone.

    python examples/09_avalanche.py
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

with warnings.catch_warnings():  # what other libraries say of themselves when they are imported
    warnings.simplefilter("ignore")
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
    from avalanche.checkpointing import maybe_load_checkpoint, save_checkpoint
    from avalanche.models import SimpleMLP
    from avalanche.training import Naive
    from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin

from reprise.integrations.avalanche import MemoryBuffer, ScheduledReplayPlugin

warnings.filterwarnings("ignore", message="No loggers specified")
CLASSES, PER_CLASS, CAPACITY, REPLAY = 10, 200, 100, 5
torch.set_num_threads(1)  # the network is too small to share out


def examples(classes: range, count: int, seed: int) -> AvalancheDataset:
    """`count` examples of each class, a pattern under noise."""
    patterns = torch.randn(CLASSES, 16, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([label for label in classes for _ in range(count)])
    noise = torch.randn(len(labels), 16, generator=torch.Generator().manual_seed(seed))
    data = torch.utils.data.TensorDataset(patterns[labels] + 0.7 * noise, labels)
    return AvalancheDataset([data], data_attributes=[DataAttribute(labels.tolist(), "targets")])


PAIRS = [range(first, first + 2) for first in range(0, CLASSES, 2)]
STREAM = benchmark_from_datasets(train=[examples(pair, PER_CLASS, 1 + pair.start) for pair in PAIRS]).train_stream
TEST = examples(range(CLASSES), 50, 99)


def naive(*plugins: Any) -> Naive:
    """Avalanche's plain strategy, with these plugins."""
    torch.manual_seed(0)
    model = SimpleMLP(num_classes=CLASSES, input_size=16, hidden_size=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Naive(
        model=model, optimizer=optimizer, train_mb_size=10, plugins=list(plugins), evaluator=EvaluationPlugin()
    )


def train(strategy: Naive, experiences: Any) -> Naive:
    """Every experience once, in an order that is the same for all."""
    for experience in experiences:
        torch.manual_seed(experience.current_experience)
        strategy.train(experience)
    return strategy


def accuracy(strategy: Naive) -> float:
    x, y = zip(*(TEST[place] for place in range(len(TEST))), strict=True)
    with torch.no_grad():
        return 100 * float((strategy.model.eval()(torch.stack(x)).argmax(1) == torch.tensor(y)).float().mean())


def main() -> None:
    print(f"{'replay':<42} accuracy  longest wait")
    print(f"{'none':<42} {accuracy(train(naive(), STREAM)):7.1f}%             -")
    own = ReplayPlugin(CAPACITY, batch_size_mem=REPLAY, storage_policy=MemoryBuffer(CAPACITY, "brs"))
    print(f"{'ReplayPlugin, exemplars by brs':<42} {accuracy(train(naive(own), STREAM)):7.1f}%             -")
    for retrieval in ("iid", "rpr"):
        plugin = ScheduledReplayPlugin(CAPACITY, REPLAY, "brs", retrieval)
        reached = accuracy(train(naive(plugin), STREAM))
        audit = plugin.audit()
        waited = f"{audit.max} steps, {audit.violations} waits past the bound of rpr"
        print(f"{f'ScheduledReplayPlugin, brs, {retrieval}':<42} {reached:7.1f}%  {waited}")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "strategy.pkl"
        begun = naive(ScheduledReplayPlugin(CAPACITY, REPLAY, "brs", "rpr"))
        # The optimizer is left out: dill, with which Avalanche writes, does not know those of newer versions of torch.
        save_checkpoint(train(begun, STREAM[:3]), file, exclude=["optimizer"])
        strategy, done = maybe_load_checkpoint(naive(), file)
        train(strategy, STREAM[done:])
    resumed = next(one for one in strategy.plugins if isinstance(one, ScheduledReplayPlugin))
    print(f"Resumed after {done} experiences, the same replay: {resumed.tape().hash == plugin.tape().hash}")


if __name__ == "__main__":
    main()
