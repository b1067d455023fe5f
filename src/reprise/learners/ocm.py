"""OCM, task-free: cross-entropy on the memory, contrast on all, and a look back at an earlier self."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from reprise.core.arguments import as_int
from reprise.core.registry import register
from reprise.core.rng import Random
from reprise.learners.contrast import incoming_term, memory_term, previous_term, similarity, unit
from reprise.learners.learner import Batch, Descent, Learner, LearnerContext, Output, Step
from reprise.learners.losses import cross_entropy
from reprise.learners.ocm_views import ROTATIONS, pseudo_labels, rotations, views
from reprise.nets import Network, fill

ModuleT = TypeVar("ModuleT", bound=nn.Module)


@register("learner", "ocm")
class OCM(Learner):
    """Loss = CE(view of replay) + contrast of incoming + contrast of replay, now and against the previous model + MSE.

    Before anything can be replayed it is CE(view of incoming) + contrast of incoming. The previous model is a frozen
    copy, renewed every `refresh` examples; the MSE is between its logits and those of now, over the classes seen when
    it was taken. Until the first is taken, both terms that need it are nought.
    """

    parallel = False  # rows are contrasted with the whole batch
    descent = Descent("adam", lr=1e-3, weight_decay=1e-4)

    def __init__(
        self,
        net: Network,
        setting: LearnerContext,
        *,
        refresh: int = 5000,
        rotations: int = 16,
        temperature: float = 0.07,
        projection: int = 128,
    ) -> None:
        super().__init__(net, setting)
        if rotations not in ROTATIONS:
            raise ValueError(f"rotations must be one of {', '.join(map(str, ROTATIONS))}, got {rotations!r}")
        self.refresh, projection = as_int(refresh, "refresh", 1), as_int(projection, "projection", 1)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature!r}")
        self.rotations, self.temperature = rotations, temperature

        weight = net.fc.weight
        with torch.device("meta"):  # without memory, so that torch draws no weights of its own
            self.projection = nn.Linear(weight.shape[1], min(projection, weight.shape[1]), dtype=weight.dtype)
        self.projection.to_empty(device=weight.device)
        fill(self.projection, Random(setting.seed, "OCM projection"))
        self.previous_net, self.previous_projection = _frozen(net), _frozen(self.projection)
        self.known: Tensor
        self.since: Tensor
        self.register_buffer("known", torch.zeros(setting.classes, dtype=torch.bool, device=weight.device))
        self.register_buffer("since", torch.zeros((), dtype=torch.int64, device=weight.device))

    def forward(self, step: Step) -> Output:
        # A stream for each step: a resumed run draws what it would have drawn, and there is nothing to save.
        random = Random(self.setting.seed, f"OCM views/{step.number}")
        turned = [rotations(batch.x, self.rotations) for batch in (step.incoming, *step.replay)]
        features = self._features([torch.cat([x, views(x, random)]) for x in turned])
        labels = self._labels(step.incoming)
        loss = incoming_term(self._similarity(features[0], random), labels, self.temperature)
        if step.replay:
            loss = loss + self._replay_loss(step.replay[0], turned[1], features[1], random)
        else:
            logits = self.net(views(step.incoming.x, random)).float()
            loss = loss + cross_entropy(logits, step.incoming)
        with torch.no_grad():  # the first rows are the incoming images as they came
            return Output(loss, self.net.fc(features[0][: len(step.incoming.x)]).float())

    def _replay_loss(self, replay: Batch, turned: Tensor, features: Tensor, random: Random) -> Tensor:
        labels = self._labels(replay)
        contrast = memory_term(self._similarity(features, random), labels, self.temperature)
        logits = self.net(views(replay.x, random)).float()
        with torch.no_grad():
            earlier = unit(self.previous_projection(self.previous_net.features(turned)))
            target = self.previous_net(views(replay.x, random)).float()
        now = unit(self.projection(features[: len(turned)]))
        known = self.known.to(logits.dtype)  # its maximum tells, without a read-back, whether there is a previous model
        look_back = known.amax() * previous_term(similarity(now, earlier), labels, self.temperature)
        distance = ((logits - target).square() * known).sum(1) / known.sum().clamp(min=1)
        return cross_entropy(logits, replay) + contrast + look_back + replay.mean(distance)

    @torch.no_grad()
    def after(self, step: Step, logits: Tensor) -> None:
        """Count what came in; at every `refresh` examples, become the previous model."""
        self.since += len(step.ids)
        due = self.since >= self.refresh
        self.since.remainder_(self.refresh)
        self.known.copy_(torch.where(due, step.seen, self.known))
        now = [*self.net.parameters(), *self.projection.parameters()]
        then = [*self.previous_net.parameters(), *self.previous_projection.parameters()]
        for old, new in zip(then, now, strict=True):
            old.copy_(torch.where(due, new, old))

    def _features(self, images: list[Tensor]) -> list[Tensor]:
        if self.setting.passes == "separate":
            return [self.net.features(x) for x in images]
        return list(torch.split(self.net.features(torch.cat(images)), [len(x) for x in images]))

    def _labels(self, batch: Batch) -> Tensor:
        return pseudo_labels(batch.y, self.rotations, self.setting.classes)

    def _similarity(self, features: Tensor, random: Random) -> Tensor:
        """Projections with projections, and with a random run of the features, as long as a projection."""
        projected, length = unit(self.projection(features)), self.projection.out_features
        start = random.below(max(1, features.shape[1] - length))
        return similarity(projected, projected, unit(features)[:, start : start + length])


def _frozen(module: ModuleT) -> ModuleT:
    """A copy that is not trained, and whose BatchNorm goes by each batch and so has no statistics that could move."""
    copy = deepcopy(module).requires_grad_(False)
    for part in copy.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    return copy
