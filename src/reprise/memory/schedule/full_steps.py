"""Steps that have no room, and the latest one before them that has: in logarithmic time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_BITS = 9
_WIDTH = 1 << _BITS
_ALL = (1 << _WIDTH) - 1


class FullSteps:
    """A set of whole numbers that knows the nearest number below which is not in it.

    Its first level has a bit for every number, in words of 512. A bit of the next level says that a whole word of the
    level before it is set. So a row of any length is passed over a word at a time, and then a word of words.
    """

    __slots__ = ("_levels",)

    def __init__(self, steps: Iterable[int] = ()) -> None:
        self._levels: list[dict[int, int]] = [{}]
        for step in steps:
            self.add(step)

    def __iter__(self) -> Iterator[int]:
        for at, word in sorted(self._levels[0].items()):
            yield from (at << _BITS | bit for bit in range(_WIDTH) if word >> bit & 1)

    def add(self, step: int) -> None:
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append({})
            words, at = self._levels[level], step >> _BITS
            words[at] = word = words.get(at, 0) | 1 << (step & (_WIDTH - 1))
            if word != _ALL:
                return
            step, level = at, level + 1

    def remove(self, step: int) -> None:
        for words in self._levels:
            at = step >> _BITS
            word = words[at]
            words[at] = rest = word & ~(1 << (step & (_WIDTH - 1)))
            if not rest:
                del words[at]
            if word != _ALL:
                return
            step = at

    def before(self, step: int) -> int:
        """The latest step, this one or before it, that is not in the set; −1 if all from 0 on are."""
        level = 0
        while step >= 0:
            at = step >> _BITS
            words = self._levels[level] if level < len(self._levels) else {}
            free = ~words.get(at, 0) & ((2 << (step & (_WIDTH - 1))) - 1)
            if free:
                step = at << _BITS | free.bit_length() - 1
                break
            step, level = at - 1, level + 1
        else:
            return -1
        while level:
            level -= 1
            step = step << _BITS | (~self._levels[level].get(step, 0) & _ALL).bit_length() - 1
        return step
