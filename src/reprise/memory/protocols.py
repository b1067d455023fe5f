"""What a storage, a schedule and a retrieval must be able to do: write your own against these.

The easiest way is to derive from `reprise.core.registry.Policy`, which supplies `fresh`, repr, equality and spec. A
policy has two lives. As an *object* it is its constructor arguments. Put into a memory, a fresh copy of it is
*started* with random streams of its own, and from then on has a state, which `state_dict` gives as plain
numbers, strings, lists, dicts and NumPy arrays, and `load_state_dict` takes back. Random streams are saved by
the memory, not by the policy. So a copied or pickled memory starts its policies anew and hands them that state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random
from reprise.memory.index import Index

if TYPE_CHECKING:
    from typing_extensions import Self

Score = Callable[..., Any]
"""What a policy is told of the model, by whoever asks the memory, about stored examples, given their slots.

A retrieval gets one number for each. A storage gets an array with one row for each, and calls it without slots for that
of the incoming examples, in order. It asks before it writes: slots mean what they held before the batch.
"""
Source = Callable[[str], Random]
"""Gives the random stream of a name; the memory saves its position."""


@runtime_checkable
class Storage(Protocol):
    """Who is kept: decides which slot an incoming example takes, or none.

    One that goes by a score says `scored`: then `assign` has a third argument, `score`, and nothing can be planned
    ahead. In a training run the word says what is told of every example: `scored = "features"` those that the head
    sees, `scored = "gradients"` those of its cross-entropy with respect to the head's parameters, one row of numbers.

    Examples can be removed from a memory whose storage has `forget(slots, moves, index)`: those in `slots`, sorted, are
    about to go, then those of `moves` move from one slot to another, (source, target); `index` still has them all. It
    can be resized if there is `resized(index)` besides, which is called when `index.capacity` is another. Then
    `release(count, index, random)` names the slots to give up for a smaller capacity; without it they are uniform.
    """

    def fresh(self) -> Self: ...

    def start(self, source: Source) -> None:
        """Begin with an empty memory; `source("storage")` is the random stream for what is kept."""

    def assign(self, labels: list[int], index: Index) -> list[int] | NDArray[np.int64]:
        """Give each example a slot, in order: `index.put(slot, label)` if it is kept. Return the slots, −1 for none."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class Schedule(Protocol):
    """When classes return: yields class ids for a replay batch. It sees class ids only.

    A schedule that may name a class twice in a batch though there are enough others sets `distinct = False`. One that
    promises how soon a class is served that has just come says so by `first_bound(most, inserted, n)`, the longest wait
    from its arrival to its first visit, or None: `most` is the largest number of resident classes from the first draw
    that knows the class to the visit, `inserted` how many came at later draws. Without that method nothing is promised.

    One whose law is known says so by `gap_tail(classes, slots, longest)`: an array of the probabilities of a gap of at
    least 1, 2, … `longest` steps on a fixed set of `classes`, with `slots` to a draw, or None where no law is known.
    Without that method none is.

    One that can leave classes out of a draw has `take_among(k, batch, barred)`: as `take`, but none of `barred`, a set
    of resident classes that are not all there are. For one without that method these have departed when the draw
    begins, and they arrive with the next draw that allows them. If it then knows no class at all, it is not asked.

    A wait counts draws, the one that ends it included. What a schedule promises of waits that end it also keeps of a
    wait that is cut off, by the end of a run or by an eviction: it cannot know that, and the visit would have come one
    draw later at the earliest.
    """

    def fresh(self) -> Self: ...

    def start(self, random: Random) -> None:
        """Begin with no resident class and this random stream."""

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        """A draw of n examples begins; these classes have come and gone since the last (sorted, never overlapping)."""

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        """At most k class ids, next first; a class may come twice. `batch` holds the classes drawn so far in this draw.

        Called again in the same draw when some classes had no further example. An empty list ends the draw.
        """

    def bound(self, classes: int, n: int) -> int | None:
        """The longest wait of any class on a fixed set of `classes`, the first included; None if there is no bound."""

    def churn_bound(self, most: int, inserted: int, n: int) -> int | None:
        """The longest gap of a class that stays while others come and go; None if there is no bound.

        `most` is the largest number of resident classes from one visit to the next, `inserted` how many came.
        """

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class Retrieval(Protocol):
    """Which stored examples return.

    One that needs a score says `scored = True`: its tapes cannot be planned. One that says `scored = False` is never
    given one: a draw with a score is an error. One whose law is known says so by `gap_tail(classes, per_class, slots,
    longest)`, as a schedule does, for a memory that holds `per_class` examples of each class and stands still.

    One that needs a score may have `pool`, the most examples that it asks about. It says thereby that it asks once a
    draw, about examples that do not depend on any score, and returns those of the highest score, ties in the order
    asked. Then these candidates are planned ahead, and a GPU chooses among them.

    One that can leave classes out has `draw_among(n, index, score, barred)`: as `draw`, but no slot of these classes.
    None may be left, and the memory itself may be empty if everything was removed. Without that method a draw that
    leaves classes out is an error.
    """

    def fresh(self) -> Self: ...

    def start(self, source: Source, index: Index) -> None:
        """Begin on this index; `source(name)` gives a random stream of that name."""

    def draw(self, n: int, index: Index, score: Score | None) -> list[int]:
        """At most n distinct filled slots. The memory is never empty here, and n never 0."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


P = TypeVar("P", Storage, Schedule, Retrieval)


def checked(policy: P, kind: type) -> P:
    """The policy, if it has every method of its kind, one of the three above; otherwise say which it lacks."""
    name = kind.__name__.lower()
    if isinstance(policy, type):
        raise TypeError(f"a {name} is an object, got the class {policy.__name__}: write {policy.__name__}(…)")
    if isinstance(policy, str):
        raise TypeError(f"a {name} is an object here, got the spec {policy!r}")
    absent = lacking(policy, kind)
    if absent:
        raise TypeError(
            f"a {name} is a spec or an object with the methods of reprise.memory.{kind.__name__}; {policy!r} lacks "
            f"{', '.join(absent)}"
        )
    return policy


def lacking(policy: object, kind: type) -> list[str]:
    """The methods of a kind of policy that an object does not have."""
    methods = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
    return [name for name in methods if not callable(getattr(policy, name, None))]


def fresh(policy: P, kind: type) -> P:
    """A fresh copy of a policy, ready to be started."""
    made = policy.fresh()
    if lacking(made, kind):
        raise TypeError(f"{type(policy).__name__}.fresh() must return a new {kind.__name__.lower()}, got {made!r}")
    return made
