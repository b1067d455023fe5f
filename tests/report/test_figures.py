"""Pictures: the numbers drawn are the audit's, and files are what they say they are."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reprise.audit import Audit, measure
from reprise.execute.one import audit
from reprise.report import Summary, groups, summarise
from reprise.report.figures import COLOURS, Band, column_svg, save
from reprise.report.panels import Panel, class_count, panel
from reprise.runs import Run, make_plan
from reprise.runs.tapes import MOST_CELLS
from reprise.runs.tapes import summarise as summarise_tape


def plain(retrieval: str, **settings: Any) -> Run:
    """A run of labels alone."""
    return Run.of(learner=None, retrieval=retrieval, **settings)


def measured(row: Summary) -> list[Audit]:
    """The audits of a row, with all that its records only sum up."""
    plans = [make_plan(row.run.replace(seed=seed)) for seed in row.seeds]
    return [measure(plan.tape) for plan in plans if plan.tape is not None]


def rows(retrievals: Sequence[str], seeds: int = 1, **facts: Any) -> list[Summary]:
    runs = [plain(retrieval, seed=seed, **facts) for retrieval in retrievals for seed in range(seeds)]
    return summarise([audit(run) for run in runs])


def only(retrieval: str, seeds: int = 1, **facts: Any) -> tuple[Summary, Panel]:
    (row,) = rows([retrieval], seeds, **facts)
    return row, panel(row, class_count([row]))


def test_tail_is_the_share_of_gaps_of_at_least_so_many_steps() -> None:
    row, drawn = only("iid", seeds=3, classes=20, steps=200, replay=4)
    gaps = np.concatenate([audit.gaps for audit in measured(row)])
    assert drawn.steps.tolist() == list(range(1, gaps.max() + 1))
    np.testing.assert_allclose(drawn.tail, [(gaps >= step).mean() for step in drawn.steps], rtol=1e-12)


@pytest.mark.parametrize(
    ("retrieval", "classes"),
    [
        (retrieval, classes)
        for classes in (24, 27)
        for retrieval in (
            "uniform",
            "iid",
            "fixed",
            "rpr+pass",
            "frozen-pass",
            "frozen-iid",
            "deadline:1.5",
            "hybrid:4",
        )
    ],
)
def test_law_beside_the_tail_is_the_policy_s_own(retrieval: str, classes: int) -> None:
    row, drawn = only(retrieval, classes=classes, steps=6000, replay=8)
    gaps = int(row.gap_counts.sum())
    length = min(len(drawn.law), len(drawn.tail))
    # Gaps of one run hang together a little, and a deadline's law is close rather than exact: so 2 %, where a wrong
    # law is off by more than ten.
    assert gaps > 8000
    assert np.abs(drawn.law[:length] - drawn.tail[:length]).max() < 0.02
    assert np.append(drawn.law[length:], drawn.tail[length:]).max(initial=0.0) < 0.02


@pytest.mark.parametrize("retrieval", ["window:0.5", "reused:4", "frozen-pass:9"])
def test_no_law_where_none_is_known(retrieval: str) -> None:
    assert not len(only(retrieval, classes=27, steps=50)[1].law)


def test_law_is_drawn_as_far_as_it_goes_and_no_further() -> None:
    law = only("rpr", classes=24, steps=4)[1].law  # four steps show few gaps, and the law has all it allows
    np.testing.assert_allclose(law, [1, 8 / 9, 6 / 9, 3 / 9, 1 / 9])
    assert len(only("deadline:1e12", classes=24, steps=300)[1].law) < 300  # a bound out of sight


def test_no_law_where_classes_come_and_go() -> None:
    assert not len(only("iid", dataset="cifar10", imbalance=10, buffer=50)[1].law)


def test_pairs_of_many_classes_share_cells() -> None:
    row, drawn = only("rpr", classes=2 * MOST_CELLS + 3, steps=200)
    assert drawn.per_cell == 3
    assert drawn.pairs.shape == (68, 68)
    whole = measured(row)[0].pairs()
    assert drawn.pairs.sum() == whole.sum()
    assert drawn.pairs[0, 1] == whole[0:3, 3:6].sum()
    assert drawn.pairs[5, 5] == whole[15:18, 15:18].sum()


def test_map_is_of_the_first_seed() -> None:
    row, drawn = only("frozen-pass", seeds=2, classes=24, steps=50)
    first, second = (audit.pairs() for audit in measured(row))
    np.testing.assert_array_equal(drawn.pairs, first)
    assert (first != second).any()


def test_exposure_over_seeds() -> None:
    row, drawn = only("iid", seeds=3, classes=6, steps=40, replay=2)
    table = np.stack([audit.exposure for audit in measured(row)])
    np.testing.assert_allclose(drawn.exposure, table.mean(axis=0))
    np.testing.assert_array_equal(drawn.spread, [table.min(axis=0), table.max(axis=0)])
    assert drawn.even == pytest.approx(1 / 3)


def test_exposure_where_a_class_is_met_in_some_seeds_only() -> None:
    run = plain("iid", dataset="cifar100", imbalance=100, buffer=30)
    records = [audit(run.replace(seed=seed)) for seed in (0, 1)]
    first, second = (set(record["exposure"]["classes"]) for record in records)
    assert first != second
    drawn = panel(Summary(run, tuple(records)), 100)
    assert set(drawn.exposed.tolist()) == first | second
    assert np.isfinite(drawn.exposure).all()


def test_axes_are_shared() -> None:
    band = Band.of(rows(["fixed", "iid", "rpr"], classes=30, steps=300))
    assert band.longest == band.panels[1].longest
    assert band.most_pairs == band.panels[0].pairs.max()
    assert band.rarest == min(one.tail[-1] for one in band.panels)


def test_bound_is_drawn_where_one_is_proved() -> None:
    band = Band.of(rows(["iid", "rpr"], classes=30, steps=300))
    dashed = [column_svg(band, place).count("stroke-dasharray: 4,2") for place in (0, 1)]
    assert dashed == [0, 1]


def test_a_longest_wait_that_is_no_gap_is_a_ring() -> None:
    found = rows(["uniform", "rpr"], dataset="cifar10", imbalance=10, buffer=50)
    (record,) = found[0].records
    late = Summary(found[0].run, ({**record, "audit": {**record["audit"], "open_max": 999}},))
    band = Band.of([late, found[1]])
    assert (band.longest, band.panels[0].longest) == (999, 999)
    assert "longest wait 999, no bound" in column_svg(band, 0)
    ringed, plain = (save(group, "svg").decode() for group in ([late, found[1]], found[1:]))
    assert "longest wait that is no gap" in ringed
    assert "longest wait that is no gap" not in plain


CASES: dict[str, list[Run]] = {
    "one class": [plain(name, classes=1, steps=5) for name in ("uniform", "rpr")],
    "no gap at all": [plain(name, classes=50, steps=1) for name in ("uniform", "rpr", "iid")],
    "uniform alone, on a stream": [plain("uniform", dataset="cifar10", imbalance=10)],
    "two bands, one of two lines": [
        plain(name, classes=classes, steps=60, replay=4, seed=seed)
        for classes, names in ((10, ("iid", "fixed", "rpr", "reused:4", "hybrid:2")), (12, ("rpr",)))
        for name in names
        for seed in (0, 1)
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_picture_files(case: str) -> None:
    found = summarise([audit(run) for run in CASES[case]])
    png = save(found, "png")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 10_000
    svg = save(found, "svg")
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


def test_same_figures_give_the_same_file() -> None:
    runs = CASES["two bands, one of two lines"]
    first, second = (save(summarise([audit(run) for run in runs]), "svg") for _ in range(2))
    assert first == second
    assert b"<dc:date>" not in first


def test_every_row_has_its_colour() -> None:
    (group,) = groups(rows(["iid", "fixed", "rpr"], classes=10, steps=30))
    svg = save(group, "svg").decode()
    assert all(colour in svg for colour in COLOURS[:3])
    assert COLOURS[3] not in svg


def test_a_memory_that_never_held_anything() -> None:
    """The audit of a tape without a single draw that found something can be drawn, too."""
    run = plain("rpr", classes=3, steps=1)
    tape = make_plan(run).tape
    assert tape is not None
    empty = replace(
        tape,
        initial=np.empty(0, np.int64),
        replay=np.full_like(tape.replay, -1),
        slots=np.full_like(tape.slots, -1),
    )
    row = Summary(run, ({**audit(run), **summarise_tape(empty)},))
    assert row.bound is None
    assert save([row], "png").startswith(b"\x89PNG")
