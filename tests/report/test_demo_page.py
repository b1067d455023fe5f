"""The demo's page, pictures and sentences: faithful to the numbers, whatever they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pages import needs_nothing_else, read
from records import PROVENANCE, planned, record

from reprise.lab.run_group import RunGroup
from reprise.report.demo_page import CHOICE, MEANING, page, picture
from reprise.report.demo_result import Outcome
from reprise.report.run_pages import made_by


def group(retrieval: str, finals: Mapping[int, float | None]) -> RunGroup:
    return RunGroup(retrieval, {seed: record(retrieval, seed, final) for seed, final in finals.items()})


def outcome(base: Sequence[float | None], more: Sequence[float | None]) -> Outcome:
    return Outcome(group("iid", dict(enumerate(base))), group("rpr", dict(enumerate(more))))


BETTER = outcome([0.20, 0.22, 0.21], [0.25, 0.26, 0.27])
WORSE = outcome([0.25, 0.26, 0.27], [0.20, 0.22, 0.21])
UNCLEAR = outcome([0.20, 0.22, 0.21], [0.25, 0.18, 0.23])
SLIGHT = outcome([0.200, 0.220, 0.210], [0.2025, 0.2226, 0.2127])
MISSING = outcome([0.20, 0.22, None], [0.25, 0.26, 0.27])
shown = cache(lambda: page(BETTER, "", ""))  # drawn once
ALL = {"better": BETTER, "worse": WORSE, "unclear": UNCLEAR, "slight": SLIGHT, "missing": MISSING}


def test_curve_is_the_mean_over_tasks_of_what_was_named() -> None:
    # After task 0: (0.5·10 + 0.1·30) / 40 = 0.2. After task 1: task 0 has (2 + 12) / 40 = 0.35, task 1 0.75.
    curves = BETTER.arm.learning_curves()
    assert curves.shape == (3, 2)
    assert curves[0] == pytest.approx([0.2, (0.35 + 0.75) / 2])


def test_waits_are_those_of_the_audits() -> None:
    base, more = BETTER.base, BETTER.arm
    audits = [planned("iid", seed)[1] for seed in base.records]
    gaps = np.concatenate([audit.gaps for audit in audits])
    np.testing.assert_allclose(base.tail, [(gaps >= step).mean() for step in range(1, gaps.max() + 1)])
    assert base.longest == max(audit.longest or 0 for audit in audits)
    assert (base.bound, more.bound) == (None, 9)  # 2⌈20/4⌉ − 1
    assert more.longest <= 9 < base.longest
    assert base.broken == np.mean([audit.violations + audit.overdue for audit in audits]) > 0 == more.broken


def test_a_wait_that_never_ended_is_the_longest() -> None:
    late = group("iid", {0: 0.2, 1: 0.2})
    for found in late.records.values():
        found["audit"]["open_max"] = 99
    shown = Outcome(late, group("rpr", {0: 0.2, 1: 0.3}))
    assert late.longest == 99 > len(late.tail)
    assert "was 99 steps under iid" in shown.sentences[0]
    assert "the ring a longest wait that is no gap" in page(shown, "", "")
    assert "the ring" not in page(BETTER, "", "")
    assert picture(shown)[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", ALL)
def test_there_are_two_sentences(name: str) -> None:
    assert len(ALL[name].sentences) == 2
    assert all(re.fullmatch(r"[^.]*(\.\d[^.]*)*\.", sentence) for sentence in ALL[name].sentences)


def test_sentence_on_waits_gives_both() -> None:
    waits = BETTER.sentences[0]
    assert f"{BETTER.base.longest} steps under iid and {BETTER.arm.longest} under rpr (9 is proved" in waits
    assert waits.endswith("a run under iid, none under rpr.")


def test_sentence_on_accuracy_claims_what_was_measured() -> None:
    better, worse, slight = (one.sentences[1] for one in (BETTER, WORSE, SLIGHT))
    assert "Over 3 pairs of runs that differ" in better
    assert "26.0% of test images under rpr and 21.0% under iid, +5.0 points apart" in better
    assert "95% interval from +2.5 to +7.5: here rpr learned better (for the live network it is" in better
    assert "−5.0 points apart" in worse
    assert "from −7.5 to −2.5: here iid learned better (" in worse
    assert "here rpr learned better, though by little (" in slight


def test_interval_with_zero_claims_nothing() -> None:
    said = UNCLEAR.sentences[1]
    assert ": the interval includes 0, so these runs do not show which of the two learns better (" in said
    assert "learned better" not in page(UNCLEAR, "", "")
    for shown, verdict in ((UNCLEAR, "the interval includes 0"), (BETTER, "the interval excludes 0")):
        assert re.findall(r"the interval \w+ 0", read(page(shown, "", "")).text) in ([verdict], [verdict] * 2)


def test_other_read_out_is_told_beside() -> None:
    other = BETTER.contrast("live")
    assert other.mean == pytest.approx(0.025)
    assert BETTER.sentences[1].endswith("(for the live network it is +2.5 points, from +1.3 to +3.7).")


def test_missing_pair_is_named() -> None:
    assert "Over 2 pairs of runs (b has no value for 2, where a is rpr and b is iid)" in MISSING.sentences[1]
    assert "<td>—</td>" in page(MISSING, "", "")
    assert MISSING.comparison.means() == pytest.approx((0.255, 0.21))  # the third run has no partner


@pytest.mark.parametrize("name", ALL)
def test_page_needs_nothing_else(name: str) -> None:
    text = page(ALL[name], "reprise demo --out '<b>&'", '0.1"', 204.6)
    reader = needs_nothing_else(text)
    assert sum(name == "id" for name, _ in reader.attributes) > 30
    assert text.count("<svg") == 3
    assert "reprise demo --out '<b>&'" in reader.text
    assert "<b>&'" not in text
    assert "<glyphs>" not in text
    assert 'Made by Reprise 0.1" in 205 seconds with' in reader.text
    assert " ".join(ALL[name].sentences[1].split()) in reader.text


def test_page_shows_every_pair() -> None:
    text = read(shown()).text
    for cell in ("20.0", "22.0", "21.0", "25.0", "26.0", "27.0", "+5.0", "+4.0", "+6.0", "+2.5 to +7.5", "8.66"):
        assert cell in text
    assert "+24% of iid's accuracy and its interval excludes 0, so it is" in text
    assert "so it is not" in read(page(SLIGHT, "", "")).text


def test_page_explains_both_schedules_before_it_compares_them() -> None:
    text = read(shown()).text
    for name in ("iid", "rpr"):
        assert f"{name}{MEANING[name]}" in text
        assert text.index(MEANING[name]) < text.index("each pair of runs") < text.index("What it means")


def test_page_says_how_its_setting_was_chosen_as_the_docs_do() -> None:
    docs = Path(__file__).parents[2] / "docs" / "demo.md"
    assert CHOICE in read(shown()).text
    assert CHOICE in " ".join(docs.read_text(encoding="utf-8").split())


def test_page_names_versions_and_machine() -> None:
    made = "Reprise 0.1.0, Python 3.12.1, NumPy 2.4.6, torch 2.13.0+cpu on Linux x86_64, CPU, AVX2, 1 thread"
    assert f"\nTrained by {made}.\n" in read(shown()).text
    other = record("iid", provenance=PROVENANCE | {"torch": "<2.14>", "threads": 2})
    both = f"{made} and by {made}.".replace("2.13.0+cpu", "<2.14>", 1).replace("1 thread ", "2 threads ")
    assert made_by([other, record("rpr"), other]) == f"Trained by {both}"


@pytest.mark.parametrize("name", ALL)
def test_picture_is_a_small_png(name: str) -> None:
    drawn = picture(ALL[name])
    assert drawn[:4] == b"\x89PNG"
    assert 10_000 < len(drawn) < 200_000
    assert drawn == picture(ALL[name])
