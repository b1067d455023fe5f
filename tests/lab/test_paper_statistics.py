"""The paper's printed t, p, Holm p and intervals, from its printed means and standard deviations."""

from __future__ import annotations

import csv
import math
import random
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.lab.printed import Range, from_printed, from_summary, half_unit, holm_ranges
from reprise.lab.statistics import holm, holm_by_family, paired

SEEDS = 10


def table(name: str) -> list[dict[str, str]]:
    text = (files("reprise.studies") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


ROWS = table("statistics")
FAMILIES = [f"{row['storage']} {row['comparator']}" for row in ROWS]
CONTRASTS = {(row["storage"], row["contrast"], row["dataset"], row["stream"]): row for row in table("contrasts")}
RANGES = [from_printed(row["delta"], row["sd"], SEEDS) for row in ROWS]


def name(row: dict[str, str]) -> str:
    return " ".join(row[key] for key in ("storage", "comparator", "dataset", "stream"))


def both() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("row", "ranges"), list(zip(ROWS, RANGES, strict=True)), ids=map(name, ROWS))


def test_all_sixteen_rows_are_there() -> None:
    assert len(ROWS) == len({name(row) for row in ROWS}) == 16
    assert sorted(set(FAMILIES)) == ["brs fixed", "brs iid", "reservoir fixed", "reservoir iid"]


@both()
@pytest.mark.parametrize("key", ["t", "p"])
def test_t_and_p_are_within_rounding(row, ranges, key: str) -> None:  # type: ignore[no-untyped-def]
    assert getattr(ranges, key).apart(row[key]) == 0


@both()
def test_intervals_are_within_rounding(row, ranges) -> None:  # type: ignore[no-untyped-def]
    """The interval stands in the other table, with two digits, beside the same difference."""
    printed = CONTRASTS[row["storage"], f"rpr_minus_{row['comparator']}", row["dataset"], row["stream"]]
    assert Range(float(row["delta"]), float(row["delta"])).holds(printed["delta"])
    assert ranges.low.apart(printed["ci_lo"]) == ranges.high.apart(printed["ci_hi"]) == 0


def test_holm_s_p_values_are_within_rounding() -> None:
    found = dict.fromkeys(range(len(ROWS)), Range(0.0, 0.0))
    for family in set(FAMILIES):
        members = [index for index, one in enumerate(FAMILIES) if one == family]
        found |= dict(zip(members, holm_ranges([RANGES[index].p for index in members]), strict=True))
    assert [found[index].apart(row["p_holm"]) for index, row in enumerate(ROWS)] == [0.0] * len(ROWS)


def test_holm_s_p_values_follow_from_the_printed_ones() -> None:
    adjusted = holm_by_family(FAMILIES, [float(row["p"]) for row in ROWS])
    for row, p in zip(ROWS, adjusted, strict=True):
        assert p is not None
        # at most four times the rounding of the p-value it is made of
        assert abs(p - float(row["p_holm"])) <= 4 * half_unit(row["p"]) + half_unit(row["p_holm"])


def test_ranges_are_narrow_enough_to_tell() -> None:
    """They are no wider than the digits that went in: about two parts in a thousand for most rows."""
    for row, ranges in zip(ROWS, RANGES, strict=True):
        wide = half_unit(row["delta"]) / float(row["delta"]) + half_unit(row["sd"]) / float(row["sd"])
        assert (ranges.t.high - ranges.t.low) / float(row["t"]) == pytest.approx(2 * wide, rel=0.01)
        assert ranges.t.apart(f"{float(row['t']) * (1 + 3 * wide):.5f}") > 0


figures = st.tuples(st.decimals(-3, 3, places=2), st.decimals(0, 2, places=2), st.integers(2, 40))


@given(figures, st.floats(-1, 1), st.floats(-1, 1))
def test_whatever_was_rounded_lies_within(printed, one: float, other: float) -> None:  # type: ignore[no-untyped-def]
    """Any mean and standard deviation that round to the printed figures have their statistics within the ranges."""
    mean, sd, n = str(printed[0]), str(printed[1]), printed[2]
    ranges = from_printed(mean, sd, n)
    true = from_summary(float(mean) + one * half_unit(mean), max(0.0, float(sd) + other * half_unit(sd)), n)
    tiny = 1e-9
    if true.t is not None:
        assert ranges.t.low * (1 - math.copysign(tiny, ranges.t.low)) <= true.t + tiny
        assert true.t - tiny <= ranges.t.high * (1 + math.copysign(tiny, ranges.t.high))
    assert ranges.p.low - tiny <= true.p <= ranges.p.high + tiny
    assert ranges.low.low - tiny <= true.low <= ranges.low.high + tiny
    assert ranges.high.low - tiny <= true.high <= ranges.high.high + tiny


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=6))
def test_holm_s_ranges_hold_every_choice_within(cases: list[tuple[float, float, float]]) -> None:
    ends = [(min(case), max(case), sorted(case)[1]) for case in cases]
    found = holm_ranges([Range(low, high) for low, high, _ in ends])
    for one, p in zip(found, holm([middle for *_, middle in ends]), strict=True):
        assert one.low <= p <= one.high


def test_figures_near_nothing() -> None:
    """A mean that may be 0 has any p up to 1; a standard deviation that may be 0 has any t."""
    around = from_printed("0.00", "0.50", 10)
    assert (around.t.low, around.p.high) == (-around.t.high, 1.0)
    free = from_printed("0.30", "0.00", 10)
    assert (free.t.high, free.p.low) == (math.inf, 0.0)
    assert 0 < free.t.low < math.inf
    both_ways = from_printed("0.00", "0.00", 10)
    assert (both_ways.t.low, both_ways.t.high) == (-math.inf, math.inf)
    assert (both_ways.p.low, both_ways.p.high) == (0.0, 1.0)
    below = from_printed("-0.30", "0.00", 10)
    assert (below.t.low, below.t.high) == (-free.t.high, -free.t.low)


def test_summary_is_that_of_the_pairs_it_summarises() -> None:
    random.seed(3)
    a, b = ({seed: random.gauss(mean, 1) for seed in range(8)} for mean in (1, 0))
    found = paired(a, b)
    same = from_summary(found.mean, found.sd, found.n)
    assert (same.t, same.p, same.low, same.high) == pytest.approx((found.t, found.p, found.low, found.high))
    still = from_summary(2.0, 0.0, 3)
    assert (still.t, still.p, still.low, still.high) == (None, 0.0, 2.0, 2.0)
    assert from_summary(0.0, 0.0, 3).p == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((math.inf, 1.0, 3), "a mean is a number, got inf"),
        ((0.0, -1.0, 3), "a standard deviation is a number of 0 or more, got -1.0"),
        ((0.0, 1.0, 1), "statistics need at least 2 seeds, got 1"),
    ],
)
def test_bad_values_are_named(arguments: tuple[float, float, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_summary(*arguments)
