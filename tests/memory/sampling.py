"""What the tests of this room share: fixed memories, gaps, and tests of distributions.

Every seed is fixed, so a test that passes goes on passing until somebody changes which random numbers are drawn.
Then each has one chance in ten thousand to fail although nothing is wrong; there are about a hundred of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from scipy import stats

import reprise

ALPHA = 1e-4

# One spec of every registered policy, by what is to be held of it.
STORAGES = ["reservoir", "brs", "brs-always", "cbrs", "fifo"]
PASSES = ["rpr", "reused:1", "reused:3", "window:0.25", "window:1", "fixed"]  # every class once, then again
RENEWED = [*PASSES, "iid", "hybrid:1", "hybrid:3", "deadline:1.5", "deadline:3"]
FROZEN = ["frozen-pass", "frozen-iid", "frozen-pass:2", "frozen-iid:3"]
SCHEDULES = [*RENEWED, *FROZEN]
RETRIEVALS = [*SCHEDULES, *(f"{spec}+pass" for spec in SCHEDULES[::2]), "uniform"]


def still(retrieval: str, classes: int, *, each: int = 2, seed: int = 0, draws: int = 1) -> reprise.Memory:
    """A full memory that holds `each` examples of every class, in shuffled slots."""
    memory = reprise.Memory(classes * each, retrieval=retrieval, seed=seed, draws=draws)
    memory.store(np.random.default_rng(classes).permutation(np.repeat(np.arange(classes), each)))
    return memory


def batches(memory: reprise.Memory, n: int, steps: int) -> list[list[int]]:
    """The classes of `steps` draws, nothing arriving."""
    return [memory.draw(n).labels.tolist() for _ in range(steps)]


def gaps(drawn: Sequence[Sequence[int]], label: int) -> np.ndarray:
    """Steps between successive visits of one class."""
    return np.diff([step for step, batch in enumerate(drawn) if label in batch])


def fit(values: Iterable[int], law: Sequence[float]) -> float:
    """The p-value of Pearson's test that independent `values` follow `law`, entry g the probability of g.

    The law's rest is the probability of everything beyond it. Outcomes expected less than five times count as one.
    """
    law = np.append(law, max(0.0, 1.0 - float(np.sum(law))))
    counts = np.bincount(np.minimum(np.asarray(values, int), len(law) - 1), minlength=len(law)).astype(float)
    assert not counts[law < 1e-12].any(), f"impossible values: {np.flatnonzero((law < 1e-12) & (counts > 0))}"
    expected = law * counts.sum()
    rare = expected < 5
    if rare.any():
        counts, expected = (np.append(row[~rare], row[rare].sum()) for row in (counts, expected))
        if expected[-1] < 5:
            least = int(np.argmin(expected[:-1]))
            for row in (counts, expected):
                row[least] += row[-1]
            counts, expected = counts[:-1], expected[:-1]
    if len(counts) == 1:
        return 1.0  # only one thing can happen, and it did
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def uniform_fit(values: Iterable[Hashable], outcomes: Iterable[Hashable]) -> float:
    """The p-value of Pearson's test that independent `values` are uniform on `outcomes`."""
    place = {outcome: at for at, outcome in enumerate(outcomes)}
    return fit([place[value] for value in values], [1 / len(place)] * len(place))


def same_law(ours: Iterable[Hashable], theirs: Iterable[Hashable]) -> float:
    """The p-value of the chi-square test that two samples of anything come from one distribution.

    Outcomes expected less than five times in the smaller sample count as one.
    """
    left, right = Counter(ours), Counter(theirs)
    totals = np.array([left.total(), right.total()])
    least = 5 * totals.sum() / totals.min()
    table: list[list[int]] = []
    rare = [0, 0]
    for outcome in {**left, **right}:
        pair = [left[outcome], right[outcome]]
        if sum(pair) < least:
            rare = [rare[0] + pair[0], rare[1] + pair[1]]
        else:
            table.append(pair)
    if sum(rare):
        table.append(rare)
    if len(table) == 1:
        return 1.0  # only one thing happens
    return float(stats.chi2_contingency(np.array(table).T, correction=False).pvalue)


def spread_fit(stretches: Sequence[np.ndarray]) -> float:
    """The two-sided p-value of equal frequency of every pair, from the spread of the pair counts.

    `stretches` are symmetric matrices of pair counts of independent stretches. Under a schedule that treats classes
    alike, counts less what the classes' own counts explain vary alike in every one of C(C−3)/2 directions (they
    are an irreducible representation of the permutations). So their squared length, in units of what one stretch
    adds in one direction, is chi-square. Pairs that meet more often than others make it longer, whatever the mean.
    """
    size = len(stretches[0])
    directions = size * (size - 3) // 2
    steps = sum(_length(_beyond_classes(stretch)) for stretch in stretches)
    ratio = directions * _length(_beyond_classes(np.sum(stretches, axis=0))) / steps
    lower = float(stats.chi2.cdf(ratio, directions))
    return 2 * min(lower, float(stats.chi2.sf(ratio, directions)))


def _beyond_classes(counts: np.ndarray) -> np.ndarray:
    size = len(counts)
    rows = counts.sum(1)
    share = (rows - rows.mean()) / (size - 2)
    rest = counts - rows.mean() / (size - 1) - share[:, None] - share[None, :]
    np.fill_diagonal(rest, 0)
    return rest


def _length(rest: np.ndarray) -> float:
    return float((rest**2).sum()) / 2


def pair_counts(drawn: Sequence[Sequence[int]], classes: int) -> np.ndarray:
    """How often each two classes shared a batch."""
    present = np.zeros((len(drawn), classes))
    for step, batch in enumerate(drawn):
        present[step, batch] = 1
    counts = present.T @ present
    np.fill_diagonal(counts, 0)
    return counts
