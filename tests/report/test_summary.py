"""Rows, tables and sentences."""

from __future__ import annotations

from typing import Any

import pytest

from reprise.execute.one import audit
from reprise.report import Summary, groups, summarise
from reprise.report.reading import read
from reprise.report.summary import caption, group_title
from reprise.report.tables import GAPS, REST, columns, text_reading
from reprise.runs import Run


def plain(retrieval: str, **settings: Any) -> Run:
    """A run of labels alone."""
    return Run.of(learner=None, retrieval=retrieval, **settings)


def made(*runs: Run) -> list[Summary]:
    return summarise([audit(run) for run in runs])


def changed(row: Summary, *changes: dict[str, Any]) -> Summary:
    """The row with other figures: the same for all seeds, or for each its own."""
    each = changes * len(row.records) if len(changes) == 1 else changes
    records = [{**record, "audit": {**record["audit"], **one}} for record, one in zip(row.records, each, strict=True)]
    return Summary(row.run, tuple(records))


@pytest.fixture(scope="module")
def pair() -> list[Summary]:
    return made(*(plain(name, classes=20, steps=80, replay=4, seed=s) for name in ("iid", "rpr") for s in (0, 1)))


def test_rows_gather_seeds_in_order() -> None:
    runs = [plain(name, classes=4, steps=9, seed=seed) for seed in (5, 3) for name in ("rpr", "iid")]
    found = made(*runs)
    assert [(row.retrieval, row.seeds) for row in found] == [("rpr", (5, 3)), ("iid", (5, 3))]
    assert [record["tape"] for record in found[0].records] == [audit(run)["tape"] for run in runs[::2]]


def test_groups_differ_in_retrieval_alone() -> None:
    runs = [plain(name, classes=4, steps=9, buffer=size) for name in ("rpr", "iid") for size in (4, 8)]
    assert [[row.retrieval for row in group] for group in groups(made(*runs))] == [["rpr", "iid"]] * 2


@pytest.mark.parametrize(
    ("retrieval", "bound"),
    [
        ("uniform", None),
        ("iid", None),
        ("fixed", 5),
        ("rpr", 9),
        ("rpr+pass", 9),
        ("window:0.5", 8),
        ("deadline:1.5", 8),
    ],
)
def test_bound_is_the_schedule_s_own(retrieval: str, bound: int | None) -> None:
    (row,) = made(plain(retrieval, classes=20, steps=5, replay=4))
    assert row.bound == bound


def test_bound_of_a_stream_is_for_the_most_classes_ever_there() -> None:
    (row,) = made(
        plain("rpr", dataset="cifar10", imbalance=10, replay=2),
        plain("rpr", dataset="cifar10", imbalance=10, replay=2, seed=1),
    )
    assert (row.classes, row.bound) == (10, 9)


def test_reading_of_a_wait_beyond_the_bound_of_a_fixed_set(pair: list[Summary]) -> None:
    rpr = pair[1]
    late = changed(rpr, {"open_max": 11}, {})
    assert "11 under rpr (bound 9 for classes that stay; here they came and went)" in read([late])[0]
    assert "9 under rpr (bound 9)" in read([rpr])[0]


def test_reading_counts_what_broke(pair: list[Summary]) -> None:
    iid, rpr = pair
    broke = changed(iid, *({"violations": count, "overdue": 20} for count in (3, 4)))
    assert read([broke, rpr])[1].endswith(
        ". A run had 3.5 gaps and 20 other waits past that bound under iid, none under rpr."
    )
    assert "past that bound under iid and 3.5 and 20 under iid." in read([broke, broke])[1]
    open_ = changed(rpr, {"overdue": 2})
    assert "A run had 0 gaps and 2 other waits past that bound under rpr." in read([open_])[1]
    assert "rpr kept to that bound throughout" in read([rpr])[1]


def test_reading_of_nothing() -> None:
    (row,) = made(plain("rpr", classes=2, steps=1, replay=1))
    assert (
        read([row])[0]
        == "No class came back while it was stored; the longest wait, ended or not, was 1 under rpr (bound 3)."
    )
    nobody = {"mean": None, "max": None, "first_max": None, "open_max": None}
    empty = changed(row, {**nobody, "pair_coverage": None})
    assert read([empty]) == ["No class was stored when a batch was drawn, so there is no wait to report."]


def test_reading_of_several_groups_names_them() -> None:
    rows = made(*(plain("rpr", classes=4, steps=9, buffer=size) for size in (4, 8)))
    first, second = text_reading(rows)
    assert first.startswith("4 classes that stay, reservoir of 4. A stored class came back after ")
    assert second.startswith("4 classes that stay, reservoir of 8. ")


def test_columns_that_do_not_vary_move_to_the_caption() -> None:
    one = plain("rpr", dataset="cifar10", imbalance=10, buffer=40)
    same = made(one)
    assert [column.head for column in columns(same)][:2] == ["retrieval", "mean"]
    assert caption(same).startswith("cifar10-lt10 · reservoir of 40 · ")
    assert group_title(same) == "cifar10-lt10, reservoir of 40"
    other = made(one, plain("rpr", dataset="cifar10", imbalance=100, storage="fifo", buffer=50))
    assert [column.head for column in columns(other)][:4] == ["stream", "storage", "buffer", "retrieval"]
    assert caption(other).endswith(" steps · 8 replayed a step · seed 0")
    assert "reservoir" not in caption(other)


def test_cells_have_decimals_where_one_needs_them_and_zero_is_zero(pair: list[Summary]) -> None:
    iid, rpr = pair
    halves = changed(rpr, {"max": 8}, {"max": 9})
    heads = {column.head: column for column in (*GAPS, *REST)}
    assert heads["max"].cells([rpr, rpr]) == ["9", "9"]
    assert heads["max"].cells([halves, rpr]) == ["8.5", "9.0"]
    few = changed(iid, {"violations": 0}, {"violations": 1})
    assert heads["violations"].cells([few, rpr]) == ["0.5", "0"]
    none = changed(rpr, {"p95": None, "exposure_min": None})
    assert heads["p95"].cells([none]) == heads["exposure"].cells([none]) == ["—"]


def test_whatever_varies_tells_rows_apart() -> None:
    settings = [{"replay": replay, "draws": draws} for replay in (2, 4) for draws in (1, 2)]
    rows = made(*(plain(name, classes=8, steps=20, **one) for one in settings for name in ("iid", "rpr")))
    heads = [column.head for column in columns(rows)]
    assert heads[:3] == ["replay", "draws", "retrieval"]
    cells = list(zip(*(column.cells(rows) for column in columns(rows)[:3]), strict=True))
    assert len(set(cells)) == len(rows) == 8
    assert "replayed" not in caption(rows)
    titles = [group_title(group, rows) for group in groups(rows)]
    assert titles[1] == "8 classes that stay, reservoir of 400, replay 2, draws 2"
    assert len({str(row.to_dict()["run"]) for row in rows}) == 8
    assert "2 × 4 replayed a step" in caption(rows[-2:])
