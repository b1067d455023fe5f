"""The training loop, from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from reprise.train.errors import diverged
from reprise.train.evaluate import arithmetic, forward_precision
from reprise.train.metrics import Evaluations
from reprise.train.run import Run

_LOOK_EVERY = {"cpu": 1, "cuda": 100}  # steps between looks at the loss: on a GPU a look waits for the device


@dataclass(frozen=True)
class StepResult:
    """One step, done. Reading `loss` waits for the device."""

    step: int
    """Steps done, this one included."""
    examples: int
    """Examples that came in with it."""
    loss_value: Tensor
    evaluations: dict[str, Evaluations] | None
    """What the read-outs have got right so far, by read-out, if the step ended with a test."""

    @property
    def loss(self) -> float:
        return float(self.loss_value)


def steps(run: Run) -> Iterator[StepResult]:
    """Train the run from where it stands, one step at a time.

    Between two steps the run is whole: it can be saved, and resumed elsewhere.
    """
    learner, feed, optimizer = run.learner, run.feed, run.optimizer
    while run.step < run.steps:
        step = feed.step(run.step)  # draws before anything is stored
        optimizer.zero_grad(set_to_none=True)
        with arithmetic(run.config.precision):
            with forward_precision(run.config.precision, run.device):
                learner.before(step)
                loss, logits = run.forward(step)  # a forward pass for the incoming batch, one for each replay batch
            loss.backward()
        optimizer.step()

        logits = run.ranks.gather(logits.detach(), len(step.ids))
        learner.after(step, logits)
        feed.close(step)  # now the incoming batch is stored
        run.readout.update(run.net, len(step.ids))

        done, value = run.step, run.ranks.mean(loss.detach())
        run.losses[done] = value
        run.hits[done] = (logits.argmax(1) == run.pixels.labels[step.ids]).sum()
        run.step = done + 1
        run.note_bias()
        if run.step in run.due or run.step % _LOOK_EVERY.get(run.device.type, 100) == 0:
            check_loss(run)
        evaluations = None
        if run.step in run.due:
            check_weights(run)
            evaluations = run.evaluate()
        yield StepResult(run.step, len(step.ids), value, evaluations)


def check_loss(run: Run) -> None:
    """A loss that is not a number poisons every weight, so no step after it is worth taking."""
    wrong = torch.nonzero(~torch.isfinite(run.losses[: run.step]))
    if len(wrong):
        first = int(wrong[0])
        raise diverged(f"the loss of step {first + 1} of {run.steps} is {float(run.losses[first])}", run.config.lr)


def check_weights(run: Run) -> None:
    """A step of finite loss can still overflow the weights, and these are worth neither a test nor a checkpoint."""
    for name, value in run.learner.state_dict().items():
        if not torch.isfinite(value).all():
            raise diverged(f"after step {run.step} of {run.steps} {name} is not finite", run.config.lr)
