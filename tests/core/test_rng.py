"""Random streams: the words themselves, and that everything made from them is exactly uniform."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reprise.core import rng
from reprise.core.rng import Random

ALPHA = 1e-4
MASK = 2**64 - 1


def block(counter, key):
    """Four words of Philox4x64-10 (Salmon et al. 2011) from a 256-bit counter and a 128-bit key, low word first."""
    c = [counter >> 64 * place & MASK for place in range(4)]
    k0, k1 = key & MASK, key >> 64
    for _ in range(10):
        first, second = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [second >> 64 ^ c[1] ^ k0, second & MASK, first >> 64 ^ c[3] ^ k1, first & MASK]
        k0, k1 = k0 + 0x9E3779B97F4A7C15 & MASK, k1 + 0xBB67AE8584CAA73B & MASK
    return c


def philox(key):
    """All words of a key: the counter is raised before each block, so the first block is that of counter 1."""
    return (word for counter in itertools.count(1) for word in block(counter, key))


def key_of(seed, name):
    return int.from_bytes(hashlib.sha256(f"reprise/1\0{seed}\0{name}".encode()).digest()[:16], "little")


class Scripted(Random):
    """A stream that gives these words first, and then its own."""

    __slots__ = ()

    def __init__(self, words):
        super().__init__(0, "scripted")
        own = Random(0, "scripted").words(64)
        self._block = np.concatenate([np.array(words, np.uint64), own])
        self._words = self._block.tolist()


# Words ------------------------------------------------------------------------------------------------------------


def test_the_philox_of_these_tests_is_the_published_one():
    # The known answers that come with the authors' code.
    assert block(0, 0) == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert block(2**256 - 1, 2**128 - 1) == [
        0x87B092C3013FE90B,
        0x438C3C67BE8D0224,
        0x9CC7D7C69CD777B6,
        0xA09CAEBF594F0BA0,
    ]


@pytest.mark.parametrize(("seed", "name"), [(0, "storage"), (1, "schedule"), (2**80, "é/1")])
def test_words_are_philox(seed, name):
    assert Random(seed, name).words(1_100).tolist() == list(islice(philox(key_of(seed, name)), 1_100))


def test_golden_numbers():
    assert Random(0, "storage").words(4).tolist() == [
        17228198815301953418,
        3008342109161906363,
        8525889073959162259,
        18198692781842417381,
    ]
    assert Random(7, "schedule").permutation(8).tolist() == [4, 0, 2, 7, 1, 6, 5, 3]
    assert Random(7, "schedule").sample(100, 5) == [43, 64, 55, 96, 26]
    assert [Random(7, "schedule").below(bound) for bound in (10, 1000, 2**40)] == [4, 434, 477732677098]


@given(st.lists(st.tuples(st.sampled_from(["word", "words", "below", "each"]), st.integers(1, 700)), max_size=12))
def test_however_they_are_taken_the_words_are_the_same(calls):
    taken, expected = Random(3, "x"), Random(3, "x").words(9_000)
    position = 0
    for kind, count in calls:
        if kind == "words":
            got = taken.words(count).tolist()
        elif kind == "word":
            count %= 7
            got = [taken.word() for _ in range(count)]
        elif kind == "below":
            count = 1
            got = [taken.below(2**64)]
        else:
            got = taken.below_each([2**64] * count)
        assert got == expected[position : position + count].tolist()
        position += count
        assert taken.position == position


def test_names_and_seeds_give_unrelated_streams():
    streams = [Random(seed, name).words(2_000) for seed in (0, 1) for name in ("storage", "schedule", "schedule/1")]
    assert len({tuple(stream[:3].tolist()) for stream in streams}) == 6
    for one in range(6):
        for other in range(one):
            agree = np.unpackbits((streams[one] ^ streams[other]).view(np.uint8)).mean()
            assert abs(agree - 0.5) < 5 * 0.5 / np.sqrt(2_000 * 64)


# Bounded integers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 7, 1000, 2**32 + 5, 3 * 2**62, 2**63, 2**63 + 1, 2**64 - 1, 2**64])
def test_below_accepts_equally_many_words_for_every_number(bound):
    # Lemire: of the 2⁶⁴ words, those whose product with the bound has a low part under 2⁶⁴ mod bound are refused; then
    # each number keeps ⌊2⁶⁴/bound⌋ words. Look at the first and the last word of some numbers.
    refused = 2**64 % bound
    for number in {0, 1 % bound, bound // 2, bound - 1}:
        first = -(-number * 2**64 // bound)
        last = -(-(number + 1) * 2**64 // bound) - 1
        keeps = [word for word in (first, last) if word * bound % 2**64 >= refused]
        assert last - first + 1 - (first * bound % 2**64 < refused) == 2**64 // bound
        for word in keeps:
            stream = Scripted([word])
            assert stream.below(bound) == number
            assert stream.position == 1, "a good word was refused"


@pytest.mark.parametrize("bound", [3, 7, 10, 2**63 + 1, 3 * 2**62])
def test_below_draws_again_when_a_word_must_be_refused(bound):
    good = 12345678901234567890
    stream = Scripted([0, 0, good])
    assert stream.below(bound) == good * bound >> 64
    assert stream.position == 3


def test_below_refuses_nothing_when_the_bound_divides():
    for bound in (1, 2, 8, 2**63, 2**64):
        stream = Scripted([0])
        assert stream.below(bound) == 0
        assert stream.position == 1


@given(
    words=st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1, 12345678901234567]), max_size=20),
    bounds=st.lists(st.sampled_from([1, 2, 3, 5, 10, 2**63 + 1, 3 * 2**62, 2**64]), max_size=12),
)
def test_below_each_is_below_one_by_one_also_where_words_are_refused(words, bounds):
    one, many, few = Scripted(words), Scripted(words), Scripted(words)
    drawn = [one.below(bound) for bound in bounds]
    assert many.below_each(bounds) == drawn
    assert few.few_below(bounds, 2) == [(place, number) for place, number in enumerate(drawn) if number < 2]
    assert one.position == many.position == few.position


@given(st.lists(st.integers(1, 1_300), max_size=8), st.integers(0, 600))
def test_below_each_is_below_one_by_one_across_blocks(counts, skip):
    one, many = Random(9, "x"), Random(9, "x")
    one.words(skip)
    many.words(skip)
    for count in counts:
        bounds = range(5, 5 + count)
        assert many.below_each(bounds) == [one.below(bound) for bound in bounds]
        assert one.position == many.position


@given(
    words=st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1, 12345678901234567]), max_size=20),
    first=st.sampled_from([1, 2, 3, 1000, 2**31, 2**32 - 5, 2**32, 3 * 2**61]),
    count=st.integers(0, 12),
)
def test_below_run_is_below_one_by_one_also_where_words_are_refused(words, first, count):
    one, many = Scripted(words), Scripted(words)
    assert many.below_run(first, count).tolist() == [one.below(bound) for bound in range(first, first + count)]
    assert one.position == many.position


@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 1_300)), max_size=4), st.integers(0, 600))
def test_below_run_is_below_one_by_one_across_blocks(runs, skip):
    one, many = Random(9, "x"), Random(9, "x")
    one.words(skip)
    many.words(skip)
    for first, length in runs:
        assert many.below_run(first, length).tolist() == [one.below(bound) for bound in range(first, first + length)]
        assert one.position == many.position


def test_below_is_uniform():
    stream = Random(1, "uniform")
    counts = Counter(stream.below(7) for _ in range(14_000))
    assert stats.chisquare([counts[number] for number in range(7)]).pvalue > ALPHA
    counts = Counter(stream.below_each([7] * 14_000))
    assert stats.chisquare([counts[number] for number in range(7)]).pvalue > ALPHA


# Shuffles ---------------------------------------------------------------------------------------------------------


def test_all_permutations_of_four_are_as_likely():
    stream = Random(2, "permutation")
    counts = Counter(tuple(stream.permutation(4).tolist()) for _ in range(12_000))
    assert stats.chisquare([counts[order] for order in permutations(range(4))]).pvalue > ALPHA
    counts = Counter(tuple(stream.shuffled([7, 8, 9])) for _ in range(6_000))
    assert stats.chisquare([counts[order] for order in permutations([7, 8, 9])]).pvalue > ALPHA


def test_a_permutation_with_equal_words_is_drawn_again():
    stream = Scripted([5, 3, 5, 9, 1, 4])
    assert stream.permutation(3).tolist() == [1, 2, 0]
    assert stream.position == 6


@pytest.mark.parametrize("size", [0, 1, 2, 511, 512, 513, 2_000])
def test_a_permutation_holds_everything_once(size):
    order = Random(4, "p").permutation(size)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(size))
    items = list(range(size))
    assert sorted(Random(4, "p").shuffled(items)) == items


def test_samples_are_distinct_and_uniform_in_every_order():
    stream = Random(5, "sample")
    counts = Counter(tuple(stream.sample(5, 3)) for _ in range(9_000))
    assert stats.chisquare([counts[order] for order in permutations(range(5), 3)]).pvalue > ALPHA
    assert sorted(stream.sample(40, 40)) == list(range(40))
    assert stream.sample(40, 0) == stream.sample(0, 0) == []


def test_fractions_are_uniform_and_below_one():
    fractions = Random(6, "f").fractions(20_000)
    assert 0 <= fractions.min() <= fractions.max() < 1
    assert stats.kstest(fractions, "uniform").pvalue > ALPHA
    assert Scripted([2**64 - 1, 0, 1 << 63]).fractions(3).tolist() == [1 - 2**-53, 0.0, 0.5]


# State ------------------------------------------------------------------------------------------------------------


@given(position=st.integers(0, 2_000), more=st.integers(0, 700), seed=st.integers(0, 2**70))
def test_a_stream_can_be_taken_up_at_any_position(position, more, seed):
    stream = Random(seed, "x")
    stream.words(position)
    other = Random(1, "x")
    other.words(more)
    other.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    assert (other.seed, other.position) == (seed, position)
    for _ in range(5):
        assert stream.word() == other.word()
    assert stream.words(more).tolist() == other.words(more).tolist()
    assert stream.state_dict() == other.state_dict()


def test_a_far_position_is_reached_at_once():
    stream = Random(0, "x")
    stream.load_state_dict({"seed": 0, "name": "x", "position": 4 * 2**70 + 3})
    far = np.random.Philox(key=key_of(0, "x"), counter=2**70).random_raw(5)
    assert stream.word() == far[3]
    assert stream.word() == far[4]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"seed": 0, "name": "y", "position": 0}, "'y'"),
        ({"seed": 0, "name": "x", "position": -3}, "-3"),
        ({"seed": 0, "name": "x", "position": 1.5}, "1.5"),
        ({"seed": -4, "name": "x", "position": 0}, "-4"),
        ({"seed": 3, "name": "x", "position": 4 * 2**256}, None),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(state, word):
    stream = Random(0, "x")
    stream.words(17)
    before = stream.state_dict()
    with pytest.raises(ValueError, match=word):
        stream.load_state_dict(state)
    assert stream.state_dict() == before


@pytest.mark.parametrize("seed", [-1, 1.5, True, np.True_, "0", None, np.float64(2), [0]])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises((ValueError, TypeError)) as caught:
        Random(seed, "x")
    assert str(seed) in str(caught.value)
    assert "seed" in str(caught.value)


@pytest.mark.parametrize("seed", [0, np.int64(3), np.uint8(3), 2**200])
def test_whole_numbers_of_any_kind_are_seeds(seed):
    assert rng.check_seed(seed) == int(seed)
    assert Random(seed, "x").word() == Random(int(seed), "x").word()
    assert repr(Random(seed, "x")) == f"Random(seed={int(seed)}, name='x')"
