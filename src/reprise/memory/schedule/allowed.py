"""What schedules share that leave classes out of a draw themselves."""

from __future__ import annotations

from collections.abc import Iterable, Set

from reprise.core.rng import Random


def allowed_rounds(k: int, classes: Iterable[int], barred: Set[int], random: Random) -> tuple[list[int], int]:
    """As many whole permutations of the classes that are not barred as fit into k slots, and how many slots remain."""
    allowed = [label for label in classes if label not in barred]
    whole, rest = divmod(k, len(allowed))
    return [label for _ in range(whole) for label in random.shuffled(allowed)], rest
