"""The training loop, from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from reprise.runs.errors import check_losses, weights_diverged
from reprise.runs.metrics import Evaluations
from reprise.train.evaluate import arithmetic, forward_precision
from reprise.train.state import Training

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


def steps(run: Training) -> Iterator[StepResult]:
    """Train the run from where it stands, one step at a time.

    Between two steps the run is whole: it can be saved, and resumed elsewhere.
    """
    learner, feed, optimizer = run.learner, run.feed, run.optimizer
    while run.step < run.steps:
        step = feed.step(run.step)  # draws before anything is stored
        optimizer.zero_grad(set_to_none=True)
        with arithmetic(run.descent.precision):
            with forward_precision(run.descent.precision, run.device):
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


def check_loss(run: Training) -> None:
    """See that every loss so far is a number."""
    if not torch.isfinite(run.losses[: run.step]).all():
        check_losses(run.losses[: run.step].cpu().numpy(), run.steps, run.descent.lr)


def check_weights(run: Training) -> None:
    """Weights that are not finite are worth neither a test nor a checkpoint."""
    for name, value in run.learner.state_dict().items():
        if not torch.isfinite(value).all():
            raise weights_diverged(f"{name} is", run.step, run.steps, run.descent.lr)
