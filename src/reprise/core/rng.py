"""Named random streams from one seed, the same on every machine and every NumPy.

NumPy promises that a bit generator's raw words never change; it makes no such promise for the methods of
`Generator`. So only raw words are taken from NumPy, and bounded integers and shuffles are made here.

A stream is a Philox counter keyed by a hash of its seed and its name. Streams with different names are
independent, and the whole state of one is a single number: how many words it has given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int

_BLOCK = 512
_WORD = 1 << 64
MASK = _WORD - 1
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
_PER_COUNTER = 4  # Philox makes four 64-bit words from one counter value
_PERIOD = _PER_COUNTER << 256


def check_seed(seed: object) -> int:
    """Return `seed` as an int, or say what is wrong with it."""
    return as_int(seed, "seed", 0)


class Random:
    """One named stream of random numbers.

    >>> Random(0, "storage").below(100) == Random(0, "storage").below(100)
    True
    """

    __slots__ = ("_bits", "_block", "_given", "_next", "_words", "name", "seed")

    def __init__(self, seed: int, name: str) -> None:
        self.seed = check_seed(seed)
        self.name = name
        self._seek(0)

    def _seek(self, position: int) -> None:
        digest = hashlib.sha256(f"reprise/1\0{self.seed}\0{self.name}".encode()).digest()
        counter, skip = divmod(position, _PER_COUNTER)
        self._bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=counter)
        if skip:
            self._bits.random_raw(skip, output=False)
        self._given = position  # words given before the first of the current block
        self._block: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._words: list[int] = []
        self._next = 0

    @property
    def position(self) -> int:
        """How many 64-bit words this stream has given."""
        return self._given + self._next

    def _refill(self) -> None:
        self._given += self._next
        self._block = np.concatenate([self._block[self._next :], self._bits.random_raw(_BLOCK)])
        self._words = self._block.tolist()
        self._next = 0

    def word(self) -> int:
        """The next raw 64-bit word."""
        if self._next == len(self._words):
            self._refill()
        self._next += 1
        return self._words[self._next - 1]

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` raw words as an array."""
        start, stop = self._next, self._next + count
        if stop <= len(self._words):
            self._next = stop
            return self._block[start:stop]
        head = self._block[start:]
        fresh = self._bits.random_raw(count - len(head))
        self._given += len(self._words) + len(fresh)
        self._block, self._words, self._next = np.empty(0, np.uint64), [], 0
        return np.concatenate([head, fresh]) if len(head) else fresh

    def take(self, count: int) -> list[int]:
        """The next `count` raw words as a list; `give_back` undoes it."""
        start, stop = self._next, self._next + count
        while stop > len(self._words):
            self._refill()
            start, stop = 0, count
        self._next = stop
        return self._words[start:stop]

    def give_back(self, count: int) -> None:
        """The last `count` words, just taken by `take`, are to come again."""
        self._next -= count

    def below(self, bound: int) -> int:
        """A whole number uniform on 0 … bound−1, exactly (Lemire's multiplication with rejection)."""
        place = self._next
        if place == len(self._words):
            self._refill()
            place = 0
        self._next = place + 1
        product = self._words[place] * bound
        while product & MASK < bound:
            if product & MASK >= _WORD % bound:
                break
            product = self.word() * bound
        return product >> 64

    def below_each(self, bounds: Sequence[int]) -> list[int]:
        """`[self.below(bound) for bound in bounds]`, without a call for each."""
        count = len(bounds)
        words = self.take(count)
        drawn = [product >> 64 for w, b in zip(words, bounds) if (product := w * b) & MASK >= b]  # noqa: B905
        if len(drawn) < count:  # a word to reject (about once in 2⁶⁴/bound): the careful way for the whole call
            self.give_back(count)
            return [self.below(bound) for bound in bounds]
        return drawn

    def few_below(self, bounds: Sequence[int], limit: int) -> list[tuple[int, int]]:
        """As `below_each`, but only the numbers below `limit`, each after its place: for when they are few."""
        words, least = self.take(len(bounds)), limit << 64
        found = []
        for place, word in enumerate(words):
            bound = bounds[place]
            product = word * bound
            if product & MASK < bound:  # as above
                self.give_back(len(words))
                drawn = self.below_each(bounds)
                return [(place, number) for place, number in enumerate(drawn) if number < limit]
            if product < least:
                found.append((place, product >> 64))
        return found

    def below_run(self, first: int, count: int) -> NDArray[np.int64]:
        """`[self.below(bound) for bound in range(first, first + count)]` as an array, many at a time."""
        if first + count > _WORD >> 32:  # the halves of a product would not fit 64 bits
            return np.array(self.below_each(range(first, first + count)), np.int64)
        words = self.words(count)
        bounds = np.arange(first, first + count, dtype=np.uint64)
        low = words & _LOW_HALF
        low *= bounds
        low >>= _HALF
        high = words >> _HALF  # with what follows, the 128-bit product without its last 32 bits
        high *= bounds
        high += low
        # A word to reject has a product whose last 64 bits are below the bound, and so below 2³².
        if np.count_nonzero(high & _LOW_HALF) < count:
            return self._careful_run(words.tolist(), bounds.tolist())
        high >>= _HALF
        drawn: NDArray[np.int64] = high.view(np.int64)
        return drawn

    def _careful_run(self, words: list[int], bounds: list[int]) -> NDArray[np.int64]:
        """As `below`, from words already taken and then new ones: a rejected word moves all that follow."""
        taken = iter(words)
        drawn = []
        for bound in bounds:
            product = _next_word(taken, self) * bound
            while product & MASK < _WORD % bound:
                product = _next_word(taken, self) * bound
            drawn.append(product >> 64)
        return np.array(drawn, np.int64)

    def permutation(self, size: int) -> NDArray[np.int64]:
        """A uniform permutation of 0 … size−1: the order of `size` distinct random words."""
        while True:
            words = self.words(size)
            order = words.argsort()
            ranked = words.take(order)
            if not np.count_nonzero(ranked[1:] == ranked[:-1]):  # `any` takes four times as long
                return order.astype(np.int64, copy=False)

    def shuffled(self, items: list[int]) -> list[int]:
        """A uniformly shuffled copy of `items`."""
        return [items[place] for place in self.permutation(len(items)).tolist()]

    def sample(self, size: int, count: int) -> list[int]:
        """`count` distinct whole numbers below `size`, in uniformly random order.

        A Fisher–Yates shuffle that touches only what it draws.
        """
        moved: dict[int, int] = {}
        drawn = []
        for done, offset in enumerate(self.below_each(range(size, size - count, -1))):
            chosen = done + offset
            drawn.append(moved.get(chosen, chosen))
            moved[chosen] = moved.get(done, done)
        return drawn

    def fractions(self, count: int) -> NDArray[np.float64]:
        """`count` numbers uniform on [0, 1), multiples of 2⁻⁵³."""
        fractions: NDArray[np.float64] = (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return fractions

    def state_dict(self) -> dict[str, int | str]:
        return {"seed": self.seed, "name": self.name, "position": self.position}

    def load_state_dict(self, state: dict[str, int | str]) -> None:
        if state["name"] != self.name:
            raise ValueError(f"this random stream is {self.name!r}, the state is of {state['name']!r}")
        seed, position = check_seed(state["seed"]), state["position"]
        if type(position) is not int or not 0 <= position < _PERIOD:
            raise ValueError(f"a random stream's position is a whole number of 0 or more, got {position!r}")
        self.seed = seed
        self._seek(position)

    def __repr__(self) -> str:
        return f"Random(seed={self.seed}, name={self.name!r})"


def _next_word(taken: Iterator[int], random: Random) -> int:
    for word in taken:
        return word
    return random.word()
