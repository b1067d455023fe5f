"""Retrievals that say whom they ask about, and do not keep to it: the check finds each."""

from __future__ import annotations

import numpy as np
import pytest

from reprise.checks import Broken, check_retrieval
from reprise.memory import MaximallyInterfered, Uniform


class Pooled(MaximallyInterfered):
    """A form of its own for each of what follows."""

    def __init__(self):
        super().__init__(5)


class Wide(Pooled):
    """Asks about more than it says."""

    pool = 4


class Twice(Pooled):
    def draw(self, n, index, score):
        return super().draw(n, index, score and (lambda slots: (score(slots), score(slots))[1]))


class Hoarding(Pooled):
    """Asks about those that did badly, as long as they are there."""

    bad = 0

    def draw(self, n, index, score):
        pool = list(range(self.bad, index.size))[:5] or [0]
        values = score(np.array(pool))
        self.bad = pool[int(np.argmin(values))]
        best = np.argsort(-values, kind="stable")[:n]
        return [pool[place] for place in best]

    def state_dict(self):
        return {"bad": self.bad}

    def load_state_dict(self, state):
        self.bad = state["bad"]


class LastOfEqual(Pooled):
    """Of equal scores the last one comes first."""

    def draw(self, n, index, score):
        return super().draw(n, index, lambda slots: score(slots) + 1e-3 * np.arange(len(slots)))


class Whimsical(Pooled):
    """Asks, and draws the first."""

    def draw(self, n, index, score):
        return super().draw(n, index, lambda slots: 0 * score(slots))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Wide(), "ask once a draw, about 4 at most; in trial .* it asked about 5$"),
        (Twice(), r"ask once a draw, about 5 at most; in trial .* it asked about (\d) and \1$"),
        (Hoarding(), "the same examples whatever their scores"),
        (LastOfEqual(), "of the highest score, ties in order"),
        (Whimsical(), "of the highest score"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_pool_that_is_not_kept_to_is_found(broken, words):
    check_retrieval(Pooled())
    with pytest.raises(Broken, match=words):
        check_retrieval(broken)


class Swimming(Uniform):
    """Has no score, and something else of that name."""

    pool = 3


def test_a_pool_is_of_retrievals_that_ask_for_a_score():
    check_retrieval(Swimming())
