"""Standard deviations and statistics that the paper prints stand beside ours, and deviations are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_records import campaign_file, made_outcome
from pages import read
from report.papers import PRINTED, TRAINED
from scipy import stats

from reprise.lab import Column, PrintedContrast, Study, StudyPlan, difference
from reprise.lab.distributions import deviation_interval
from reprise.lab.outcome import StudyOutcome, outcome
from reprise.lab.printed_tables import Printed
from reprise.report.campaign_report import CampaignReport
from reprise.report.study_data import as_json
from reprise.report.study_page import page
from reprise.report.study_text import markdown

TESTS = {"mean": "delta", "sd": "sd", "t": "t", "p": "p", "holm": "p_holm", "positive": "k", "relative": "rel"}
ROW = {"delta": "2.9", "t": "6.1", "p": "1.8e-4", "p_holm": "3.5e-4", "k": "9", "rel": "-12.5"}


def study(sd: str, contrast_sd: str) -> Study:
    rows = tuple({**row, "sd": sd} for row in PRINTED)
    tests = PrintedContrast(({**ROW, "storage": "reservoir", "sd": contrast_sd},), {}, TESTS)
    return replace(
        TRAINED,
        columns=(Column("ema.final", paper=Printed(rows, "accuracy"), spread=Printed(rows, "sd")), Column("max")),
        contrasts=(difference("rpr", "iid", paper=[tests], main=True),),
    )


def outcome_of(sd: str, contrast_sd: str = "1.0") -> StudyOutcome:
    return made_outcome(study(sd, contrast_sd))


def test_the_interval_of_a_deviation_is_that_of_chi_square() -> None:
    low, high = deviation_interval(0.7, 30)
    assert [low, high] == pytest.approx([0.7 * (29 / stats.chi2.ppf(q, 29)) ** 0.5 for q in (0.975, 0.025)])


def test_deviations_agree_if_their_intervals_overlap() -> None:
    found = outcome_of("1.00")
    runs = {(one.cell, one.arm): one for one in found.spreads if " − " not in one.arm}
    assert len(runs) == 4
    for one in runs.values():
        figure = next(each for each in found.figures if (each.cell, each.arm) == (one.cell, one.arm))
        assert (one.ours, one.n, one.paper) == (figure.sd, 3, "1.00")
        low, high = (one.ours * (2 / stats.chi2.ppf(q, 2)) ** 0.5 for q in (0.975, 0.025))
        assert (one.low, one.high) == pytest.approx((low, high))
    mine = runs[next(iter(runs))]
    factor = [(9 / stats.chi2.ppf(q, 9)) ** 0.5 for q in (0.975, 0.025)]
    for scale, agrees in ((0.98, True), (1.02, False)):  # the paper's just below, and just beyond
        for printed in (mine.high / factor[0] * scale, mine.low / factor[1] / scale):
            one = outcome_of(f"{printed:.6f}").spreads[0]
            assert one.within is agrees, (scale, printed)


def test_the_rounding_of_a_printed_deviation_is_allowed() -> None:
    mine = outcome_of("1.00").spreads[0]
    most = mine.high / (9 / stats.chi2.ppf(0.975, 9)) ** 0.5
    printed = int(most) + 1  # beyond, as it stands, but it may be of anything from half a unit less
    assert printed - 0.5 <= most
    assert outcome_of(str(printed)).spreads[0].within
    assert not outcome_of(f"{printed}.000").spreads[0].within


def test_deviations_of_contrasts_are_beside_the_papers() -> None:
    found = outcome_of("1.00", "1.234")
    (one,) = (one for one in found.spreads if one.arm == "rpr − iid")
    statistics = found.contrasts[0].found
    assert statistics is not None
    assert (one.ours, one.paper, one.cell) == (statistics.sd, "1.234", found.contrasts[0].contrast.label)


def test_a_deviation_goes_with_the_runs_that_it_is_of() -> None:
    """Not with those of the mean, which may be fewer."""
    whole = made_outcome(study("1.00", "1.0"))
    found = outcome(StudyPlan(whole.plan.study, 2, 3), whole.runs)
    assert {one.n for one in found.figures} == {2}
    assert [one for one in found.spreads if one.n == 3] == [one for one in whole.spreads if " − " not in one.arm]


def test_they_count_among_what_is_judged() -> None:
    far = outcome_of("0.0001", "0.0001")
    assert len(far.spreads) == 5
    assert {*far.spreads} <= {*far.outside}
    assert len(far.judged) == len(outcome_of("1.00").judged)
    assert "sd of ema.final" in replace(far, figures=(), contrasts=()).verdict
    small = made_outcome(study("1.00", "1.0"), small=True)
    assert small.spreads == ()


def test_pages_show_what_else_the_paper_prints() -> None:
    found = outcome_of("1.00", "1.234")
    report = CampaignReport(found, campaign_file(found.plan))
    mine = found.contrasts[0].found
    assert mine is not None
    text, html = markdown(report), read(page(report)).text
    for said in (text, html):
        assert "Statistics that the paper prints" in said
        assert f"{mine.t:.2f} (6.1)".replace("-", "−") in said
        assert "(1.8e−4)" in said
        assert "(−12.5%)" in said
        assert f"{mine.positive} of 3 (9)" in said
        assert "1.234" in said
        assert "by χ², and that of the paper's, of 10 runs, overlap" in said
    assert len(as_json(found)["spreads"]) == 5
    without = markdown(CampaignReport(made_outcome(TRAINED), campaign_file(made_outcome(TRAINED).plan)))
    assert "Standard deviations that" not in without
