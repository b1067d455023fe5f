"""The comparison with the paper, on numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reprise.execute import Here
from reprise.lab import Column, Study, StudyPlan, TheoryFigure
from reprise.report.study_tables import as_json, csv_table, difference, markdown, ours
from reprise.runs import Store
from reprise.studies import compare as module
from reprise.studies.compare import Comparison, agrees, compare, half_unit, rules, standard_error

SETTING = "C=6 b=2"
MEAN = Column("mean")
IID = (10.0, 12.0, 14.0, 16.0)  # mean of two 11, variance of four 20/3; so with ten runs of theirs the error is 2
RPR = (8.0, 8.0, 8.0, 8.0)


@pytest.fixture
def result(tiny: Study, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compares hand-made figures of key `mean` with what the paper is said to print."""

    def made(
        printed: dict[str, str],
        iid: Sequence[float] = IID,
        rpr: Sequence[float] = RPR,
        column: Column = MEAN,
        **changes: Any,
    ) -> Comparison:
        study = replace(tiny, columns=(column,), **changes)
        plan = StudyPlan(study, seeds=2, error_seeds=4)
        monkeypatch.setattr(
            module, "paper_figures", lambda _: {(SETTING, arm, column.key): figure for arm, figure in printed.items()}
        )
        values = {"iid": iid, "rpr": rpr}
        records = [
            {"audit": {column.key: values[run.memory.retrieval][run.seed]}, "provenance": {"reprise": "0.1.0"}}
            for run in plan.runs
        ]
        return compare(plan, records)

    return made


def test_standard_error_of_two_means() -> None:
    assert standard_error(3.0, 10, 10) == pytest.approx(3.0 / 5**0.5)
    assert standard_error(3.0, 10, 1) == pytest.approx(3.0 * 1.1**0.5)


@pytest.mark.parametrize(("printed", "half"), [("6.63", 0.005), ("0.739", 0.0005), ("1032.8", 0.05), ("9", 0.5)])
def test_rounding_is_half_a_unit_of_the_last_digit(printed: str, half: float) -> None:
    assert half_unit(printed) == half


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


def test_ours_is_the_mean_of_the_first_seeds_and_the_error_that_of_all(result: Any) -> None:
    iid, rpr = result({"iid": "8.0", "rpr": "8"}).figures
    assert (iid.ours, iid.lowest, iid.highest) == (11.0, 10.0, 16.0)
    assert iid.sd == pytest.approx((20 / 3) ** 0.5)
    assert iid.error == pytest.approx(2.0)
    assert iid.difference == pytest.approx(1.5)
    assert (iid.within, iid.rule, difference(iid), ours(iid)) == (True, "errors", "+1.5", "11.00")
    assert (rpr.error, rpr.difference, rpr.within, difference(rpr), ours(rpr)) == (0.0, None, True, "–", "8.0")


def test_one_run_of_theirs_makes_the_error_larger(result: Any) -> None:
    assert result({"iid": "8.0"}, paper_runs=1).figures[0].error == pytest.approx((20 / 3 * 1.5) ** 0.5)


def test_verdict_counts_and_names_what_is_outside(result: Any) -> None:
    good = result({"iid": "8.0", "rpr": "8"})
    assert good.verdict == "2 of 2 cells within three standard errors"
    bad = result({"iid": "4.9", "rpr": "8"})
    assert bad.verdict == f"1 of 2 cells within three standard errors; outside: {SETTING} iid mean"
    assert difference(bad.figures[0]) == "+3.0 outside"
    assert "**11.00 (4.9) +3.0 outside**" in markdown(bad)


def test_rounding_that_explains_a_difference_is_marked(result: Any) -> None:
    close = result({"rpr": "8.4"}, rpr=(8.45, 8.45, 8.4501, 8.45)).figures[1]
    assert close.within
    assert close.difference > 3
    assert difference(close).endswith(" r")


def test_zero_means_zero_in_every_run(result: Any) -> None:
    column = Column("violations", zero=True)
    held = result({"rpr": "0", "iid": "427.4"}, iid=(420, 430, 425, 426), rpr=(0, 0, 0, 0), column=column).figures
    assert [(one.rule, one.within) for one in held] == [("errors", True), ("zero", True)]
    # A single violation in a run that does not even count for the mean.
    broken = result({"rpr": "0"}, rpr=(0, 0, 0, 1), column=column).figures[1]
    assert (broken.ours, broken.within) == (0.0, False)
    assert difference(broken).endswith("outside")


@pytest.mark.parametrize(
    ("maxima", "printed", "within"),
    [((5, 5, 5, 5), "5", True), ((4, 4, 4, 5), "5", True), ((4, 4, 4, 4), "5", False), ((5, 5, 5, 6), "5", False)],
)
def test_a_bound_is_reached_and_never_passed(result: Any, maxima: tuple[int, ...], printed: str, within: bool) -> None:
    column = Column("max", arms=("rpr",), bound=lambda setting: 5)
    (figure,) = result({"rpr": printed}, rpr=maxima, column=column).figures
    assert (figure.rule, figure.within) == ("bound", within)


def test_figures_beside_the_theory_are_not_judged(result: Any) -> None:
    beside = (TheoryFigure("mean", "iid/rpr", lambda setting: 1.25, "a ratio"),)
    found = result({"iid": "8.0", "rpr": "8", "iid/rpr": "2.41"}, beside=beside)
    (figure,) = found.beside
    assert figure.ours == pytest.approx((10 / 8 + 12 / 8) / 2)
    assert (figure.highest, figure.theory, figure.within, figure.paper) == (2.0, 1.25, None, "2.41")
    assert len(found.judged) == 2
    assert "| C=6 b=2 | iid/rpr | mean | 1.375 | 1.250 to 2.000 | 2.41 | 1.250 | a ratio |" in markdown(found)
    assert csv_table(found).count("\n") == 4


def test_what_the_paper_does_not_print_is_shown_and_not_judged(result: Any) -> None:
    found = result({"iid": "8.0"})
    assert [one.within for one in found.figures] == [True, None]
    assert found.verdict.startswith("1 of 1 ")


def test_a_figure_that_nothing_defines_is_an_error(result: Any) -> None:
    with pytest.raises(ValueError, match=r"too short for 'mean'.*iid with seed 3"):
        result({"iid": "8.0"}, iid=(1.0, 2.0, 3.0, None))


def test_rules_state_the_rounding_and_the_runs(tiny: Study) -> None:
    said = " ".join(rules(StudyPlan(tiny)))
    assert "√(1/10 + 1/10)" in said
    assert "seeds 0 to 9" in said
    assert "40 seeds" in said
    assert "half a unit of the paper's last printed digit" in said


def test_json_has_an_object_for_every_setting_and_arm(
    plan: StudyPlan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "paper_figures", lambda _: {(SETTING, "rpr", "max"): "5"})
    records = plan.execute(store, Here())
    iid, rpr = as_json(compare(plan, records), records)
    assert (iid["retrieval"], rpr["retrieval"]) == ("iid", "rpr")
    assert (rpr["stream"], rpr["storage"], rpr["buffer"], rpr["replay"]) == ("still-6", "reservoir", 12, 2)
    assert (rpr["seeds"], rpr["error_seeds"], rpr["steps"]) == (2, 5, 30)
    assert [one["seed"] for one in rpr["per_seed"]] == [0, 1]
    assert rpr["max"] == sum(one["max"] for one in rpr["per_seed"]) / 2
    assert [one["figure"] for one in rpr["compared"]] == ["mean", "max"]
    assert rpr["compared"][1]["paper"] == "5"
