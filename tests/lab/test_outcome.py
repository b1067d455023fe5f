"""What came out of a study, beside the paper: on numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from lab.handmade import CELL, record, runs_of, tiny_plan
from lab.tinystudies import STUDY

from reprise.lab import Cell, Column, Printed, PrintedContrast, TheoryFigure, across, difference
from reprise.lab.figure import agrees, judge, standard_error
from reprise.lab.outcome import StudyOutcome, outcome
from reprise.lab.statistics import paired
from reprise.lab.study_runs import TestRuns, ValidationRuns
from reprise.lab.verdict import _said

IID = (10.0, 12.0, 14.0, 16.0)  # mean of two 11, variance of four 20/3; so with ten runs of theirs the error is 2
RPR = (8.0, 8.0, 8.0, 8.0)


def found(
    printed: dict[str, str],
    iid: Sequence[float | None] = IID,
    rpr: Sequence[float | None] = RPR,
    key: str = "mean",
    column: dict[str, Any] | None = None,
    seeds: int = 2,
    **changes: Any,
) -> StudyOutcome:
    """Compares hand-made figures with what the paper is said to print."""
    rows = tuple({"retrieval": arm, "value": figure} for arm, figure in printed.items())
    columns = (Column(key, paper=Printed(rows, "value"), **(column or {})),)
    plan = tiny_plan(seeds, columns=columns, **changes)
    return outcome(plan, runs_of(plan, key, {"iid": iid, "rpr": rpr}))


def test_standard_error_of_two_means() -> None:
    assert standard_error(3.0, 10, 10) == pytest.approx(3.0 / 5**0.5)
    assert standard_error(3.0, 10, 1) == pytest.approx(3.0 * 1.1**0.5)


@pytest.mark.parametrize(
    ("mean", "printed", "within"),
    [
        (11.0, "5.0", True),  # exactly three errors of 2
        (11.04, "5.0", True),  # and the rounding
        (11.06, "5.0", False),
        (11.4, "5", True),  # a coarser figure leaves more open
        (11.6, "5", False),
        (-1.0, "5.0", True),
        (-1.06, "5.0", False),
    ],
)
def test_within_is_three_errors_and_the_rounding(mean: float, printed: str, within: bool) -> None:
    assert agrees(mean, printed, 2.0) is within


def test_a_figure_that_never_varies_must_round_to_the_printed_one() -> None:
    assert agrees(3.125, "3.12", 0.0)
    assert not agrees(3.1251, "3.12", 0.0)


def test_a_single_run_is_not_judged_as_if_runs_never_varied() -> None:
    iid, rpr = found({"iid": "10.4", "rpr": "8"}, iid=IID[:1]).figures
    assert (iid.ours, iid.paper, iid.error, iid.rule, iid.within) == (10.0, "10.4", None, "", None)
    assert rpr.within


def test_ours_is_the_mean_of_the_first_seeds_and_the_error_that_of_all() -> None:
    iid, rpr = found({"iid": "8.0", "rpr": "8"}).figures
    assert (iid.ours, iid.lowest, iid.highest, iid.n) == (11.0, 10.0, 16.0, 2)
    assert iid.sd == pytest.approx((20 / 3) ** 0.5)
    assert iid.error == pytest.approx(2.0)
    assert iid.difference == pytest.approx(1.5)
    assert (iid.within, iid.rule) == (True, "errors")
    assert (iid.low, iid.high) == (pytest.approx(11 - 12.706, abs=1e-3), pytest.approx(11 + 12.706, abs=1e-3))
    assert (rpr.error, rpr.difference, rpr.within) == (0.0, None, True)


def test_one_run_of_theirs_makes_the_error_larger() -> None:
    assert found({"iid": "8.0"}, paper_runs=1).figures[0].error == pytest.approx((20 / 3 * 1.5) ** 0.5)


def test_verdict_counts_and_names_what_is_outside() -> None:
    assert found({"iid": "8.0", "rpr": "8"}).verdict == (
        "8 runs were measured, and each figure is a mean over seeds. 2 of 2 figures agree with the paper's."
    )
    assert found({"iid": "4.9", "rpr": "8"}).verdict.endswith(
        f"1 of 2 figures agree with the paper's; outside: {CELL} iid mean."
    )
    assert found({}).verdict.endswith("There is no figure of the paper to stand beside it.")


def test_verdict_begins_with_the_main_contrast() -> None:
    said = found({}, contrasts=(difference("rpr", "iid", key="mean", main=True),), seeds=4).verdict
    assert said.startswith("rpr − iid is −5.00 over 4 seeds (95% interval −9.11 to −0.89, which excludes 0). ")


def test_a_verdict_gives_its_differences_with_the_same_number_of_digits() -> None:
    def one(low: float, mean: float, high: float) -> Any:
        numbers = SimpleNamespace(low=low, mean=mean, high=high, n=4, t=1.0, clear=low > 0)
        return SimpleNamespace(found=numbers, contrast=SimpleNamespace(key="p99"))

    small, large = one(0.0, 0.001, 0.002), one(0.5, 1.2, 1.9)
    assert _said("a − b", [small]) == (
        "a − b is +0.0010 over 4 seeds (95% interval +0.0000 to +0.0020, which includes 0)"
    )
    assert _said("a − b", [small, large]).startswith("a − b is +0.00 to +1.20, with intervals above 0 in 1 of 2")
    assert _said("a − b", [large, large]).startswith("a − b is +1.20 to +1.20,")
    assert _said("a − b", [one(-0.01, 0.001, 0.06)]).startswith(
        "a − b is +0.00 over 4 seeds (95% interval −0.01 to +0.06"
    )


def test_zero_means_zero_in_every_run() -> None:
    zero = {"zero": True}
    held = found({"rpr": "0", "iid": "427.4"}, (420, 430, 425, 426), (0, 0, 0, 0), "violations", zero).figures
    assert [(one.rule, one.within) for one in held] == [("errors", True), ("zero", True)]
    # A single violation in a run that does not even count for the mean.
    broken = found({"rpr": "0"}, rpr=(0, 0, 0, 1), key="violations", column=zero).figures[1]
    assert (broken.ours, broken.within) == (0.0, False)


@pytest.mark.parametrize(
    ("maxima", "printed", "within"),
    [((5, 5, 5, 5), "5", True), ((4, 4, 4, 5), "5", True), ((4, 4, 4, 4), "5", False), ((5, 5, 5, 6), "5", False)],
)
def test_a_bound_is_reached_and_never_passed(maxima: tuple[int, ...], printed: str, within: bool) -> None:
    bound = {"arms": ("rpr",), "bound": lambda cell: 5}
    (figure,) = found({"rpr": printed}, rpr=maxima, key="max", column=bound).figures
    assert (figure.rule, figure.within) == ("bound", within)


def test_figures_beside_the_theory_are_not_judged() -> None:
    ratio = Printed(({"value": "2.41"},), "value")
    one = found({"iid": "8.0", "rpr": "8"}, beside=(TheoryFigure("mean", "iid/rpr", lambda _: 1.25, "a ratio", ratio),))
    (figure,) = one.beside
    assert figure.ours == pytest.approx((10 / 8 + 12 / 8) / 2)
    assert (figure.highest, figure.theory, figure.within, figure.paper) == (2.0, 1.25, None, "2.41")
    assert len(one.judged) == 2


def test_a_figure_that_nothing_defines_is_an_error_unless_the_column_is_open() -> None:
    some = (1.0, 2.0, 3.0, None)
    with pytest.raises(ValueError, match=r"too short for 'mean'.*iid with seed 3"):
        found({}, iid=some)
    iid = found({}, iid=(None, 2.0, 3.0, None), column={"open": True}).figures[0]
    assert (iid.ours, iid.n) == (2.0, 1)
    assert found({}, iid=(None,) * 4, column={"open": True}).figures[0].ours is None


@pytest.mark.parametrize(
    ("paper", "rule", "within"),
    [
        ({"mean": "0.5", "low": "0.1", "high": "0.9"}, "overlap", True),
        ({"mean": "9", "low": "5.1", "high": "12"}, "overlap", False),
        ({"mean": "9", "low": "5.0", "high": "12"}, "overlap", False),
        ({"mean": "9", "low": "4.0", "high": "12"}, "overlap", True),
        ({"mean": "3"}, "inside", True),
        ({"mean": "4.83"}, "inside", True),  # 2 ± 4.303 · √(1/3 + 1/10)
        ({"mean": "4.84"}, "inside", False),
        ({"mean": "4.9"}, "inside", False),
        ({"mean": "5"}, "inside", True),  # by its rounding
        ({"mean": "6"}, "inside", False),
        ({"low": "1", "high": "2"}, "", None),
    ],
)
def test_contrasts_agree_by_their_intervals(paper: dict[str, str], rule: str, within: bool | None) -> None:
    (one,) = found({}, contrasts=(difference("rpr", "iid", key="mean"),)).contrasts
    ours = paired({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 0.0, 2: 0.0})  # 2 ± 2.48
    assert round(ours.high, 2) == 4.48
    assert judge(one.contrast.__class__(**{**vars(one.contrast), "paper": paper}), ours, 10) == (rule, within)


def test_contrasts_are_taken_seed_by_seed_over_the_first_seeds() -> None:
    printed = PrintedContrast(({"delta": "-2.9", "ci_lo": "-3.4", "ci_hi": "-2.4", "rel_pct": ""},))
    asked = difference("rpr", "iid", key="mean", family="f", paper=[printed])
    (one,) = found({}, contrasts=(asked,), seeds=3).contrasts
    assert one.found is not None
    assert (one.found.n, one.found.mean, one.found.positive) == (3, -4.0, 0)
    assert one.holm == one.found.p
    assert (one.rule, one.within, one.paper) == ("overlap", True, "-2.9")


def test_holm_is_within_a_family() -> None:
    asked = [difference("rpr", "iid", key="mean", family=family, name=family) for family in ("a", "a", "b", "")]
    contrasts = found({}, contrasts=tuple(asked), seeds=4).contrasts
    p = contrasts[0].found.p  # type: ignore[union-attr]
    assert [one.holm for one in contrasts] == [2 * p, 2 * p, p, None]


def test_a_family_that_lacks_a_contrast_has_no_holm() -> None:
    asked = (difference("rpr", "iid", key="mean", family="f"), difference("rpr", "iid", key="max", family="f"))
    plan = tiny_plan(4, contrasts=asked, columns=(Column("mean"),))
    runs = runs_of(plan, "mean", {"iid": IID, "rpr": RPR})
    for key, one in runs.records.items():
        runs.records[key] = {**one, "audit": {**one["audit"], "max": None if key[1] == "rpr" else 5}}
    first, second = outcome(plan, runs).contrasts
    assert (first.found is not None, first.holm, second.found, second.holm) == (True, None, None, None)


def test_a_missing_seed_is_named_and_the_rest_compared() -> None:
    asked = (difference("rpr", "iid", key="mean"),)
    one = found({}, iid=IID[:3], contrasts=asked, seeds=4)
    assert one.doubts == (
        "Seed 3 has no run under iid.",
        f"1 run is not there; the first is iid in {CELL} with seed 3.",
    )
    assert one.contrasts[0].found is not None
    assert (one.contrasts[0].found.n, one.contrasts[0].found.missing) == (3, f"iid in {CELL} has no value for 3")
    lonely = found({}, iid=IID[:1], contrasts=asked, seeds=4).contrasts[0]
    assert (lonely.found, lonely.within) == (None, None)
    assert lonely.why.startswith("paired statistics need at least 2 pairs, got 1")


def test_doubtful_pairs_are_named() -> None:
    plan = tiny_plan(columns=(Column("mean"),))
    runs = runs_of(plan, "mean", {"iid": IID, "rpr": RPR})
    key = (CELL, "rpr", 1)
    runs.records[key] = {**runs.records[key], "data": {"train": "ff" * 32}}
    other = (CELL, "iid", 1)
    runs.records[other] = {**runs.records[other], "data": {"train": "00" * 32}}
    assert "The runs had different data" in outcome(plan, runs).doubts[0]


def test_validation_runs_are_a_type_of_their_own() -> None:
    plan = tiny_plan(columns=(Column("mean"),))
    tested = record("iid", 0, {"ema.final": 12.0})
    for kind, split in ((TestRuns, "validation"), (ValidationRuns, "test")):
        with pytest.raises(ValueError, match=f"was tested on {split} images; here are runs tested on {kind.split}"):
            kind(plan.study, False, 4, {(CELL, "iid", 0): {**tested, "split": split}})


def test_validation_runs_are_not_set_beside_the_paper() -> None:
    rows = ({"retrieval": "iid", "value": "8.0"},)
    plan = tiny_plan(columns=(Column("mean", paper=Printed(rows, "value")),))
    runs = runs_of(plan, "mean", {"iid": IID, "rpr": RPR})
    held = ValidationRuns(plan.study, False, 4, runs.records)
    assert len(outcome(plan, runs).judged) == 1
    assert outcome(plan, held).judged == []


def test_cells_that_are_set_against_each_other_are_made_alike_or_doubted() -> None:
    cells = tuple(Cell(name, STUDY.cells[0].settings, {"mask": name}) for name in ("on", "off"))
    both = across("iid", "iid", key="mean", mask=("on", "off"))
    apart = difference("rpr", "iid", key="mean")
    for contrasts, said in (
        ((both,), ["The runs were made with different versions of Reprise: 1 under on, 2 under off."]),
        ((apart,), []),
    ):
        plan = tiny_plan(2, 2, cells=cells, contrasts=contrasts)
        records = {key: record(key[1], key[2], {"mean": key[2]}) for key in plan.keys}
        for (cell, _, _), one in records.items():
            one["provenance"] = {**one["provenance"], "reprise": "1" if cell == "on" else "2"}
        assert list(outcome(plan, TestRuns(plan.study, False, 2, records)).doubts) == said
