"""What a learner is: a loss over one step's batches, and whatever it remembers between steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from reprise.nets import Network

PASSES = ("separate", "joint")


@dataclass(frozen=True)
class Batch:
    """Examples as the network sees them. `weight` makes a mean: it sums to one over the whole batch.

    In data-parallel training a process holds a part of the batch, and its weights are scaled so that the mean over
    processes is the mean over the batch.
    """

    x: Tensor  # images, augmented and normalised, B×3×H×W
    y: Tensor  # labels
    ids: Tensor  # example ids
    weight: Tensor  # float, one per example

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the batch of one value per example."""
        return (values * self.weight).sum()


@dataclass(frozen=True)
class Step:
    """All that a learner is told at one step. It is not told the task."""

    number: int
    incoming: Batch
    replay: tuple[Batch, ...]  # one for each draw; none while nothing is stored
    present: Tensor  # bool per class: classes of the incoming batch
    seen: Tensor  # bool per class: classes that have arrived, those of this batch included
    ids: Tensor  # ids of all that comes in, where `incoming` may be this process's part of it


class Output(NamedTuple):
    """What a step's forward passes give: the loss to descend, and the incoming batch's logits, unmasked."""

    loss: Tensor
    logits: Tensor


@dataclass(frozen=True)
class LearnerContext:
    """What a learner needs to know of its run."""

    classes: int
    examples: int  # ids are below this
    seed: int = 0
    passes: str = "separate"

    def __post_init__(self) -> None:
        if self.passes not in PASSES:
            raise ValueError(f"passes must be one of {', '.join(PASSES)}, got {self.passes!r}")


@dataclass(frozen=True)
class Descent:
    """The optimiser a learner was published with, or the paper's: plain SGD."""

    optimizer: str = "sgd"
    lr: float = 0.03
    momentum: float = 0.0
    weight_decay: float = 0.0


