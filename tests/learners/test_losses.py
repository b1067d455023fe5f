"""The mask rules against the published lines, and cross-entropy against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners.steps import CLASSES, entropy_term, make_batch, make_step

from reprise.learners import MASKS, Batch
from reprise.learners.losses import check_mask, cross_entropy, masked_cross_entropy, open_classes


def literal(rule: str, present: set[int], seen: set[int], classes: int) -> list[int]:
    """Open classes as each published code has them, with sets and loops."""
    if rule == "reference_max":  # AML: the batch's own columns are opened, then all columns from max(seen) on
        columns = np.zeros(classes)
        columns[sorted(present)] = 1
        columns[max(seen) :] = 1
        return np.flatnonzero(columns).tolist()
    return [
        c for c in range(classes) if rule == "none" or c in present or (rule == "present_and_unseen" and c not in seen)
    ]


@pytest.mark.parametrize("rule", MASKS)
def test_open_classes_are_those_of_the_published_rule(rule: str) -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        classes = int(random.integers(1, 9))
        labels = random.integers(0, classes, random.integers(1, 5)).tolist()
        seen = random.permutation(classes)[: random.integers(0, classes + 1)].tolist()
        step = make_step(make_batch(labels, range(len(labels)), 0), seen=seen, classes=classes)
        opened = open_classes(rule, step)
        assert opened.dtype == torch.bool
        assert opened.nonzero().flatten().tolist() == literal(rule, set(labels), {*labels, *seen}, classes)


def opened(rule: str, labels: list[int], seen: list[int]) -> set[int]:
    step = make_step(make_batch(labels, range(len(labels)), 0), seen=seen)
    return set(open_classes(rule, step).nonzero().flatten().tolist())


def test_the_reference_leaves_the_largest_seen_class_open_though_it_is_absent() -> None:
    assert opened("reference_max", [2], [0, 1, 3]) == {2, 3, 4, 5}
    assert opened("present_and_unseen", [2], [0, 1, 3]) == {2, 4, 5}
    assert opened("present", [2], [0, 1, 3]) == {2}
    assert opened("none", [2], [0, 1, 3]) == set(range(6))


def test_with_permuted_ids_the_reference_closes_classes_that_have_never_arrived() -> None:
    assert opened("reference_max", [5], [2]) == {5}
    assert opened("present_and_unseen", [5], [2]) == {0, 1, 3, 4, 5}


def test_unknown_mask_is_an_error_that_lists_the_rules() -> None:
    with pytest.raises(ValueError, match="present_and_unseen, present, reference_max, none, got 'open'"):
        check_mask("open")
    assert [check_mask(rule) for rule in MASKS] == list(MASKS)


def test_cross_entropy_is_the_mean_over_the_batch() -> None:
    batch = make_batch([0, 3, 3], [0, 1, 2], 0)
    logits = torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(1)) * 3
    rows = zip(logits.double().numpy(), batch.y.tolist(), strict=True)
    terms = [entropy_term(row, y, range(CLASSES))[0] for row, y in rows]
    assert float(cross_entropy(logits, batch)) == pytest.approx(sum(terms) / 3, rel=1e-6)


def test_parts_of_a_batch_add_up_to_its_mean() -> None:
    # Two processes of two and one examples: each scales its weights by two, and their results are averaged.
    whole = make_batch([0, 3, 5], [0, 1, 2], 0)
    logits = torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(1))
    parts = [
        Batch(whole.x[part], whole.y[part], whole.ids[part], whole.weight[part] * 2)
        for part in (slice(0, 2), slice(2, 3))
    ]
    losses = [cross_entropy(logits[:2], parts[0]), cross_entropy(logits[2:], parts[1])]
    assert float(sum(losses)) / 2 == pytest.approx(float(cross_entropy(logits, whole)), rel=1e-6)


@pytest.mark.parametrize("rule", MASKS)
def test_masked_cross_entropy_is_over_the_open_classes(rule: str) -> None:
    step = make_step(make_batch([1, 4, 1], [0, 1, 2], 0), seen=[0, 2, 5])
    logits = (torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(2)) * 3).requires_grad_()
    loss = masked_cross_entropy(logits, step, rule)
    (slope,) = torch.autograd.grad(loss, logits)
    classes = literal(rule, {1, 4}, {0, 1, 2, 4, 5}, CLASSES)
    rows = zip(logits.detach().double().numpy(), step.incoming.y.tolist(), strict=True)
    terms = [entropy_term(row, y, classes) for row, y in rows]
    assert float(loss.detach()) == pytest.approx(sum(term[0] for term in terms) / 3, rel=1e-6)
    np.testing.assert_allclose(slope.numpy(), np.stack([term[1] for term in terms]) / 3, atol=1e-7)
    closed = sorted(set(range(CLASSES)) - set(classes))
    assert (slope[:, closed] == 0).all()
