"""A torchrl replay buffer whose batches come by a schedule over tasks, beside torchrl's own random sampler.

An agent meets ten tasks, one after the other, and the last ones briefly. Every task is a bandit of its own: a state and
an action give a reward. Transitions go into a `TensorDictReplayBuffer` of 500 by `MemoryWriter`, which keeps as many of
every task. A small network learns the reward from batches of four, at every step.

Prints for `RandomSampler` and for `ScheduledSampler`: the error over all tasks at the end, and the longest that a
stored task had to wait for a batch with it. Then the buffer is saved in the middle by torchrl's `dumps`, loaded into a
new one, and gives the very same batches.

It needs the extra `torchrl`, in an environment of its own: pip install '.[torchrl]' in the clone.

    python examples/10_torchrl.py
"""

from __future__ import annotations

import logging
import tempfile
import warnings

import torch

with warnings.catch_warnings():  # what other libraries say of themselves when they are imported
    warnings.simplefilter("ignore")
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, RandomSampler, TensorDictReplayBuffer

from reprise.integrations.torchrl import MemoryWriter, ScheduledSampler

logging.getLogger("torchrl").setLevel(logging.WARNING)
TASKS, BATCH, INCOMING, CAPACITY = 10, 4, 8, 500
STEPS = [200] * 5 + [20] * 5  # of each task
torch.set_num_threads(1)  # the network is too small to share out


def transitions(task: int, count: int, random: torch.Generator) -> TensorDict:
    """States, actions and the rewards of a task."""
    state, action = torch.randn(count, 6, generator=random), torch.randint(4, (count,), generator=random)
    weights = torch.randn(4, 6, generator=torch.Generator().manual_seed(task))
    reward = (weights[action] * state).sum(1).tanh()
    return TensorDict({"state": state, "action": action, "reward": reward, "task": torch.full((count,), task)}, [count])


def seen(batch: TensorDict) -> torch.Tensor:
    """What the network sees: the state, the action and the task."""
    action, task = (torch.nn.functional.one_hot(batch[name], size) for name, size in (("action", 4), ("task", TASKS)))
    return torch.cat([batch["state"], action.float(), task.float()], 1)


def buffer(sampler: RandomSampler | ScheduledSampler) -> TensorDictReplayBuffer:
    writer = MemoryWriter("cbrs", key="task", seed=0)
    return TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), writer=writer, sampler=sampler, batch_size=BATCH)


def scheduled() -> ScheduledSampler:
    return ScheduledSampler("rpr", key="task", seed=0, record=True)


def play(replay: TensorDictReplayBuffer, steps: range) -> tuple[float, int, list[list[int]]]:
    """Learn; the mean squared error in the end, the longest wait of a stored task, and the tasks of every batch."""
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(1 + steps.start)
    model = torch.nn.Sequential(torch.nn.Linear(10 + TASKS, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    order = [task for task, count in enumerate(STEPS) for _ in range(count)]
    waits: dict[int, int] = {}
    longest, batches = 0, []
    for step in steps:
        replay.extend(transitions(order[step], INCOMING, random))
        batch = replay.sample()
        loss = torch.nn.functional.mse_loss(model(seen(batch))[:, 0], batch["reward"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batches.append(batch["task"].tolist())
        waits = {task: 0 if task in batches[-1] else waits.get(task, 0) + 1 for task in range(order[step] + 1)}
        longest = max(longest, *waits.values())
    test = torch.cat([transitions(task, 100, random) for task in range(TASKS)])
    with torch.no_grad():
        error = float(torch.nn.functional.mse_loss(model(seen(test))[:, 0], test["reward"]))
    return error, longest, batches


def main() -> None:
    every = range(sum(STEPS))
    print(f"{'sampler':<36} error  longest wait of a task")
    for name, sampler in (("RandomSampler", RandomSampler()), ("ScheduledSampler('rpr', key='task')", scheduled())):
        torch.manual_seed(0)  # torchrl's sampler uses it, ours has a seed of its own
        error, longest, _ = play(buffer(sampler), every)
        print(f"{name:<36} {error:5.2f}  {longest} batches")

    with tempfile.TemporaryDirectory() as folder:
        half, loaded = buffer(scheduled()), buffer(scheduled())
        play(half, every[:500])
        half.dumps(folder)
        loaded.loads(folder)
        same = play(half, every[500:])[2] == play(loaded, every[500:])[2]
    print(f"Loaded after 500 of {len(every)} steps, the same batches: {same}")


if __name__ == "__main__":
    main()