class Learner(nn.Module, ABC):
    """A network, a loss, and a memory of its own; called with a step, it gives the step's output.

    It is a module, so that its parameters are trained, and its buffers saved and moved, with the network's. Hyper-
    parameters are the keyword arguments of its constructor. Everything in a step stays on the device: no number is
    read back, and no shape depends on a value.
    """

    draws: ClassVar[int] = 1
    """Replay batches a step takes, each drawn by a schedule of its own."""
    parallel: ClassVar[bool] = True
    """Whether its gradient comes from its loss alone, so that processes can share a step; one that `moves_first`
    cannot, whatever it says."""
    capturable: ClassVar[bool] = False
    """Whether its step is the same kernels every time, and nothing in it is decided by the host.

    A captured learner's `after` may come before the update, and it is not told the step's number. Batches may end with
    padding, of weight 0. It makes one run after the other, with `restart` before each: `setting.seed` is the seed of
    none of them. What is trained is what the network has to be trained: one that freezes parameters of it, or has some
    of its own, is not captured.
    """
    own_passes: ClassVar[bool] = False
    """Whether it asks the network for more than the logits of each batch of the step, such as another pass.

    On a GPU its runs go one to a lane, whatever the network; so do those of a learner with a `before` of its own.
    """
    moves_first: ClassVar[bool] = False
    """Whether it moves the weights before each step: by `first_move`, given the gradient of its `first_loss`.

    The pass sees the incoming batch alone, in training mode, and BatchNorm's running statistics stay. It is made in
    `before`, or for all runs of a lane together; a learner whose `before` is its own has a lane to itself.
    """
    shuffled: ClassVar[bool] = False
    """Whether it sees the stream's examples in one shuffled order, as no online learner does."""
    descent: ClassVar[Descent] = Descent()
    """The optimiser to use unless told otherwise."""

    net: Network

    def __init__(self, net: Network, setting: LearnerContext) -> None:
        super().__init__()
        self.net = net
        self.setting = setting

    def restart(self, seed: int) -> None:
        """Forget what it remembers of a run, and be ready for one of this seed: its buffers become 0.

        A learner whose buffers begin at other values sets them here.
        """
        for name, buffer in self.named_buffers():
            if not name.startswith("net."):
                buffer.zero_()

    @abstractmethod
    def forward(self, step: Step) -> Output:
        """The loss of this step, before anything is updated."""

    def before(self, step: Step) -> None:
        """Change the network before the step's own forward passes; unless told otherwise, as `moves_first` says."""
        if not self.moves_first:
            return
        move = self.checked_move(self._first_gradient(step.incoming), step.incoming)
        with torch.no_grad():
            parameters = list(self.net.parameters())
            parts = torch.split(move, [parameter.numel() for parameter in parameters])
            for parameter, part in zip(parameters, parts, strict=True):
                if parameter.requires_grad:
                    parameter.add_(part.view_as(parameter))
        torch.clear_autocast_cache()  # or the step would go on with the weights that this pass has cast

    def _first_gradient(self, incoming: Batch) -> Tensor:
        """That of `first_loss`; the pass moves copies of BatchNorm's statistics, and not the network's."""
        copies = {name: buffer.clone() for name, buffer in self.net.named_buffers()}
        logits = functional_call(self.net, copies, (incoming.x,)).float()
        loss = self.first_loss(logits, incoming)
        parameters = list(self.net.parameters())
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        found = dict(zip(trained, torch.autograd.grad(loss, trained, materialize_grads=True), strict=True))
        return torch.cat([found.get(one, torch.zeros_like(one)).flatten() for one in parameters])

    def first_loss(self, logits: Tensor, incoming: Batch) -> Tensor:
        """The loss whose gradient a learner that `moves_first` asks for, of the incoming batch's logits."""
        raise NotImplementedError(f"{type(self).__name__} moves first, and so needs a first_loss")

    def first_move(self, gradient: Tensor, incoming: Batch) -> Tensor:
        """What to add to the weights before the step, without gradient; also where to remember what it needs.

        Both are rows of numbers: all parameters of `net`, end to end, in their order, which is the same everywhere;
        on a lane their names are not. A parameter that is not trained has a gradient of 0, and does not move, whatever
        its part of the row says. `net` may be asked for their values. The gradient's row may be written over.
        On a lane runs that have ended are asked as well: with any gradient, and images whose weights are all 0.
        """
        raise NotImplementedError(f"{type(self).__name__} moves first, and so needs a first_move")

    @torch.no_grad()
    def checked_move(self, gradient: Tensor, incoming: Batch) -> Tensor:
        """What `first_move` gives, in single precision whatever the step's, as a row of numbers side by side."""
        asked = gradient.shape
        with torch.autocast(gradient.device.type, enabled=False):
            move = self.first_move(gradient, incoming)
        if not isinstance(move, Tensor) or move.shape != asked:
            got = f"a tensor of shape {tuple(move.shape)}" if isinstance(move, Tensor) else repr(move)
            raise ValueError(
                f"first_move of {type(self).__name__} must give a number for each of {asked[0]:,} parameters, got {got}"
            )
        return move.to(gradient.dtype).contiguous()

    def after(self, step: Step, logits: Tensor) -> None:
        """Remember something, once the network has been updated; `logits` are those of `step.ids`, without gradient."""

    def predictor(self, net: Network, stored: Iterable[Batch]) -> Callable[[Tensor], Tensor]:
        """How a read-out is tested: a function from images to one score for each class, of which the highest counts.

        Called once for every test of a read-out, with its network, which is in evaluation mode and is not `self.net`
        when the average is tested, and with all that is stored: batches in order of slots, not augmented, whose
        weights sum to one over all of them. Unless told otherwise the scores are the network's logits, and only then
        can a run be captured.
        """
        return net

    def outputs(self, step: Step) -> list[Tensor]:
        """Logits of the incoming batch and of each replay batch, in single precision.

        Separate passes show BatchNorm the batches one at a time; a joint pass shows it all of them as one.
        """
        batches = [step.incoming, *step.replay]
        if self.setting.passes == "separate":
            return [logits.float() for logits in self.net.each([batch.x for batch in batches])]
        joint: Tensor = self.net(torch.cat([batch.x for batch in batches])).float()
        return list(torch.split(joint, [len(batch.x) for batch in batches]))
