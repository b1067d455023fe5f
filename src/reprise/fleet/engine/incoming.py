"""What precedes the step of stacked networks whose learners move the weights first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reprise import nets
from reprise.fleet.engine import step_kernels
from reprise.fleet.engine.bodies import Stacked
from reprise.fleet.engine.branches import Branches
from reprise.fleet.engine.flat_state import aligned
from reprise.fleet.engine.launch import launch
from reprise.fleet.engine.stack import Stack
from reprise.learners import Learner, Step
from reprise.train.evaluate import forward_precision

_PIECE = 1024


class Incoming(Stacked):
    """The incoming batches alone, through the networks of a stack; running statistics do not track them.

    Gradients leave it, and moves return, as a row of all parameters for each run, in the order of the network's own.
    """

    def __init__(self, networks: Sequence[nets.Network], stack: Stack, branches: Branches) -> None:
        self.real, self.size, self.branches = stack.counts, stack.sizes[0], branches
        super().__init__(networks, stack.beside((self.size,), torch.zeros_like(stack.counts[:, :1])))
        self.numbers = sum(parameter.numel() for parameter in networks[0].parameters())
        self.pieces = self._pieces(networks[0])

    def _pieces(self, net: nets.Network) -> list[Tensor]:
        """All parameters cut into pieces, as `collect` and `add_move` go over them."""
        found, begin, layout = [], 0, self.stack.layout
        for name, parameter in net.named_parameters():
            start, size = layout.spans[name]
            source, parts = self.parts[name]
            inputs, taps = (parameter.shape[1], parameter[0, 0].numel()) if parameter.dim() == 4 else (1, 1)
            same = begin, start, source, inputs, taps, parts, aligned(size)
            found += [(first, min(size - first, _PIECE), *same) for first in range(0, size, _PIECE)]
            begin += size
        columns = np.ascontiguousarray(np.array(found, np.int32).T)
        return [torch.from_numpy(column).to(self.gradient.device) for column in columns]

    def move_first(self, x: Tensor, learners: Sequence[Learner], steps: Sequence[Step]) -> None:
        """Let every learner move its weights before the step, as `Learner.before` does for one."""

        def differentiate(run: int) -> None:
            batch = steps[run].incoming
            with forward_precision(self.stack.precision, x.device):
                loss = learners[run].first_loss(self.networks[run](batch.x).float(), batch)
            self.take(run, torch.autograd.grad(loss, self.wanted(run)))

        self.forward(x)
        self.branches.each(differentiate)
        self.backward()
        # One after the other: whatever is as long as a network fills the device, and would fill its memory.
        for run, gradient in enumerate(self.gradients()):
            self.add(run, learners[run].checked_move(gradient, steps[run].incoming))
        self.changed()

    def forward(self, x: Tensor) -> None:
        self.stack.counts.copy_(self.real[:, :1])
        super().forward(x[:, : self.size].contiguous())

    def gradients(self) -> Tensor:
        """A row for each run. That of a run that rests holds anything."""
        # A row that begins elsewhere in a wide load is added up in another order: so all begin at its start.
        rows = torch.empty(self.stack.runs, aligned(self.numbers), device=self.gradient.device)
        launch(
            step_kernels.collect, (len(self.pieces[0]), self.stack.runs),
            self.gradient, rows, *self.pieces, self.stack.counts, self.gradient.shape[1], rows.shape[1], block=_PIECE,
        )  # fmt: skip
        return rows[:, : self.numbers]

    def add(self, run: int, move: Tensor) -> None:
        """Add a row of float32 to a run's weights, unless it rests. `changed` is due when all have theirs."""
        stack = self.stack
        state = stack.rows[run]
        copies = state if stack.half is None else stack.half[run]
        copied = 0 if stack.half is None else stack.layout.copied
        launch(
            step_kernels.add_move, (len(self.pieces[0]),),
            state, copies, move, *self.pieces, stack.counts[run], copied, block=_PIECE,
        )  # fmt: skip
