"""What a lane's memory asks the network: which candidates of a step return, chosen on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from reprise.learners import Batch, Learner, Step
from reprise.runs.augmentation import PAD
from reprise.runs.pools import Pools
from reprise.runs.run import Run
from reprise.train.pixels import Pixels
from reprise.train.scoring import interference


class Candidates:
    """The planned pools of the run on a lane, and which of each pool have been chosen, step by step."""

    def __init__(self, run: Run, pixels: Pixels, longest: int, pool: int) -> None:
        self.run, self.pixels, self.pool, device = run, pixels, pool, pixels.device
        rows = longest + 1  # the last one is for a run that has ended
        self.ids = torch.zeros(rows, pool, dtype=torch.int32, device=device)
        self.counts = torch.zeros(rows, dtype=torch.int32, device=device)
        self.chosen = torch.zeros(rows, run.replay_size, dtype=torch.int64, device=device)
        self.failed = torch.zeros(rows, dtype=torch.bool, device=device)  # where a score was not a number
        self.numbers = torch.arange(pool, device=device)
        # They are shown as they are: neither cropped nor flipped.
        self.plain = torch.tensor([PAD, PAD, 0], dtype=torch.int8, device=device).expand(pool, 3)

    def begin(self, pools: Pools) -> None:
        """Take a run's pools."""
        for mine, theirs in ((self.ids, pools.ids), (self.counts, pools.counts)):
            mine[: len(theirs)].copy_(torch.from_numpy(theirs))
        self.failed.zero_()  # not every step asks, and measurements do on anything

    def choose(self, at: Tensor, learner: Learner, step: Step, count: int) -> Tensor:
        """The ids of those that return; `at` is the number of the step.

        So many candidates are looked at; those beyond the number of the step's own are padding.
        """
        ids = self.ids[:, :count].index_select(0, at)[0].long()
        score = self._score(ids, learner, step)
        padding = self.numbers[:count] >= self.counts.index_select(0, at)
        ranked = score.masked_fill(padding, -torch.inf).sort(descending=True, stable=True).indices
        chosen = ranked[: self.chosen.shape[1]]
        self.chosen[:, : len(chosen)].index_copy_(0, at, chosen[None])
        self.failed.index_copy_(0, at, (score.isnan() & ~padding).any()[None])
        return ids[chosen]

    def _score(self, ids: Tensor, learner: Learner, step: Step) -> Tensor:
        images = self.pixels.augmented(ids, self.plain[: len(ids)])
        weight = torch.full_like(ids, 1 / len(ids), dtype=torch.float32)
        descent, memory = self.run.descent, self.run.memory
        assert descent is not None
        assert descent.lr is not None
        batch = Batch(images, self.pixels.labels[ids], ids, weight)
        return interference(learner, step, batch, lr=descent.lr, loss=memory.virtual_loss, mode=memory.scoring)
